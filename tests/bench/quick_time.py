"""First figures: forward and backward beside a plain stream of the same traffic, cold, by graph replay.

Usage: quick_time.py [--rows 0,3,9] [--seconds-per-figure X] [--csv FILE]; environment CSAJIT_LIBRARY.
Each figure replays a graph of 20 launches or more that rotate among buffer sets of together more than 300 MB, and is
the median over replays. Streams: read-only for the forward, two reads and two writes for the backward, each the best
of a few grid shapes. Efficiency = stream / kernel. Warm: one buffer set. Traffic is what the operator must move:
forward 2TWs + Rds, backward 4TWs + Rds bytes; TB/s of the kernels counts that, of the streams what they moved.
"""

import argparse
import ctypes
import math
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))

import torch

import probe
from csajit_ctypes import Service, Spec
from harness import Call

COLD_BYTES = 320e6
# (ratio, coff, head_dim, segment lengths, forward goal, backward goal), goals in us on an H200.
ROWS = (
    (4, 2, 128, [8192], 4.3, 6.4),
    (4, 2, 128, [8192] * 3, 8.5, 16.0),
    (4, 2, 512, [8192], 10.4, 20.3),
    (4, 2, 512, [8192] * 3, 26.6, 55.0),
    (4, 2, 512, [8192] * 16, 133.0, 286.0),
    (128, 1, 128, [8192], 3.4, 4.8),
    (128, 1, 128, [131072], 17.8, 36.6),
    (128, 2, 128, [65536], 17.8, 36.6),
    (128, 1, 512, [65536], 33.7, 71.0),
    (128, 2, 512, [65536], 65.0, 140.0),
    (128, 2, 512, [131072], 128.0, 279.0),
)

STREAM_SOURCE = r"""
struct alignas(16) Vector { unsigned x, y, z, w; };

__device__ unsigned fold(Vector v) { return v.x ^ v.y ^ v.z ^ v.w; }

// n vectors of each of a and b are read. No element is likely to fold to the token, so nothing is stored.
template <int V>
__device__ void read_tiles(const Vector* a, const Vector* b, unsigned* sink, unsigned long long n, unsigned token) {
  unsigned sum = 0;
  const unsigned long long tile = (unsigned long long)blockDim.x * V;
  for (unsigned long long first = blockIdx.x * tile; first < n; first += gridDim.x * tile) {
    Vector va[V], vb[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const unsigned long long i = first + v * blockDim.x + threadIdx.x;
      va[v] = vb[v] = Vector{0, 0, 0, 0};
      if (i < n) { va[v] = a[i]; vb[v] = b[i]; }
    }
#pragma unroll
    for (int v = 0; v < V; ++v) sum ^= fold(va[v]) ^ fold(vb[v]);
  }
  if (sum == token) *sink = sum;
}

// Two reads and two writes.
template <int V>
__device__ void copy_tiles(const Vector* a, const Vector* b, Vector* c, Vector* d, unsigned long long n) {
  const unsigned long long tile = (unsigned long long)blockDim.x * V;
  for (unsigned long long first = blockIdx.x * tile; first < n; first += gridDim.x * tile) {
    Vector va[V], vb[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const unsigned long long i = first + v * blockDim.x + threadIdx.x;
      if (i < n) { va[v] = a[i]; vb[v] = b[i]; }
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const unsigned long long i = first + v * blockDim.x + threadIdx.x;
      if (i < n) { c[i] = va[v]; d[i] = vb[v]; }
    }
  }
}

#define CSAJIT_STREAM(V)                                                                                            \
  extern "C" __global__ void read_##V(const Vector* a, const Vector* b, unsigned* sink, unsigned long long n,       \
                                      unsigned token) {                                                             \
    read_tiles<V>(a, b, sink, n, token);                                                                            \
  }                                                                                                                 \
  extern "C" __global__ void copy_##V(const Vector* a, const Vector* b, Vector* c, Vector* d,                       \
                                      unsigned long long n) {                                                       \
    copy_tiles<V>(a, b, c, d, n);                                                                                   \
  }
CSAJIT_STREAM(1)
CSAJIT_STREAM(2)
CSAJIT_STREAM(4)
"""

# (vectors a thread and tensor, threads, CTAs an SM; 0: one tile a CTA). Two tensors are read, so 4 means 8 in flight.
READ_SHAPES = ((1, 128, 0), (2, 128, 0), (4, 128, 0), (2, 128, 8), (2, 128, 16), (4, 128, 8), (4, 128, 16))
COPY_SHAPES = ((1, 128, 0), (1, 256, 0), (2, 128, 0), (1, 512, 0))


