// See arguments.hpp.
#include "api/arguments.hpp"

#include <utility>

#include "api/handle.hpp"
#include "api/struct_reader.hpp"

namespace csajit {

Result<Service*> any_service(csajit_service* handle) {
  if (handle == nullptr) return detail::null_argument("service");
  return handle->service.get();
}

Result<Service*> enabled_service(csajit_service* handle) {
  auto service = any_service(handle);
  if (service && (*service)->settings().disabled) {
    return Error{CSAJIT_E_DISABLED, "CSAJIT_DISABLE=1: the host is meant to take its own path"};
  }
  return service;
}

Result<Spec> read_spec(const csajit_spec* spec) {
  csajit_spec storage;
  auto read = read_struct(spec, storage, "spec");
  if (!read) return std::move(read).error();
  return parse_spec(**read);
}

}  // namespace csajit
