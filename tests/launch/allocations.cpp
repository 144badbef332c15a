// Counts what the process allocates, the shared library included. Alone in its file, so that no call of these
// operators is inlined beside another's.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define CSAJIT_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CSAJIT_SANITIZED 1
#endif

std::uint64_t allocations();

namespace {
std::atomic<std::uint64_t> count{0};
}

std::uint64_t allocations() { return count.load(std::memory_order_relaxed); }

#if defined(CSAJIT_SANITIZED)
// The sanitizer's runtime has operators of its own and tells whoever asks.
// Declared here since GCC installs no header for it.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void*, std::size_t),
                                                         void (*released)(const volatile void*));

namespace {
void count_allocation(const volatile void*, std::size_t) { count.fetch_add(1, std::memory_order_relaxed); }
void ignore_release(const volatile void*) {}
[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(count_allocation, ignore_release);
}  // namespace
#else
// Seen by the shared library too: the program's own come first.
void* operator new(std::size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