class Timer:
    """Median time of one launch, from replays of a graph that rotates among launches."""

    def __init__(self, seconds):
        self.seconds = seconds

    def microseconds(self, launches):
        """launches: one callable for each buffer set; each enqueues one launch on the current stream."""
        for launch in launches:
            launch()
        torch.cuda.synchronize()
        rotations = math.ceil(20 / len(launches))
        guess_us = self._replays(self._graph(launches, rotations), 3)[-1] / (rotations * len(launches))
        # A graph of about 1.5 ms, so that what surrounds it does not count; whole rotations only.
        rotations = math.ceil(max(20.0, min(400.0, 1500.0 / max(guess_us, 1.0))) / len(launches))
        count = rotations * len(launches)
        graph = self._graph(launches, rotations)
        repeats = int(max(9, min(200, self.seconds * 1e6 / (guess_us * count))))
        return statistics.median(self._replays(graph, repeats + 1)[1:]) / count

    @staticmethod
    def _graph(launches, rotations):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(rotations):
                for launch in launches:
                    launch()
        return graph

    @staticmethod
    def _replays(graph, repeats):
        """Microseconds of each of back-to-back replays."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
        marks[0].record()
        for mark in marks[1:]:
            graph.replay()
            mark.record()
        torch.cuda.synchronize()
        return [first.elapsed_time(second) * 1e3 for first, second in zip(marks, marks[1:])]


class Streams:
    """The yardsticks over the same buffers as the kernels."""

    def __init__(self):
        module = probe.Module(STREAM_SOURCE)
        self.kernels = {f"{kind}_{v}": module.function(f"{kind}_{v}") for kind in ("read", "copy") for v in (1, 2, 4)}
        self.sm_count = torch.cuda.get_device_properties(0).multi_processor_count
        self.sink = torch.zeros(1, dtype=torch.int32, device="cuda")

    def _launches(self, kind, calls, shape):
        vectors, threads, per_sm = shape
        kernel = self.kernels[f"{kind}_{vectors}"]

        def make(call):
            count = call.kv.numel() * call.kv.element_size() // 16
            grid = self.sm_count * per_sm if per_sm else math.ceil(count / (threads * vectors))
            arguments = [probe.address(call.kv), probe.address(call.score)]
            if kind == "read":
                arguments += [probe.address(self.sink), ctypes.c_uint64(count), ctypes.c_uint32(0x9E3779B9)]
            else:
                arguments += [probe.address(call.grad_kv), probe.address(call.grad_score), ctypes.c_uint64(count)]
            return lambda: kernel(grid, threads, arguments)

        return [make(call) for call in calls]

    def best(self, kind, calls, timer):
        """(us, shape) of the fastest shape."""
        shapes = READ_SHAPES if kind == "read" else COPY_SHAPES
        return min((timer.microseconds(self._launches(kind, calls, shape)), shape) for shape in shapes)


def time_row(service, streams, timer, row):
    """A dict of the figures of one row of the table."""
    ratio, coff, head_dim, lens, forward_goal, backward_goal = row
    spec = Spec(ratio, head_dim, coff)
    tokens, rows = sum(lens), sum(length // ratio for length in lens)
    input_bytes = 2 * tokens * spec.columns * 2
    forward_bytes = input_bytes + rows * head_dim * 2
    backward_bytes = 2 * input_bytes + rows * head_dim * 2
    service.prepare(spec)
    # Enough sets for the forward; the backward of the same sets moves twice as much.
    sets = max(1, math.ceil(COLD_BYTES / input_bytes))
    calls = [Call(service, spec, lens, seed=index + 1) for index in range(sets)]
    figures = {"row": f"r{ratio} c{coff} d{head_dim} {len(lens)}x{lens[0]}", "sets": sets}
    for name, kind, launch, traffic, stream_bytes, goal in (
        ("forward", "read", Call.forward, forward_bytes, input_bytes, forward_goal),
        ("backward", "copy", Call.backward, backward_bytes, 2 * input_bytes, backward_goal),
    ):
        stream_us, shape = streams.best(kind, calls, timer)
        cold = timer.microseconds([lambda call=call: launch(call) for call in calls])
        warm = timer.microseconds([lambda: launch(calls[0])])
        figures[name] = {
            "cold_us": cold,
            "warm_us": warm,
            "tb_s": traffic / cold / 1e6,
            "stream_us": stream_us,
            "stream_tb_s": stream_bytes / stream_us / 1e6,
            "stream_shape": shape,
            "efficiency": stream_us / cold,
            "goal_us": goal,
        }
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="comma list of row numbers, from 0; default all")
    parser.add_argument("--seconds-per-figure", type=float, default=0.05)
    parser.add_argument("--csv", help="write the figures there as well")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skip quick_time: PyTorch sees no GPU here")
        return 0
    chosen = [int(text) for text in options.rows.split(",")] if options.rows else range(len(ROWS))
    timer, streams = Timer(options.seconds_per_figure), Streams()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bf16, cold: us and TB/s")
    print(
        f"{'shape':<24}{'pass':<9}{'kernel':>9}{'TB/s':>6}{'stream':>9}{'TB/s':>6}{'eff':>7}{'goal':>8}{'warm':>9}"
        "  stream shape"
    )
    lines = ["shape,pass,cold_us,tb_s,stream_us,stream_tb_s,efficiency,goal_us,warm_us"]
    with Service() as service:
        for index in chosen:
            figures = time_row(service, streams, timer, ROWS[index])
            for name in ("forward", "backward"):
                f = figures[name]
                mark = " " if f["cold_us"] <= f["goal_us"] else "*"
                print(
                    f"{figures['row']:<24}{name:<9}{f['cold_us']:>9.2f}{f['tb_s']:>6.2f}{f['stream_us']:>9.2f}"
                    f"{f['stream_tb_s']:>6.2f}{f['efficiency']:>7.3f}{f['goal_us']:>7.1f}{mark}{f['warm_us']:>9.2f}"
                    f"  {f['stream_shape']}",
                    flush=True,
                )
                lines.append(
                    f"{figures['row']},{name},{f['cold_us']:.3f},{f['tb_s']:.3f},{f['stream_us']:.3f},"
                    f"{f['stream_tb_s']:.3f},{f['efficiency']:.4f},{f['goal_us']},{f['warm_us']:.3f}"
                )
            torch.cuda.empty_cache()
    print("*: over the goal")
    if options.csv:
        with open(options.csv, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
