#include "service/settings.hpp"

#include <doctest/doctest.h>

#include <string>

using csajit::Config;
using csajit::merge_settings;

namespace {

csajit_service_options options() {
  csajit_service_options given{};
  given.struct_size = sizeof(given);
  return given;
}

}  // namespace

TEST_CASE("the environment's switches beat the options in code") {
  Config config;
  config.disable = true;
  config.no_jit = true;
  config.fast_launch = false;
  const auto settings = merge_settings(options(), config);
  REQUIRE(settings.ok());
  CHECK(settings->disabled);
  CHECK(settings->no_jit);
  CHECK_FALSE(settings->fast_launch);
}

TEST_CASE("flags in code switch the same things on their own") {
  auto given = options();
  given.flags = CSAJIT_SERVICE_NO_JIT | CSAJIT_SERVICE_NO_FAST_LAUNCH | CSAJIT_SERVICE_REQUIRE_PREPARED |
                CSAJIT_SERVICE_VALIDATE | CSAJIT_SERVICE_DISABLE_LOCK;
  const auto settings = merge_settings(given, Config{});
  REQUIRE(settings.ok());
  CHECK(settings->no_jit);
  CHECK_FALSE(settings->fast_launch);
  CHECK(settings->require_prepared);
  CHECK(settings->validate);
  CHECK_FALSE(settings->disk.use_lock);
  CHECK_FALSE(settings->disabled);
}

TEST_CASE("a layer that is written asks no other layer") {
  Config config;
  config.cache_ro_dirs = {"/layer/of/environment"};
  auto given = options();
  given.cache_dir = "/layer";
  CHECK(merge_settings(given, config)->disk.ro_dirs.size() == 1);
  given.flags = CSAJIT_SERVICE_WRITE_LAYER;
  const auto settings = merge_settings(given, config);
  REQUIRE(settings.ok());
  CHECK(settings->disk.layer);
  CHECK(settings->disk.ro_dirs.empty());
}

TEST_CASE("paths and numbers in code beat the environment") {
  Config config;
  config.cache_dir = "/from/environment";
  config.cache_ro_dirs = {"/layer/of/environment"};
  config.nvrtc_path = "/environment/libnvrtc.so";
  config.arch = "sm_80";
  config.cache_max_bytes = 1;
  config.cache_trust = csajit::Trust::any;
  auto given = options();
  given.cache_dir = "/from/code";
  given.cache_ro_dirs = "/a::/b:";
  given.nvrtc_path = "/code/libnvrtc.so";
  given.arch = "sm_90";
  given.cache_max_bytes = 2;
  given.cache_trust = CSAJIT_CACHE_TRUST_GROUP;
  given.lock_wait_ms = 3;
  const auto settings = merge_settings(given, config);
  REQUIRE(settings.ok());
  CHECK(settings->disk.write_dir == std::string("/from/code"));
  CHECK(settings->disk.ro_dirs == std::vector<std::string>{"/a", "/b"});
  CHECK(settings->nvrtc.path == std::string("/code/libnvrtc.so"));
  CHECK(settings->forced_arch->name == "sm_90");
  CHECK(settings->disk.max_bytes == 2);
  CHECK(settings->disk.trust == csajit::Trust::group);
  CHECK(settings->disk.lock_wait_ms == 3);
}

TEST_CASE("without options the environment's values hold") {
  Config config;
  config.cache_dir = "/from/environment";
  config.cache_ro_dirs = {"/layer"};
  config.nvrtc_path = "/environment/libnvrtc.so";
  config.arch = "sm_80";
  config.cache_max_bytes = 7;
  const auto settings = merge_settings(options(), config);
  REQUIRE(settings.ok());
  CHECK(settings->disk.write_dir == std::string("/from/environment"));
  CHECK(settings->disk.ro_dirs == std::vector<std::string>{"/layer"});
  CHECK(settings->nvrtc.path == std::string("/environment/libnvrtc.so"));
  CHECK(settings->forced_arch->name == "sm_80");
  CHECK(settings->disk.max_bytes == 7);
  CHECK(settings->disk.lock_wait_ms == 20000);
  CHECK_FALSE(settings->nvrtc.max_major.has_value());
}

TEST_CASE("memory only means no folder at all, whatever the environment says") {
  Config config;
  config.cache_dir = "/from/environment";
  config.cache_ro_dirs = {"/layer"};
  auto given = options();
  given.flags = CSAJIT_SERVICE_MEMORY_ONLY;
  const auto settings = merge_settings(given, config);
  REQUIRE(settings.ok());
  CHECK_FALSE(settings->disk.write_dir.has_value());
  CHECK(settings->disk.ro_dirs.empty());
}

TEST_CASE("an architecture that is none is blamed on where it was given") {
  Config config;
  config.arch = "sm_90a";
  const auto from_environment = merge_settings(options(), config);
  REQUIRE_FALSE(from_environment.ok());
  CHECK(from_environment.error().message.find("CSAJIT_ARCH") == 0);
  auto given = options();
  given.arch = "sm_90a";
  const auto from_code = merge_settings(given, config);
  REQUIRE_FALSE(from_code.ok());
  CHECK(from_code.error().message.find("arch") == 0);
}
