"""csajit against PyTorch's fp32-eager and an fp64 oracle, by the numerics contract: named and random cases.

Usage: parity.py [--filter TEXT] [--dtype bf16[,fp16,fp32,mixed]] [--random N [--seed S] [--only I]] [--seconds X]
Prints one line a case and exits non-zero on any miss. A spec that the library refuses as unsupported is a miss like
any other. --random N runs N random cases instead of the named ones and checks their quotas; --only I runs the one
that is called S:I in the log. Cases that --seconds left no time for are a miss.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from case import run_case
from csajit_ctypes import CsajitError, Service
from named_cases import named_cases
from random_cases import DTYPE_SETS, count_quotas, random_case


# How many of the mixed sets of dtypes run the named cases; the random ones draw from all.
MIXED_SETS = 2


class Tally:
    def __init__(self):
        self.passed = self.failed = 0

    def run(self, service, case, device):
        """Runs one case and prints its line."""
        start = time.monotonic()
        try:
            verdict = run_case(service, case, device)
        except CsajitError as error:
            self.failed += 1
            print(f"FAIL {case.name}: {error}", flush=True)
            return
        word = "FAIL" if verdict.misses else "ok  "
        if verdict.misses:
            self.failed += 1
        else:
            self.passed += 1
        shape = f"T={case.pack.num_tokens} R={case.pack.num_rows} {case.layout}+{case.shift}"
        seconds = time.monotonic() - start
        print(f"{word} {case.name} | {shape} | {'; '.join(verdict.figures)} | {seconds:.2f} s", flush=True)
        for miss in verdict.misses:
            print(f"       {miss}", flush=True)


def build_ahead(service, specs, device):
    """Fills the cache with the kernels of all specs, many at once; a refusal shows up again where it is judged."""
    if torch.device(device).type != "cuda":
        return
    major, minor = torch.cuda.get_device_capability()

    def build(spec):
        try:
            service.build(spec, f"sm_{major}{minor}", jobs=2)
        except CsajitError:
            pass

    start = time.monotonic()
    with ThreadPoolExecutor(max(1, min(16, os.cpu_count() or 1))) as pool:
        list(pool.map(build, specs))
    print(f"built {len(specs)} specs in {time.monotonic() - start:.1f} s", flush=True)


def chosen_cases(options, dtype_names):
    """The cases of this run, and whether their quotas are met."""
    if not options.random:
        sets = [types for name in dtype_names for types in DTYPE_SETS[name][:MIXED_SETS]]
        cases = (case for types in sets for case in named_cases(types))
        return [case for case in cases if options.filter in case.name], True
    numbers = range(options.random) if options.only is None else [options.only]
    cases = [random_case(options.seed, number, dtype_names) for number in numbers]
    met = True
    if options.only is None and not options.filter and len(dtype_names) == len(DTYPE_SETS):
        for name, (count, least) in count_quotas(cases).items():
            met = met and count >= least
            print(f"{'quota' if count >= least else 'FAIL quota'} {name}: {count} of {len(cases)}, at least {least}")
    return [case for case in cases if options.filter in case.name], met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only cases whose name holds this text")
    parser.add_argument("--dtype", default="bf16", help="comma list of bf16, fp16, fp32, mixed")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, default=None, metavar="I")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no further case after this time")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skip parity: PyTorch sees no GPU here")
        return 0
    device = "cuda"
    torch.cuda.init()
    torch.zeros(1, device=device)  # makes the primary context current, which csajit uses
    start, tally, left = time.monotonic(), Tally(), 0
    cases, quotas_met = chosen_cases(options, options.dtype.split(","))
    if not quotas_met:
        tally.failed += 1
    with Service() as service:
        build_ahead(service, list({str(case.spec): case.spec for case in cases}.values()), device)
        for index, case in enumerate(cases):
            if time.monotonic() - start > options.seconds:
                left = len(cases) - index
                print(f"FAIL time is up: {left} of {len(cases)} cases were not run")
                break
            tally.run(service, case, device)
        figures = service.statistics()
    print("statistics: " + ", ".join(f"{name} {value}" for name, value in figures.items()))
    print(f"parity: {time.monotonic() - start:.1f} s")
    print(f"{tally.passed} passed, {tally.failed + left} failed, 0 skipped")
    return 1 if tally.failed or left or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
