// See snapshot.hpp.
#include "service/snapshot.hpp"

#include <utility>

#include "base/thread_slot.hpp"
#include "service/service.hpp"

namespace csajit {
namespace {

// Contexts that were destroyed or reset leave snapshots that nothing finds again; beyond this many the one used
// longest ago goes.
constexpr std::size_t max_snapshots = 256;

}  // namespace

Snapshot* SnapshotList::find(std::uint64_t service_id, const Spec& spec) noexcept {
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (list_[i]->service_id != service_id || !(list_[i]->prepared->spec == spec)) continue;
    if (i != 0) std::swap(list_[i], list_[i / 2]);
    return list_[i / 2].get();
  }
  return nullptr;
}

Snapshot* SnapshotList::find(std::uint64_t service_id, const Spec& spec, unsigned long long context_id) noexcept {
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const PreparedSpec& prepared = *list_[i]->prepared;
    if (list_[i]->service_id != service_id || prepared.context.id != context_id || !(prepared.spec == spec)) continue;
    if (i != 0) std::swap(list_[i], list_[0]);
    return list_[0].get();
  }
  return nullptr;
}

Snapshot* SnapshotList::add(std::unique_ptr<Snapshot> snapshot) {
  const PreparedSpec& prepared = *snapshot->prepared;
  std::erase_if(list_, [&](const std::unique_ptr<Snapshot>& old) {
    const bool replaced = old->service_id == snapshot->service_id && old->prepared->spec == prepared.spec &&
                          old->prepared->context.id == prepared.context.id;
    return replaced || old->prepared->dropped.load(std::memory_order_acquire) || !Service::is_live(old->service_id);
  });
  if (list_.size() >= max_snapshots) list_.pop_back();
  list_.insert(list_.begin(), std::move(snapshot));
  return list_.front().get();
}

SnapshotList* SnapshotList::of_this_thread() noexcept { return ThreadSlot<SnapshotList>::get(); }

}  // namespace csajit
