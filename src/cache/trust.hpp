// Whose files may be loaded: a cubin is code. Judges owner and mode of what was opened; opens nothing.
//
// Judged are the schema folder and each file in it, through their handles. The folders above need no judging: who
// can rename there can only put something in place that must pass the same test.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "base/config.hpp"

namespace csajit {

struct Identity {
  uid_t user = 0;
  std::vector<gid_t> groups;  // effective and supplementary
};

Identity current_identity();

// Empty where it may be used. Otherwise owner, mode, and what would cure it.
//   owner: owned by `identity` or root, and writable by nobody else
//   group: also owned by anyone or writable by a group, where that group is one of the identity's; never by others
//   any:   no condition
std::string trust_problem(Trust trust, const Identity& identity, const struct stat& status);

}  // namespace csajit
