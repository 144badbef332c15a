// Makes a spec ready in a context: every kernel of it compiled or found, loaded and remembered. Launches nothing.
#pragma once

#include "base/result.hpp"
#include "compressor/spec.hpp"
#include "device/context.hpp"
#include "dl/driver_api.hpp"
#include "service/prepared_table.hpp"
#include "service/service.hpp"

namespace csajit {

// The architecture that this service compiles for in that context.
Result<const Architecture*> target_in_context(const Service& service, const DriverApi& driver,
                                              const ContextRef& context);

// Blocks for what is missing; cheap when nothing is.
Result<PreparedPtr> prepare_in_context(Service& service, const Spec& spec, const DriverApi& driver,
                                       const ContextRef& context);

// The same for the context of a stream.
Result<void> prepare(Service& service, const Spec& spec, CUstream stream);

// Unloads everything of `context` (nullptr: the current one).
Result<void> unload_context(CUcontext context);

// Whether a spec can be served: on `arch`, or where that is nullptr on the device of the current context.
// Returns the architecture that it would be compiled for.
Result<const Architecture*> check_spec(const Service& service, const Spec& spec, const Architecture* arch);

}  // namespace csajit
