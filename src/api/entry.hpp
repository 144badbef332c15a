// What surrounds every entry point: refuses calls from callbacks, turns errors into a status and a message, and
// catches what strays. The only catch of the boundary.
#pragma once

#include <csajit/csajit.h>

#include <exception>
#include <new>

#include "api/last_error.hpp"
#include "base/log.hpp"
#include "base/result.hpp"

namespace csajit {

template <class Body>
csajit_status enter(const Body& body) noexcept {
  if (log::in_callback()) {
    return set_last_error(CSAJIT_E_REENTRANT, "csajit must not be called from inside one of its callbacks");
  }
  try {
    const Result<void> result = body();
    return result ? CSAJIT_OK : set_last_error(result.error());
  } catch (const std::bad_alloc&) {
    return set_last_error(CSAJIT_E_OUT_OF_MEMORY, "host memory ran out");
  } catch (const std::exception& stray) {
    return set_last_error(CSAJIT_E_INTERNAL, stray.what());
  } catch (...) {
    return set_last_error(CSAJIT_E_INTERNAL, "an exception of unknown type");
  }
}

}  // namespace csajit
