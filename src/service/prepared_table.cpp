// See prepared_table.hpp.
#include "service/prepared_table.hpp"

#include <utility>

#include "base/thread_annotations.hpp"

namespace csajit {
namespace {

// A process has a handful of specs and contexts: a walk is as quick as a hash.
struct Table {
  Mutex mutex;
  std::vector<PreparedPtr> entries CSAJIT_GUARDED_BY(mutex);
};

// Never destroyed: a launch from an atexit handler may still look.
Table& table() {
  static auto* const prepared = new Table;
  return *prepared;
}

bool is_entry(const PreparedSpec& entry, unsigned long long context_id, const Spec& spec, const Architecture* arch) {
  return entry.context.id == context_id && entry.arch == arch && entry.spec == spec;
}

}  // namespace

PreparedPtr find_prepared(unsigned long long context_id, const Spec& spec, const Architecture& arch) {
  Table& known = table();
  const MutexLock lock(known.mutex);
  for (const PreparedPtr& entry : known.entries) {
    if (is_entry(*entry, context_id, spec, &arch)) return entry;
  }
  return nullptr;
}

PreparedPtr find_prepared_anywhere(const Spec& spec) {
  Table& known = table();
  const MutexLock lock(known.mutex);
  for (const PreparedPtr& entry : known.entries) {
    if (entry->spec == spec) return entry;
  }
  return nullptr;
}

PreparedPtr keep_prepared(std::shared_ptr<PreparedSpec> prepared) {
  Table& known = table();
  const MutexLock lock(known.mutex);
  for (const PreparedPtr& entry : known.entries) {
    if (is_entry(*entry, prepared->context.id, prepared->spec, prepared->arch)) return entry;
  }
  known.entries.push_back(prepared);
  return prepared;
}

void drop_prepared(unsigned long long context_id) {
  Table& known = table();
  const MutexLock lock(known.mutex);
  std::erase_if(known.entries, [&](const PreparedPtr& entry) {
    if (entry->context.id != context_id) return false;
    entry->dropped.store(true, std::memory_order_release);
    return true;
  });
}

}  // namespace csajit
