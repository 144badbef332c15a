// Keeps the locale of the process and of the thread as it was across a compile. Knows nothing of compiling.
#pragma once

#include <locale.h>

#include <clocale>

namespace csajit {

// While one lives, its thread reads and writes numbers as in the "C" locale, whatever the process's locale is. When
// the last one of the process goes, a numeric locale that was changed meanwhile is put back: NVRTC before 12.3 sets
// it to "C" and leaves it so. Holds no lock over its life. Best effort: without memory for a locale it does nothing.
class LocaleGuard {
 public:
  LocaleGuard();
  ~LocaleGuard();
  LocaleGuard(const LocaleGuard&) = delete;
  LocaleGuard& operator=(const LocaleGuard&) = delete;

 private:
  locale_t classic_ = nullptr;
  locale_t before_ = nullptr;
};

}  // namespace csajit
