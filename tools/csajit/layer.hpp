// Opens a finished cache folder to every user of the machine, so that it can be baked into an image as a
// read-only layer. Changes modes, never contents.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace csajit::tool {

// Folders become 0755, records 0644; returns how many records there are. Links are not followed. Error: the name
// and reason of the first mode that could not be set.
Result<std::uint64_t> open_layer(const std::string& root);

}  // namespace csajit::tool
