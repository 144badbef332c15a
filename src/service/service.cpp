// See service.hpp.
#include "service/service.hpp"

#include <atomic>
#include <unordered_set>
#include <utility>

#include "base/log.hpp"
#include "base/thread_annotations.hpp"

namespace csajit {
namespace {

struct LiveServices {
  Mutex mutex;
  std::unordered_set<std::uint64_t> ids CSAJIT_GUARDED_BY(mutex);
};

// Never destroyed: a service may be destroyed by a static destructor of the host.
LiveServices& live() {
  static auto* const services = new LiveServices;
  return *services;
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint64_t read(const Statistics::Counter& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

Result<std::unique_ptr<Service>> Service::create(const csajit_service_options& options, const Config& config) {
  auto settings = merge_settings(options, config);
  if (!settings) return std::move(settings).error();
  log::set_level(config.log_level);
  return std::unique_ptr<Service>(new Service(std::move(settings).value()));
}

Service::Service(Settings settings)
    : id_(next_id()), settings_(std::move(settings)), disk_(settings_.disk), source_(settings_, disk_, statistics_) {
  const MutexLock lock(live().mutex);
  live().ids.insert(id_);
}

Service::~Service() {
  const MutexLock lock(live().mutex);
  live().ids.erase(id_);
}

bool Service::is_live(std::uint64_t id) {
  const MutexLock lock(live().mutex);
  return live().ids.count(id) != 0;
}

csajit_statistics Service::statistics_now() const {
  csajit_statistics out{};
  out.memory_hits = read(statistics_.memory_hits);
  out.disk_hits = read(statistics_.disk_hits);
  out.compiles = read(statistics_.compiles);
  out.compile_failures = read(statistics_.compile_failures);
  out.rejected_entries = disk_.rejected_entries();
  out.publish_failures = disk_.publish_failures();
  out.module_loads = read(statistics_.module_loads);
  out.fast_launches = read(statistics_.fast_launches);
  out.regular_launches = read(statistics_.regular_launches);
  out.compile_ns = read(statistics_.compile_ns);
  out.disk_ns = read(statistics_.disk_ns);
  out.load_ns = read(statistics_.load_ns);
  return out;
}

}  // namespace csajit
