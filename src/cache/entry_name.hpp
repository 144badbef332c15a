// The names below a cache root: schema folders, records, temporaries and the lock. Knows no folders.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/key.hpp"

namespace csajit {

// Name of the folder below every cache root; changes with the record format.
inline constexpr const char* schema_folder = "v1";
inline constexpr std::string_view record_suffix = ".record";
inline constexpr const char* lock_file_name = "lock";

std::string record_name(const Key& key);  // "<32 hex digits>.record"
std::string record_name(const std::string& digest);
bool is_record_name(std::string_view name);
bool is_temporary_name(std::string_view name);      // ".tmp-<pid>-<number>-<16 hex digits>"
std::string new_temporary_name();                   // differs from each other one of this and other processes
bool is_schema_folder_name(std::string_view name);  // "v1", "v12": this and other versions' folders

}  // namespace csajit
