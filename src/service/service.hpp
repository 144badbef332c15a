// One user of csajit: its settings, its cache, its counters, and a number that no other service ever had.
// Holds no kernels; those belong to the process.
#pragma once

#include <csajit/csajit.h>

#include <cstdint>
#include <memory>

#include "base/config.hpp"
#include "base/result.hpp"
#include "cache/disk_cache.hpp"
#include "service/kernel_source.hpp"
#include "service/settings.hpp"
#include "service/statistics.hpp"

namespace csajit {

class Service {
 public:
  // `options` must be of full size. Touches no folder, loads no library.
  static Result<std::unique_ptr<Service>> create(const csajit_service_options& options, const Config& config);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::uint64_t id() const noexcept { return id_; }
  const Settings& settings() const noexcept { return settings_; }
  Statistics& statistics() noexcept { return statistics_; }
  KernelSource& source() noexcept { return source_; }
  csajit_statistics statistics_now() const;

  // Whether the service with this number still exists.
  static bool is_live(std::uint64_t id);

 private:
  explicit Service(Settings settings);

  const std::uint64_t id_;
  const Settings settings_;
  Statistics statistics_;
  DiskCache disk_;
  KernelSource source_;
};

}  // namespace csajit
