// Single flight: however many threads ask for a key at once, one makes it and all get it. Failures are given
// to each that waited, and are not kept. No lock is held while making.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/thread_annotations.hpp"

namespace csajit {

template <class K, class V, class Hash = std::hash<K>>
class MemoryCache {
 public:
  // The value for `key`; `make` runs on one of the callers. A throwing `make` is reported to each as
  // CSAJIT_E_INTERNAL (CSAJIT_E_OUT_OF_MEMORY for std::bad_alloc). `hit`, if given, is set to whether the
  // value was there already or came from another caller's flight. `make` must not ask for its own key: it would
  // wait for itself.
  Result<std::shared_ptr<const V>> get_or_make(const K& key,
                                               const std::function<Result<std::shared_ptr<const V>>()>& make,
                                               bool* hit = nullptr);
  // The value if it is there now; never waits.
  std::shared_ptr<const V> peek(const K& key) const;
  // Forgets one; a flight under way is not disturbed.
  void erase(const K& key);
  // Forgets all for which `match` is true and returns them; flights under way are not disturbed. `match` runs under
  // the lock: it only looks at the key.
  std::vector<std::shared_ptr<const V>> extract_if(const std::function<bool(const K&)>& match);

 private:
  using Value = std::shared_ptr<const V>;
  using Outcome = Result<Value>;

  // In flight while value is null: such a slot is removed or completed by the thread that made it, and no other.
  struct Slot {
    Value value;
    std::shared_future<Outcome> flight;
  };

  static Outcome run(const std::function<Outcome()>& make);
  void finish(const K& key, const Outcome& outcome);

  mutable Mutex mutex_;
  std::unordered_map<K, Slot, Hash> slots_ CSAJIT_GUARDED_BY(mutex_);
};

template <class K, class V, class Hash>
Result<std::shared_ptr<const V>> MemoryCache<K, V, Hash>::get_or_make(const K& key,
                                                                      const std::function<Outcome()>& make, bool* hit) {
  std::promise<Outcome> promise;
  // Shared before the slot exists: nothing may throw between its insertion and the end of its flight.
  std::shared_future<Outcome> flight = promise.get_future().share();
  bool mine = false;
  {
    MutexLock hold(mutex_);
    const auto [slot, inserted] = slots_.try_emplace(key);
    if (slot->second.value) {
      if (hit != nullptr) *hit = true;
      return slot->second.value;
    }
    if (inserted) {
      slot->second.flight = flight;
    } else {
      flight = slot->second.flight;
    }
    mine = inserted;
  }
  if (hit != nullptr) *hit = !mine;
  if (mine) {
    Outcome outcome = run(make);
    // The slot is settled before the waiters wake: one that retries after a failure starts a flight of its own.
    finish(key, outcome);
    promise.set_value(std::move(outcome));
  }
  return flight.get();
}

template <class K, class V, class Hash>
std::shared_ptr<const V> MemoryCache<K, V, Hash>::peek(const K& key) const {
  MutexLock hold(mutex_);
  const auto slot = slots_.find(key);
  return slot == slots_.end() ? nullptr : slot->second.value;
}

template <class K, class V, class Hash>
void MemoryCache<K, V, Hash>::erase(const K& key) {
  Value last;  // V's destructor may be anything: it runs after the lock
  MutexLock hold(mutex_);
  const auto slot = slots_.find(key);
  if (slot == slots_.end() || !slot->second.value) return;
  last = std::move(slot->second.value);
  slots_.erase(slot);
}

template <class K, class V, class Hash>
std::vector<std::shared_ptr<const V>> MemoryCache<K, V, Hash>::extract_if(const std::function<bool(const K&)>& match) {
  std::vector<Value> extracted;
  MutexLock hold(mutex_);
  for (auto slot = slots_.begin(); slot != slots_.end();) {
    if (slot->second.value && match(slot->first)) {
      extracted.push_back(slot->second.value);
      slot = slots_.erase(slot);
    } else {
      ++slot;
    }
  }
  return extracted;
}

template <class K, class V, class Hash>
Result<std::shared_ptr<const V>> MemoryCache<K, V, Hash>::run(const std::function<Outcome()>& make) {
  try {
    Outcome outcome = make();
    if (outcome.ok() && !outcome.value()) return Error{CSAJIT_E_INTERNAL, "a cache entry was made without a value"};
    return outcome;
  } catch (const std::bad_alloc&) {
    return Error{CSAJIT_E_OUT_OF_MEMORY, "out of memory"};
  } catch (const std::exception& problem) {
    return Error{CSAJIT_E_INTERNAL, problem.what()};
  } catch (...) {
    return Error{CSAJIT_E_INTERNAL, "an exception of unknown type"};
  }
}

template <class K, class V, class Hash>
void MemoryCache<K, V, Hash>::finish(const K& key, const Outcome& outcome) {
  MutexLock hold(mutex_);
  const auto slot = slots_.find(key);
  if (slot == slots_.end()) return;  // not reachable: see Slot
  if (outcome.ok()) {
    slot->second.value = outcome.value();
    slot->second.flight = {};
  } else {
    slots_.erase(slot);
  }
}

}  // namespace csajit
