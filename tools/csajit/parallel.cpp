// Work spread over the machine's threads.
#include "parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace csajit::tool {

unsigned default_threads() { return std::max(1U, std::thread::hardware_concurrency()); }

unsigned parallel_for(std::int64_t count, std::int64_t chunk, unsigned threads,
                      const std::function<void(unsigned, std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return 0;
  chunk = std::max<std::int64_t>(chunk, 1);
  const std::int64_t chunks = (count - 1) / chunk + 1;
  const auto workers = static_cast<unsigned>(std::min<std::int64_t>(std::max(threads, 1U), chunks));
  std::atomic<std::int64_t> next{0};
  std::mutex failure_mutex;
  std::exception_ptr failure;
  auto work = [&](unsigned worker) {
    try {
      for (;;) {
        const std::int64_t index = next.fetch_add(1, std::memory_order_relaxed);
        if (index >= chunks) return;
        body(worker, index * chunk, std::min(count, (index + 1) * chunk));
      }
    } catch (...) {
      next.store(chunks, std::memory_order_relaxed);
      const std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  try {
    for (unsigned worker = 1; worker < workers; ++worker) pool.emplace_back(work, worker);
  } catch (const std::system_error&) {
    // A process limit on threads costs time, not the result: the ones that run take every chunk.
  }
  work(0);
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
  return workers;
}

}  // namespace csajit::tool
