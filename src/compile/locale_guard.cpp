// The one place that touches the locale.
#include "compile/locale_guard.hpp"

#include <string>

#include "base/thread_annotations.hpp"

namespace csajit {
namespace {

// Compiles overlap: the first one in sees the host's locale, the last one out restores it. A later one's own view
// would already be NVRTC's.
struct Shared {
  Mutex mutex;
  int inside CSAJIT_GUARDED_BY(mutex) = 0;
  std::string numeric CSAJIT_GUARDED_BY(mutex);
};

// Never destroyed: a compile may still run in another thread while the process exits.
Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

}  // namespace

LocaleGuard::LocaleGuard() {
  Shared& state = shared();
  {
    const MutexLock lock(state.mutex);
    if (state.inside++ == 0) {
      const char* now = std::setlocale(LC_NUMERIC, nullptr);
      state.numeric = now != nullptr ? now : "";
    }
  }
  classic_ = newlocale(LC_ALL_MASK, "C", nullptr);
  if (classic_ != nullptr) before_ = uselocale(classic_);
}

LocaleGuard::~LocaleGuard() {
  if (classic_ != nullptr) {
    uselocale(before_);
    freelocale(classic_);
  }
  Shared& state = shared();
  const MutexLock lock(state.mutex);
  if (--state.inside != 0 || state.numeric.empty()) return;
  const char* now = std::setlocale(LC_NUMERIC, nullptr);
  // Written only where it differs: setlocale is not safe beside threads that read the locale.
  if (now != nullptr && state.numeric != now) std::setlocale(LC_NUMERIC, state.numeric.c_str());
}

}  // namespace csajit
