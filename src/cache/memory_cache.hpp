// Single flight: however many threads ask for a key at once, one makes it and all get it. Failures are given
// to each that waited, and are not kept. No lock is held while making.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/result.hpp"

namespace csajit {

template <class K, class V, class Hash = std::hash<K>>
class MemoryCache {
 public:
  // The value for `key`; `make` runs on one of the callers. A throwing `make` is reported to each as
  // CSAJIT_E_INTERNAL (CSAJIT_E_OUT_OF_MEMORY for std::bad_alloc). `hit`, if given, is set to whether the
  // value was there already or came from another caller's flight.
  Result<std::shared_ptr<const V>> get_or_make(const K& key, const std::function<Result<std::shared_ptr<const V>>()>& make,
                                               bool* hit = nullptr);
  // The value if it is there now; never waits.
  std::shared_ptr<const V> peek(const K& key) const;
  // Forgets one; a flight under way is not disturbed.
  void erase(const K& key);
  // Forgets all for which `match` is true and returns them.
  std::vector<std::shared_ptr<const V>> extract_if(const std::function<bool(const K&)>& match);

 private:
  // helper's work: mutex, map of K -> shared_future
};

}  // namespace csajit
