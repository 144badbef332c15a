// The opaque handle of the C API and the service behind it.
#pragma once

#include <csajit/csajit.h>

#include <memory>

#include "service/service.hpp"

struct csajit_service {
  std::unique_ptr<csajit::Service> service;
};
