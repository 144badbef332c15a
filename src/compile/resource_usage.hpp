// Reads registers, spills, stack and shared memory from the text of -Xptxas -v. Pure text.
#pragma once

#include <optional>
#include <string_view>

#include "base/kernel_image.hpp"

namespace csajit {

// The figures of the entry function `lowered_name`, or nullopt where the log does not hold them.
std::optional<ResourceUsage> parse_resource_usage(std::string_view log, std::string_view lowered_name);

}  // namespace csajit
