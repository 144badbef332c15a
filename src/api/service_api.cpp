// Entry points of a service's life and of everything that compiles or loads: create, check, build, prepare,
// unload, statistics.
#include <csajit/csajit.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "api/arguments.hpp"
#include "api/entry.hpp"
#include "api/handle.hpp"
#include "api/struct_reader.hpp"
#include "base/config.hpp"
#include "compile/architecture.hpp"
#include "service/build.hpp"
#include "service/prepare.hpp"

namespace csajit {
namespace {

constexpr std::uint32_t max_jobs = 256;

Result<const Architecture*> read_architecture(const char* text) {
  auto arch = parse_architecture(text);
  if (!arch) return Error{arch.error().status, fmt::format("arch: {}", arch.error().message)};
  return arch;
}

Result<BuildOrder> read_build_order(const csajit_build_options* options) {
  csajit_build_options storage;
  auto read = read_struct(options, storage, "options");
  if (!read) return std::move(read).error();
  const csajit_build_options& given = **read;
  const auto invalid = [](std::string message) { return Error{CSAJIT_E_INVALID_ARGUMENT, std::move(message)}; };
  if ((given.flags & ~std::uint32_t{CSAJIT_BUILD_REBUILD}) != 0) {
    return invalid(fmt::format("flags: 0x{:x} holds a bit that is no CSAJIT_BUILD_* flag", given.flags));
  }
  if (given.jobs > max_jobs) return invalid(fmt::format("jobs: {} is more than {}", given.jobs, max_jobs));
  if (given.reserved != 0) return invalid("reserved: must be 0");
  if (given.arch == nullptr) return invalid("arch is NULL; name the architecture to build for, as \"sm_90\"");
  auto arch = read_architecture(given.arch);
  if (!arch) return std::move(arch).error();
  BuildOrder order;
  order.arch = *arch;
  order.rebuild = (given.flags & CSAJIT_BUILD_REBUILD) != 0;
  order.jobs = given.jobs;
  order.callback = given.callback;
  order.user = given.user;
  return order;
}

void copy_text(std::string_view text, char* buffer, std::size_t buffer_bytes) {
  if (buffer == nullptr || buffer_bytes == 0) return;
  const std::size_t copied = std::min(text.size(), buffer_bytes - 1);
  std::memcpy(buffer, text.data(), copied);
  buffer[copied] = '\0';
}

Result<void> create(const csajit_service_options* options, csajit_service** service) {
  if (service == nullptr) return detail::null_argument("service");
  *service = nullptr;
  csajit_service_options storage{};
  storage.struct_size = sizeof(storage);
  const csajit_service_options* given = &storage;
  if (options != nullptr) {
    auto read = read_struct(options, storage, "options");
    if (!read) return std::move(read).error();
    given = *read;
  }
  auto config = read_environment();
  if (!config) return std::move(config).error();
  auto made = Service::create(*given, *config);
  if (!made) return std::move(made).error();
  *service = new csajit_service{std::move(made).value()};
  return {};
}

}  // namespace
}  // namespace csajit

using csajit::enter;
using csajit::Result;

extern "C" {

csajit_status csajit_service_create(const csajit_service_options* options, csajit_service** service) {
  return enter([&] { return csajit::create(options, service); });
}

void csajit_service_destroy(csajit_service* service) {
  // Has no status to return: a call from a callback is refused all the same, and the message says so.
  static_cast<void>(enter([&]() -> Result<void> {
    delete service;
    return {};
  }));
}

csajit_status csajit_check_spec(csajit_service* service, const csajit_spec* spec, const char* arch, char* arch_out,
                                size_t arch_out_bytes) {
  return enter([&]() -> Result<void> {
    auto user = csajit::enabled_service(service);
    if (!user) return std::move(user).error();
    auto parsed = csajit::read_spec(spec);
    if (!parsed) return std::move(parsed).error();
    const csajit::Architecture* named = nullptr;
    if (arch != nullptr) {
      auto read = csajit::read_architecture(arch);
      if (!read) return std::move(read).error();
      named = *read;
    }
    auto target = csajit::check_spec(**user, *parsed, named);
    if (!target) return std::move(target).error();
    csajit::copy_text((*target)->name, arch_out, arch_out_bytes);
    return {};
  });
}

csajit_status csajit_build(csajit_service* service, const csajit_spec* spec, const csajit_build_options* options) {
  return enter([&]() -> Result<void> {
    auto user = csajit::any_service(service);
    if (!user) return std::move(user).error();
    auto parsed = csajit::read_spec(spec);
    if (!parsed) return std::move(parsed).error();
    auto order = csajit::read_build_order(options);
    if (!order) return std::move(order).error();
    return csajit::build(**user, *parsed, *order);
  });
}

csajit_status csajit_prepare(csajit_service* service, const csajit_spec* spec, struct CUstream_st* stream) {
  return enter([&]() -> Result<void> {
    auto user = csajit::enabled_service(service);
    if (!user) return std::move(user).error();
    auto parsed = csajit::read_spec(spec);
    if (!parsed) return std::move(parsed).error();
    return csajit::prepare(**user, *parsed, stream);
  });
}

csajit_status csajit_unload_context(struct CUctx_st* context) {
  return enter([&] { return csajit::unload_context(context); });
}

csajit_status csajit_get_statistics(csajit_service* service, csajit_statistics* statistics) {
  return enter([&]() -> Result<void> {
    auto user = csajit::any_service(service);
    if (!user) return std::move(user).error();
    return csajit::write_struct((*user)->statistics_now(), statistics, "statistics");
  });
}

}  // extern "C"
