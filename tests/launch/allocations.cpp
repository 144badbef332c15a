// Counts what the process allocates. Alone in its file, so that no call of these is inlined beside another's.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

std::uint64_t allocations();

namespace {
std::atomic<std::uint64_t> news{0};
}

// Seen by the shared library too: the program's own come first.
void* operator new(std::size_t bytes) {
  news.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

std::uint64_t allocations() { return news.load(std::memory_order_relaxed); }
