// The names of files in a cache folder: records, temporaries and the lock. Knows no folders.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/key.hpp"

namespace csajit {

inline constexpr std::string_view record_suffix = ".record";
inline constexpr const char* lock_file_name = "lock";

std::string record_name(const Key& key);     // "<32 hex digits>.record"
bool is_record_name(std::string_view name);  // ends like one: the rest may still be no digest
bool is_temporary_name(std::string_view name);
std::string new_temporary_name();                   // differs from each other one of this and other processes
bool is_schema_folder_name(std::string_view name);  // "v1", "v12": this and other versions' folders

}  // namespace csajit
