#include "emulator/grid.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace csajit::emulator {

namespace {

constexpr unsigned int warp_threads = 32;
constexpr std::size_t stack_bytes = 256 << 10;

// All living members arrive, then all go on.
struct Barrier {
  unsigned int members = 0;
  unsigned int arrived = 0;
  std::uint64_t generation = 0;
};

struct Warp {
  Barrier barrier;
  std::array<std::uint64_t, warp_threads> slots{};
  const char* operation = nullptr;  // what its lanes are meeting in
};

// Lives on from CTA to CTA: entered once by its context, then by jumps, which make no system call.
struct Fiber {
  jmp_buf resume;
  std::unique_ptr<std::byte[]> stack;
  bool done = false;
};

struct State {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier block;
  jmp_buf scheduler;
  unsigned int thread = 0;
  unsigned int cta = 0;
  unsigned int ctas = 0;
  bool progress = false;
  const std::function<void()>* body = nullptr;
};
State state;

void yield() {
  if (_setjmp(state.fibers[state.thread].resume) == 0) _longjmp(state.scheduler, 1);
}

void release(Barrier& barrier) {
  barrier.arrived = 0;
  ++barrier.generation;
  state.progress = true;
}

void wait(Barrier& barrier) {
  const std::uint64_t generation = barrier.generation;
  if (++barrier.arrived == barrier.members) {
    release(barrier);
  } else {
    while (barrier.generation == generation) yield();
  }
}

void leave(Barrier& barrier) {
  --barrier.members;
  if (barrier.members > 0 && barrier.arrived == barrier.members) release(barrier);
}

Warp& own_warp() { return state.warps[state.thread / warp_threads]; }

// Every lane brings a value and sees all of them; the second meeting keeps the slots until all have read.
template <class Read>
auto meet(const char* operation, std::uint64_t value, Read read) {
  Warp& warp = own_warp();
  if (warp.barrier.arrived == 0) {
    warp.operation = operation;
  } else if (warp.operation != operation) {
    throw std::logic_error("lanes of a warp meet in different operations");
  }
  warp.slots[state.thread % warp_threads] = value;
  wait(warp.barrier);
  auto result = read(warp.slots);
  warp.operation = operation;
  wait(warp.barrier);
  return result;
}

[[noreturn]] void fiber_main() {
  for (;;) {
    (*state.body)();
    state.fibers[state.thread].done = true;
    state.progress = true;
    leave(own_warp().barrier);
    leave(state.block);
    yield();
  }
}

void start(Fiber& fiber) {
  fiber.stack = std::make_unique<std::byte[]>(stack_bytes);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = stack_bytes;
  context.uc_link = nullptr;
  makecontext(&context, fiber_main, 0);
  setcontext(&context);
}

// Runs a fiber to its next yield.
void resume(Fiber& fiber) {
  if (_setjmp(state.scheduler) != 0) return;
  if (!fiber.stack) start(fiber);
  _longjmp(fiber.resume, 1);
}

void run_thread(unsigned int thread) {
  if (state.fibers[thread].done) return;
  state.thread = thread;
  resume(state.fibers[thread]);
}

// Takes the lanes of a warp to their next barrier, from `first_lane` on; whether one of them got on.
bool step_warp(unsigned int warp, unsigned int threads, unsigned int first_lane) {
  const bool progress_before = std::exchange(state.progress, false);
  for (unsigned int i = 0; i < warp_threads; ++i) {
    const unsigned int thread = warp * warp_threads + (first_lane + i) % warp_threads;
    if (thread < threads) run_thread(thread);
  }
  return std::exchange(state.progress, state.progress || progress_before);
}

// One turn of every warp.
void run_warps(unsigned int threads, Schedule::Warps order, std::minstd_rand& random) {
  std::vector<unsigned int> warps(state.warps.size());
  std::iota(warps.begin(), warps.end(), 0U);
  if (order == Schedule::Warps::last_ahead) std::reverse(warps.begin(), warps.end());
  const bool is_random = order == Schedule::Warps::random;
  if (is_random) std::shuffle(warps.begin(), warps.end(), random);
  for (const unsigned int warp : warps) {
    const auto lane = is_random ? static_cast<unsigned int>(random()) % warp_threads : 0;
    const bool far = !is_random || random() % 2 == 0;
    while (step_warp(warp, threads, lane) && far) {
    }
  }
}

void run_cta(unsigned int threads, Schedule::Warps order, std::minstd_rand& random) {
  state.warps.assign((threads + warp_threads - 1) / warp_threads, Warp{});
  state.block = Barrier{threads, 0, 0};
  for (unsigned int t = 0; t < threads; ++t) {
    state.fibers[t].done = false;
    ++state.warps[t / warp_threads].barrier.members;
  }
  while (state.block.members > 0) {
    state.progress = false;
    if (order == Schedule::Warps::together) {
      for (unsigned int t = 0; t < threads; ++t) run_thread(t);
    } else {
      run_warps(threads, order, random);
    }
    if (!state.progress) throw std::logic_error("the threads of a CTA wait for each other for ever");
  }
}

}  // namespace

std::vector<Schedule> uneven_schedules() {
  using Warps = Schedule::Warps;
  return {{Warps::first_ahead}, {Warps::last_ahead}, {Warps::random, 1}, {Warps::random, 2}};
}

std::string describe(const Schedule& schedule) {
  switch (schedule.warps) {
    case Schedule::Warps::together:
      return "warps together";
    case Schedule::Warps::first_ahead:
      return "first warp ahead";
    case Schedule::Warps::last_ahead:
      return "last warp ahead";
    case Schedule::Warps::random:
      break;
  }
  return "random warps, seed " + std::to_string(schedule.seed);
}

void Grid::run(unsigned int ctas, unsigned int threads, const std::function<void()>& body, Schedule schedule) {
  if (state.fibers.size() < threads) state.fibers.resize(threads);
  state.body = &body;
  state.ctas = ctas;
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(schedule.seed));
  for (state.cta = 0; state.cta < ctas; ++state.cta) {
    run_cta(threads, schedule.warps, random);
  }
}

Index Grid::thread_index() { return {state.thread}; }
Index Grid::block_index() { return {state.cta}; }
Index Grid::grid_size() { return {state.ctas}; }

void Grid::sync_block() { wait(state.block); }

void Grid::sync_warp() {
  meet("sync", 0, [](const auto&) { return 0; });
}

unsigned int Grid::ballot(bool predicate) {
  return meet("ballot", predicate ? 1 : 0, [](const auto& slots) {
    unsigned int votes = 0;
    for (unsigned int lane = 0; lane < warp_threads; ++lane) votes |= static_cast<unsigned int>(slots[lane]) << lane;
    return votes;
  });
}

std::uint64_t Grid::shuffle_bits(std::uint64_t bits, int lane) {
  return meet("shuffle", bits,
              [lane](const auto& slots) { return slots[static_cast<std::size_t>(lane) % warp_threads]; });
}

}  // namespace csajit::emulator
