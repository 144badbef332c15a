// A csajit_service that is destroyed with its owner.
#pragma once

#include <csajit/csajit.h>

#include <memory>

#include "base/result.hpp"
#include "command.hpp"

namespace csajit::tool {

struct ServiceDeleter {
  void operator()(csajit_service* service) const { csajit_service_destroy(service); }
};
using ServiceHandle = std::unique_ptr<csajit_service, ServiceDeleter>;

inline Result<ServiceHandle> create_service(const csajit_service_options& options) {
  csajit_service* service = nullptr;
  const csajit_status status = csajit_service_create(&options, &service);
  if (status != CSAJIT_OK) return api_error(status);
  return ServiceHandle(service);
}

}  // namespace csajit::tool
