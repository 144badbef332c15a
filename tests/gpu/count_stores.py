"""How often the real kernels write each element on a GPU: exactly once, and nothing beside the outputs.

Usage: count_stores.py [--random N] [--seed S]. CSAJIT_LIBRARY must be libcsajit_counting.so, whose kernels add 1 to each
16-bit unit that they would write (counting/common/store.cuh); no result is judged here. Runs the named bf16 cases
without planted values, and random ones of every dtype.
"""

import argparse
import sys

import torch

import memory
from case import execute
from compare import bits
from csajit_ctypes import Service
from data import make_data
from named_cases import named_cases
from parity import build_ahead
from random_cases import DTYPE_SETS, random_case

ONCE = {2: 1, 4: 0x10001}  # by element size


def chosen_cases(count, seed):
    for case in named_cases(("bf16", "bf16", "bf16")):
        if case.plant is None and not case.scaled and case.score_sigma < 2.0:
            yield case
    for number in range(count):
        yield random_case(seed, number, list(DTYPE_SETS))


def run(service, case, misses):
    """Counts the writes of one case in its own layout and in its second one. Returns how many elements were looked at."""
    case.accumulate = False
    data, looked_at = make_data(case, "cuda"), 0
    for layout, shift in ((case.layout, case.shift), (case.second_layout, 1 - min(case.shift, 1))):
        for name, tensor in execute(service, case, data, "cuda", layout, shift, 0x00, misses).items():
            if tensor is None:
                continue
            counts = bits(tensor)
            never, wrong = int((counts == 0).sum()), int((counts != ONCE[tensor.element_size()]).sum())
            looked_at += counts.numel()
            if wrong:
                misses.append(f"{layout}: {name}: {never} elements never written, {wrong - never} more than once")
    return looked_at


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skip count_stores: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    memory.FILL_BYTE = 0x00
    cases = list(chosen_cases(options.random, options.seed))
    passed = failed = elements = 0
    with Service() as service:
        build_ahead(service, list({str(case.spec): case.spec for case in cases}.values()), "cuda")
        for case in cases:
            misses = []
            elements += run(service, case, misses)
            passed, failed = passed + (not misses), failed + bool(misses)
            print(f"{'FAIL' if misses else 'ok  '} {case.name}", flush=True)
            for miss in misses:
                print(f"       {miss}", flush=True)
    print(f"count_stores: {elements} elements looked at")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed or not elements else 0


if __name__ == "__main__":
    sys.exit(main())
