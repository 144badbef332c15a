// CSAJIT_RECORD: one JSON line for each spec that was prepared or refused, for a later warm-up. Writes; reads
// nothing back.
#pragma once

#include <csajit/csajit.h>

#include <optional>
#include <string>

#include "compile/architecture.hpp"
#include "compressor/spec.hpp"

namespace csajit {

// Appends to `path` (%p in it is the process id) by one write; each spec, architecture and outcome once a
// process. nullopt: nothing. A file that cannot be written is warned of once.
void note_spec(const std::optional<std::string>& path, const Spec& spec, const Architecture& arch,
               csajit_status outcome);

}  // namespace csajit
