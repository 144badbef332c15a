"""Bits of all four outputs over 1000 graph replays while a second stream occupies random SMs; direct against replay.

Usage: determinism.py [--replays N]. Each replay fills the outputs and the workspace with NaN, runs forward and
backward and counts differing bits on the GPU, all inside the graph.
"""

import argparse
import ctypes
import os
import random
import sys
import time

import torch

import probe
from compare import bits
from csajit_ctypes import Service, Spec
from harness import Call, Tally, differing_bits, written

# Blocks that hold an SM's threads, or all of its shared memory, for a while; where they land is up to the hardware.
SPIN_SOURCE = r"""
extern "C" __global__ void spin(unsigned long long nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}
"""


class Disturbance:
    """Random spinning kernels on a stream of their own."""

    def __init__(self, seed):
        module = probe.Module(SPIN_SOURCE)
        self.kernels = [module.function("spin"), module.function("spin", 160 * 1024)]
        self.stream = torch.cuda.Stream()
        self.rng = random.Random(seed)
        self.sm_count = torch.cuda.get_device_properties(0).multi_processor_count
        self.launched = 0

    def launch(self):
        blocks = self.rng.randint(1, self.sm_count)
        block = self.rng.choice((128, 512, 1024))
        nanoseconds = ctypes.c_uint64(self.rng.randint(5_000, 150_000))
        self.rng.choice(self.kernels)(blocks, block, [nanoseconds], self.stream)
        self.launched += 1


def capture(call, golden=None, counters=None):
    """A graph of spoil, forward and backward; with golden, also of the count of differing bits of each output."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if golden is not None:
            call.spoil()
        call.forward()
        call.backward()
        if golden is not None:
            for index, (name, tensor) in enumerate(call.outputs().items()):
                counters[index] += (bits(tensor) != bits(golden[name])).sum()
    return graph


def check_replays(service, spec, lens, replays, disturbance, tally):
    call = Call(service, spec, lens)
    golden = call.direct()
    tally.check(not written(golden), f"{spec} R={call.num_rows}: every element is written", str(written(golden)))
    counters = torch.zeros(4, dtype=torch.int64, device="cuda")
    graph = capture(call, golden, counters)
    start = time.monotonic()
    torch.cuda.synchronize()
    for _ in range(replays):
        disturbance.launch()
        graph.replay()
        disturbance.launch()
    torch.cuda.synchronize()
    counts = counters.tolist()
    text = f"{spec} R={call.num_rows}: {replays} replays beside spinning SMs are bitwise equal to a direct call"
    tally.check(not any(counts), text, f"differing elements {counts}")
    print(f"     {time.monotonic() - start:.1f} s")
    # The counters can count: one wrong golden bit is seen at each of three replays.
    counters.zero_()
    bits(golden["out"]).view(-1)[0] ^= 1
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    tally.check(counters.tolist() == [3, 0, 0, 0], f"{spec}: a planted difference is counted", str(counters.tolist()))


def check_new_contents(service, spec, lens, smaller, tally):
    """Replay with new data, then with smaller segments in the same buffers."""
    call = Call(service, spec, lens)
    before = call.direct()
    graph = capture(call)
    tally.check(not differing_bits(call.replay(graph), before), f"{spec} {lens}: replay equals a direct call")
    call.set_data(2)
    replayed = call.replay(graph)
    text = f"{spec} {lens}: replay with new data equals a direct call"
    tally.check(not differing_bits(replayed, call.direct()), text)
    tally.check(bool(differing_bits(replayed, before)), f"{spec} {lens}: new data gives new results")
    call.set_lens(smaller)
    replayed = call.replay(graph)
    text = f"{spec} {lens} -> {smaller}: replay with smaller segments equals a direct call"
    tally.check(not differing_bits(replayed, call.direct()), text)
    fresh = Call(service, spec, smaller, num_tokens=call.num_tokens, num_rows=call.num_rows, seed=2)
    tally.check(not differing_bits(replayed, fresh.direct()), f"{spec} {smaller}: the same from fresh buffers")
    exact = Call(service, spec, smaller)
    exact.kv.copy_(call.kv[: exact.num_tokens])
    exact.score.copy_(call.score[: exact.num_tokens])
    exact.grad_out.copy_(call.grad_out[: exact.num_rows])
    if exact.ape is not None:
        exact.ape.copy_(call.ape)
    sizes = {"out": exact.num_rows, "grad_kv": exact.num_tokens, "grad_score": exact.num_tokens, "grad_ape": None}
    expected = exact.direct()
    parts = {name: tensor[: sizes[name]] for name, tensor in replayed.items()}
    text = f"{spec} {smaller}: a replay with R as a capacity has the bits of a direct call with the exact R"
    tally.check(not differing_bits(expected, parts), text, str(differing_bits(expected, parts)))


def check_paths(service, spec, lens, tally):
    """The regular path gives the bits of the fast one."""
    call = Call(service, spec, lens)
    fast = call.direct()
    again = call.direct()
    figures = service.statistics()
    tally.check(not differing_bits(fast, again), f"{spec}: run to run equal")
    tally.check(figures["fast_launches"] > 0, f"{spec}: launches take the fast path", str(figures))
    before = os.environ.get("CSAJIT_FAST_LAUNCH")
    os.environ["CSAJIT_FAST_LAUNCH"] = "0"
    try:
        regular = Service()
    finally:
        if before is None:
            del os.environ["CSAJIT_FAST_LAUNCH"]
        else:
            os.environ["CSAJIT_FAST_LAUNCH"] = before
    with regular:
        slow = call.direct(regular)
        figures = regular.statistics()
    used = figures["fast_launches"] == 0 and figures["regular_launches"] >= 2
    tally.check(used, f"{spec}: CSAJIT_FAST_LAUNCH=0 takes the regular path", str(figures))
    tally.check(not differing_bits(fast, slow), f"{spec}: CSAJIT_FAST_LAUNCH=0 gives the same bits")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=1000)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skip determinism: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    tally = Tally()
    disturbance = Disturbance(seed=7)
    cases = (
        (Spec(4, 128, 2), [8192, 1023, 16384, 0, 515, 8192]),
        (Spec(4, 512, 2), [8192, 8192, 16384]),
        (Spec(128, 128, 1), [131072] * 8),
    )
    with Service() as service:
        for spec in (case[0] for case in cases):
            service.prepare(spec)
        for spec, lens in cases:
            check_replays(service, spec, lens, options.replays, disturbance, tally)
        for spec, lens, smaller in (
            (Spec(4, 128, 2), [512, 256], [384, 128]),
            (Spec(4, 512, 2), [512, 256], [384, 128]),
            (Spec(128, 128, 1), [512, 256], [384, 128]),
        ):
            check_new_contents(service, spec, lens, smaller, tally)
        for spec in (Spec(4, 128, 2), Spec(128, 128, 1)):
            check_paths(service, spec, [1023, 2048, 509], tally)
    print(f"     {disturbance.launched} spinning kernels beside")
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
