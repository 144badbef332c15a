// One dlopened library, closed with its owner unless kept. Knows dlopen, not what is inside.
#pragma once

#include <string>

#include "base/result.hpp"

namespace csajit {

class SharedLibrary {
 public:
  SharedLibrary() = default;
  // flags as dlopen's. The error (CSAJIT_E_INTERNAL: what it means is the caller's to say) carries dlerror's text.
  static Result<SharedLibrary> open(const std::string& name, int flags);
  SharedLibrary(SharedLibrary&& other) noexcept;
  SharedLibrary& operator=(SharedLibrary&& other) noexcept;
  ~SharedLibrary();

  void* symbol(const char* name) const;  // nullptr where it is missing
  std::string path() const;              // the file it was mapped from (dlinfo), or the name it was asked by
  void keep_open() noexcept { keep_ = true; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  void close() noexcept;

  void* handle_ = nullptr;
  std::string name_;
  bool keep_ = false;
};

}  // namespace csajit
