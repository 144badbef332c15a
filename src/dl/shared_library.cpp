// dlopen and its relatives behind one owner. Adds no policy: names and flags are the caller's.
#include "dl/shared_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <utility>

namespace csajit {

Result<SharedLibrary> SharedLibrary::open(const std::string& name, int flags) {
  void* handle = dlopen(name.c_str(), flags);
  if (handle == nullptr) {
    const char* why = dlerror();
    // With RTLD_NOLOAD a library that is merely absent leaves no text.
    return Error{CSAJIT_E_INTERNAL, why != nullptr ? std::string(why) : name + ": not loaded in this process"};
  }
  SharedLibrary library;
  library.handle_ = handle;
  library.name_ = name;
  return library;
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)), keep_(other.keep_) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& other) noexcept {
  if (this != &other) {
    close();
    handle_ = std::exchange(other.handle_, nullptr);
    name_ = std::move(other.name_);
    keep_ = other.keep_;
  }
  return *this;
}

SharedLibrary::~SharedLibrary() { close(); }

void SharedLibrary::close() noexcept {
  // A failing dlclose leaves the library mapped, which harms nothing and cannot be reported from a destructor.
  if (handle_ != nullptr && !keep_) static_cast<void>(dlclose(handle_));
  handle_ = nullptr;
}

void* SharedLibrary::symbol(const char* name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

std::string SharedLibrary::path() const {
  link_map* map = nullptr;
  if (handle_ != nullptr && dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr &&
      map->l_name[0] != '\0') {
    return map->l_name;
  }
  return name_;
}

}  // namespace csajit
