#include "base/config.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace csajit;

namespace {

using Variables = std::map<std::string, std::string>;

Result<Config> read(const Variables& variables) {
  return read_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Config read_ok(const Variables& variables) {
  auto config = read(variables);
  REQUIRE_MESSAGE(config.ok(), config.error().message);
  return *config;
}

void check_refused(const std::string& name, const std::string& value, const std::string& accepted) {
  CAPTURE(value);
  const auto config = read({{name, value}});
  REQUIRE_FALSE(config.ok());
  CHECK(config.error().status == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(config.error().message.find(name) != std::string::npos);
  CHECK(config.error().message.find(accepted) != std::string::npos);
}

}  // namespace

TEST_CASE("the table holds exactly the documented variables, each explained") {
  const std::set<std::string_view> documented = {"CSAJIT_CACHE_DIR",
                                                 "CSAJIT_CACHE_RO_DIRS",
                                                 "CSAJIT_CACHE_MAX_BYTES",
                                                 "CSAJIT_CACHE_TRUST",
                                                 "CSAJIT_NVRTC_PATH",
                                                 "CSAJIT_ARCH",
                                                 "CSAJIT_FAST_LAUNCH",
                                                 "CSAJIT_DISABLE",
                                                 "CSAJIT_NO_JIT",
                                                 "CSAJIT_VALIDATE",
                                                 "CSAJIT_LOG_LEVEL",
                                                 "CSAJIT_RECORD",
                                                 "XDG_CACHE_HOME",
                                                 "HOME",
                                                 "CUDA_HOME",
                                                 "CUDA_PATH"};
  std::set<std::string_view> listed;
  for (const EnvironmentVariable& variable : environment_variables()) {
    CHECK(listed.insert(variable.name).second);
    CHECK_FALSE(variable.default_text.empty());
    CHECK(variable.effect.back() == '.');
  }
  CHECK(listed == documented);
}

TEST_CASE("reading asks for the variables of the table and no others") {
  std::set<std::string> asked;
  REQUIRE(read_environment([&](const char* name) -> const char* {
            asked.insert(name);
            return nullptr;
          }).ok());
  std::set<std::string> listed;
  for (const EnvironmentVariable& variable : environment_variables()) listed.emplace(variable.name);
  CHECK(asked == listed);
}

TEST_CASE("unset and empty variables leave the defaults") {
  Variables empty;
  for (const EnvironmentVariable& variable : environment_variables()) empty[std::string(variable.name)] = "";
  for (const Config& config : {read_ok({}), read_ok(empty)}) {
    CHECK_FALSE(config.cache_dir);
    CHECK(config.cache_ro_dirs.empty());
    CHECK(config.cache_max_bytes == 512ULL * 1024 * 1024);
    CHECK(config.cache_trust == Trust::owner);
    CHECK_FALSE(config.nvrtc_path);
    CHECK_FALSE(config.arch);
    CHECK(config.fast_launch);
    CHECK_FALSE(config.disable);
    CHECK_FALSE(config.no_jit);
    CHECK_FALSE(config.validate);
    CHECK(config.log_level == CSAJIT_LOG_WARN);
    CHECK_FALSE(config.record);
    CHECK_FALSE(config.home);
  }
}

TEST_CASE("each text variable reaches its own field") {
  const Config config = read_ok({{"CSAJIT_CACHE_DIR", "/a"},
                                 {"CSAJIT_NVRTC_PATH", "/b"},
                                 {"CSAJIT_ARCH", "sm_90"},
                                 {"CSAJIT_RECORD", "/c.%p"},
                                 {"XDG_CACHE_HOME", "/d"},
                                 {"HOME", "/e"},
                                 {"CUDA_HOME", "/f"},
                                 {"CUDA_PATH", "/g"}});
  CHECK(config.cache_dir == "/a");
  CHECK(config.nvrtc_path == "/b");
  CHECK(config.arch == "sm_90");
  CHECK(config.record == "/c.%p");
  CHECK(config.xdg_cache_home == "/d");
  CHECK(config.home == "/e");
  CHECK(config.cuda_home == "/f");
  CHECK(config.cuda_path == "/g");
}

TEST_CASE("switches are 0 or 1 and nothing else") {
  const Config on =
      read_ok({{"CSAJIT_DISABLE", "1"}, {"CSAJIT_NO_JIT", "1"}, {"CSAJIT_VALIDATE", "1"}, {"CSAJIT_FAST_LAUNCH", "1"}});
  CHECK(on.disable);
  CHECK(on.no_jit);
  CHECK(on.validate);
  CHECK(on.fast_launch);
  const Config off =
      read_ok({{"CSAJIT_DISABLE", "0"}, {"CSAJIT_NO_JIT", "0"}, {"CSAJIT_VALIDATE", "0"}, {"CSAJIT_FAST_LAUNCH", "0"}});
  CHECK_FALSE(off.disable);
  CHECK_FALSE(off.no_jit);
  CHECK_FALSE(off.validate);
  CHECK_FALSE(off.fast_launch);
  for (const char* name : {"CSAJIT_DISABLE", "CSAJIT_NO_JIT", "CSAJIT_VALIDATE", "CSAJIT_FAST_LAUNCH"}) {
    for (const char* value : {"true", "yes", "2", "01", " 1", "1 "}) check_refused(name, value, "0 or 1");
  }
}

TEST_CASE("byte counts take K, M and G and refuse what does not fit") {
  const std::map<std::string, std::uint64_t> counts = {{"1", 1},
                                                       {"4096", 4096},
                                                       {"3K", 3072},
                                                       {"5M", 5ULL << 20},
                                                       {"2G", 2ULL << 30},
                                                       {"7MiB", 7ULL << 20},
                                                       {"18446744073709551615", ~0ULL}};
  for (const auto& count : counts) {
    const std::string& text = count.first;
    CAPTURE(text);
    CHECK(read_ok({{"CSAJIT_CACHE_MAX_BYTES", text}}).cache_max_bytes == count.second);
  }
  for (const char* value :
       {"0", "0K", "-1", "K", "1.5G", "1T", "1 G", "1GG", "18446744073709551616", "18014398509481984K", "0x10"}) {
    check_refused("CSAJIT_CACHE_MAX_BYTES", value, "suffix K, M or G");
  }
}

TEST_CASE("the list of read-only layers keeps its order and drops empty items") {
  CHECK(read_ok({{"CSAJIT_CACHE_RO_DIRS", ":/b::/a:"}}).cache_ro_dirs == std::vector<std::string>{"/b", "/a"});
  CHECK(read_ok({{"CSAJIT_CACHE_RO_DIRS", "/only"}}).cache_ro_dirs == std::vector<std::string>{"/only"});
}

TEST_CASE("trust and log level go by name") {
  CHECK(read_ok({{"CSAJIT_CACHE_TRUST", "owner"}}).cache_trust == Trust::owner);
  CHECK(read_ok({{"CSAJIT_CACHE_TRUST", "group"}}).cache_trust == Trust::group);
  CHECK(read_ok({{"CSAJIT_CACHE_TRUST", "any"}}).cache_trust == Trust::any);
  check_refused("CSAJIT_CACHE_TRUST", "root", "owner, group or any");
  const std::map<std::string, csajit_log_level> levels = {{"trace", CSAJIT_LOG_TRACE}, {"debug", CSAJIT_LOG_DEBUG},
                                                          {"info", CSAJIT_LOG_INFO},   {"warn", CSAJIT_LOG_WARN},
                                                          {"error", CSAJIT_LOG_ERROR}, {"off", CSAJIT_LOG_OFF}};
  for (const auto& [name, level] : levels) CHECK(read_ok({{"CSAJIT_LOG_LEVEL", name}}).log_level == level);
  check_refused("CSAJIT_LOG_LEVEL", "WARNING", "trace, debug, info, warn, error or off");
}
