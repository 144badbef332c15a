// Every kernel loaded in this process, by context id and key. Loads each once, rebuilds a bad image once,
// unloads only when asked to. Outlives all services.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "cache/key.hpp"
#include "device/context.hpp"
#include "device/module.hpp"
#include "service/kernel_source.hpp"
#include "service/service.hpp"

namespace csajit {

// The kernel of `request` in `context`: from the table, or sourced and loaded. Blocks. Errors: what sourcing
// gives, CSAJIT_E_DRIVER, CSAJIT_E_DRIVER_TOO_OLD, CSAJIT_E_OUT_OF_MEMORY.
Result<LoadedKernel> kernel_in_context(Service& service, const DriverApi& driver, const ContextRef& context,
                                       const KernelRequest& request);

// Unloads all of a context. The first error is returned, after all were tried.
Result<void> unload_all(const DriverApi& driver, const ContextRef& context);

}  // namespace csajit
