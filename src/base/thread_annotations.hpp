// A mutex that Clang's -Wthread-safety can follow, and the words to say what it guards. No other lock is used.
#pragma once

#include <mutex>

#if defined(__clang__)
#define CSAJIT_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define CSAJIT_THREAD_ATTRIBUTE(x)
#endif

#define CSAJIT_CAPABILITY(name) CSAJIT_THREAD_ATTRIBUTE(capability(name))
#define CSAJIT_SCOPED_CAPABILITY CSAJIT_THREAD_ATTRIBUTE(scoped_lockable)
#define CSAJIT_GUARDED_BY(mutex) CSAJIT_THREAD_ATTRIBUTE(guarded_by(mutex))
#define CSAJIT_PT_GUARDED_BY(mutex) CSAJIT_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
#define CSAJIT_REQUIRES(...) CSAJIT_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define CSAJIT_EXCLUDES(...) CSAJIT_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define CSAJIT_ACQUIRE(...) CSAJIT_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define CSAJIT_RELEASE(...) CSAJIT_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace csajit {

class CSAJIT_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() CSAJIT_ACQUIRE() { mutex_.lock(); }
  void unlock() CSAJIT_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Holds a Mutex for its scope.
class CSAJIT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CSAJIT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() CSAJIT_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace csajit
