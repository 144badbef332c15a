"""A kernel that holds SMs until it is told to stop, and times of graphs beside it. Knows no csajit."""

import ctypes

import torch

import probe

# One block an SM: all of its shared memory (each block needs some for itself, so no other fits) and half of its
# threads. Inside the block nothing may wait for the whole device: no torch.cuda.synchronize, no new graph.
SOURCE = r"""
extern "C" __global__ void __launch_bounds__(1024, 1) hold(const volatile int* stop, int* held,
                                                          unsigned long long limit_ns) {
  extern __shared__ int shared[];
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  if (threadIdx.x == 0) {
    unsigned int sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    shared[0] = 1;
    atomicAdd(&held[sm], 1);
  }
  do {
    __nanosleep(200);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*stop == 0 && now - begin < limit_ns);
}
"""
MAX_HELD_NS = 20_000_000_000


class HeldSms:
    """with HeldSms(24): that many SMs are held inside the block."""

    def __init__(self, count):
        self.count = count
        limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
        self.kernel = probe.Module(SOURCE).function("hold", limit)
        self.stream, self.stop_stream = torch.cuda.Stream(), torch.cuda.Stream()
        self.stop = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.held = torch.zeros(1024, dtype=torch.int32, device="cuda")
        self.one = torch.ones(1, dtype=torch.int32).pin_memory()

    def __enter__(self):
        self.stop.zero_()
        self.held.zero_()
        torch.cuda.synchronize()
        arguments = [probe.address(self.stop), probe.address(self.held), ctypes.c_uint64(MAX_HELD_NS)]
        self.kernel(self.count, 1024, arguments, self.stream)
        # Until every block runs: copies need no SM.
        host = torch.zeros(1024, dtype=torch.int32).pin_memory()
        with torch.cuda.stream(self.stop_stream):
            for _ in range(100_000):
                host.copy_(self.held, non_blocking=True)
                self.stop_stream.synchronize()
                if int(host.sum()) == self.count:
                    break
        self.held_count = int((host > 0).sum())
        return self

    @property
    def is_holding(self):
        return not self.stream.query()

    def __exit__(self, *_):
        with torch.cuda.stream(self.stop_stream):
            self.stop.copy_(self.one, non_blocking=True)
        self.stop_stream.synchronize()
        self.stream.synchronize()


def graph_of(action, repeats):
    """A graph of an action, repeated; the action has run before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            action()
    return graph


def replay_ms(graph, repeats, rounds=5):
    """Median milliseconds of one action inside a graph of `repeats` of them, on the current stream."""
    times = []
    graph.replay()
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / repeats)
    return sorted(times)[len(times) // 2]
