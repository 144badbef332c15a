// The message of the calling thread's last failing call. Text only.
#pragma once

#include <csajit/csajit.h>

#include <cstddef>

#include "base/result.hpp"

namespace csajit {

// Keeps the message (none where there is no memory for it) and returns the status.
csajit_status set_last_error(const Error& error) noexcept;
csajit_status set_last_error(csajit_status status, const char* message) noexcept;

// As csajit_last_error.
std::size_t copy_last_error(char* buffer, std::size_t buffer_bytes) noexcept;

}  // namespace csajit
