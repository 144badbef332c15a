// One lazily made object a thread, legal to ask for at any time: after the thread's destructors ran there is
// none, instead of a dead one. Knows nothing of what it holds.
#pragma once

#include <new>

namespace csajit {

template <class T>
class ThreadSlot {
 public:
  // The calling thread's object, or nullptr where memory ran out or the thread is past its destructors (an
  // atexit handler or another object's destructor may still call in).
  static T* get() noexcept {
    if (object_ == nullptr && !gone_) make();
    return object_;
  }

 private:
  struct Guard {
    ~Guard() {
      delete object_;
      object_ = nullptr;
      gone_ = true;
    }
  };

  static void make() noexcept {
    static thread_local Guard guard;
    static_cast<void>(&guard);  // its destructor is registered by passing here
    try {
      object_ = new T;
    } catch (...) {
      object_ = nullptr;
    }
  }

  static inline thread_local constinit T* object_ = nullptr;
  static inline thread_local constinit bool gone_ = false;
};

}  // namespace csajit
