// The trust rules and their refusals in words.
#include "cache/trust.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace csajit {
namespace {

constexpr mode_t write_by_group = 0020;
constexpr mode_t write_by_others = 0002;

}  // namespace

Identity current_identity() {
  Identity identity;
  identity.user = ::geteuid();
  const int count = ::getgroups(0, nullptr);
  if (count > 0) {
    identity.groups.resize(static_cast<std::size_t>(count));
    const int filled = ::getgroups(count, identity.groups.data());
    identity.groups.resize(filled > 0 ? static_cast<std::size_t>(filled) : 0);
  }
  identity.groups.push_back(::getegid());
  return identity;
}

std::string trust_problem(Trust trust, const Identity& identity, const struct stat& status) {
  if (trust == Trust::any) return {};
  const bool own_group =
      std::find(identity.groups.begin(), identity.groups.end(), status.st_gid) != identity.groups.end();
  const bool by_group = trust == Trust::group && own_group;
  const std::string facts =
      fmt::format("owner uid {}, group gid {}, mode {:04o}", status.st_uid, status.st_gid, status.st_mode & 07777U);
  if (status.st_uid != identity.user && status.st_uid != 0 && !by_group) {
    return fmt::format(
        "not trusted ({}): code is loaded only from uid {}, root{}; chown it to one of them, or set "
        "CSAJIT_CACHE_TRUST={}any",
        facts, identity.user, trust == Trust::group ? " or a group of this process" : "",
        trust == Trust::owner && own_group ? "group or " : "");
  }
  if ((status.st_mode & write_by_others) != 0 || ((status.st_mode & write_by_group) != 0 && !by_group)) {
    return fmt::format("not trusted ({}): others may write it; chmod go-w it{}", facts,
                       trust == Trust::owner && own_group && (status.st_mode & write_by_others) == 0
                           ? ", or set CSAJIT_CACHE_TRUST=group"
                           : "");
  }
  return {};
}

}  // namespace csajit
