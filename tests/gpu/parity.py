"""csajit against PyTorch's fp32-eager and an fp64 oracle, by the numerics contract: named and random cases.

Usage: parity.py [--filter TEXT] [--dtype bf16[,fp16,fp32,mixed]] [--random N [--seed S] [--seconds X]]
Prints one line a case and exits non-zero on any miss. A spec that the library does not support yet is a skip,
counted and said; bf16 with APE is never a skip. --random N runs the N random cases instead of the named ones.
"""

import argparse
import os
import random
import sys
import time

import torch

import csajit_abi as abi
from case import Case, run_case
from csajit_ctypes import CsajitError, Service, Spec
from reference import Pack

SHORT_PACKS = ([2048], [1023, 2048, 509], [3, 515, 1024, 129], [64, 0, 253, 3])
LONG_PACKS = ([5, 6, 7], [127, 8192, 0, 129, 128, 3, 515, 1024], *SHORT_PACKS)
DTYPE_SETS = {
    "bf16": [("bf16", "bf16", "bf16")],
    "fp16": [("fp16", "fp16", "fp16")],
    "fp32": [("fp32", "fp32", "fp32")],
    "mixed": [("bf16", "fp32", "bf16"), ("fp16", "bf16", "fp32"), ("fp32", "bf16", "bf16")],
}


def text_of(lens):
    return str(lens).replace(" ", "") if len(lens) <= 8 else f"[{len(lens)} segments, {sum(lens)} tokens]"


def named_cases(dtypes):
    """Grouped by spec, so that each kernel is loaded once."""
    kv, score, out = dtypes

    def make(ratio, head_dim, coff, lens, note="", pack=None, **more):
        spec = Spec(ratio, head_dim, coff, kv, score, out, more.pop("ape", True))
        name = f"{spec} {text_of(lens)}{' ' + note if note else ''}"
        return Case(name, spec, Pack(lens, ratio, **(pack or {})), **more)

    for ratio, packs in ((4, SHORT_PACKS), (128, LONG_PACKS)):
        for coff in (1, 2):
            for head_dim in (128, 512):
                for lens in packs:
                    yield make(ratio, head_dim, coff, lens)
    yield make(4, 512, 2, [8192] * 3)
    yield make(128, 512, 1, [8192] * 3)
    yield make(128, 512, 2, [8192] * 3)
    for ratio in (2, 16):
        for coff in (1, 2):
            for lens in SHORT_PACKS:
                yield make(ratio, 128, coff, lens)

    # The shapes of a call, on the real specs.
    for ratio, coff, lens in ((4, 2, [1023, 2048, 509]), (128, 1, [515, 1024, 129]), (128, 2, [515, 1024, 129])):
        tokens = sum(lens)
        for note, pack in (
            ("R+5", {"extra_rows": 5}),
            ("R+8", {"extra_rows": 8}),
            ("R-3", {"extra_rows": -3}),
            ("R=0", {"extra_rows": -(10**6)}),
            ("pad21", {"padding": 21}),
            ("pad37", {"padding": 37}),
            ("pad90%", {"padding": 9 * tokens}),
            ("cu0=7", {"cu_start": 7, "extra_rows": 2}),
            ("comp0=3", {"comp_start": 3, "padding": 5}),
            ("batched", {"batched_tokens": 2100}),
        ):
            second = "sbhd" if note == "batched" else "strided"
            yield make(ratio, 128, coff, lens, note, pack, second_layout=second)
        yield make(ratio, 128, coff, lens, "fused", layout="fused")
        yield make(ratio, 128, coff, lens, "odd strides", layout="strided", row_gap=3, second_layout="fused")
        yield make(ratio, 128, coff, lens, "accumulate", accumulate=True)
        yield make(ratio, 128, coff, lens, "grad_kv only", wanted=("grad_kv",))
        yield make(ratio, 128, coff, lens, "grad_score only", wanted=("grad_score",))
        yield make(ratio, 128, coff, lens, "grad_ape only", wanted=("grad_ape",))
        yield make(ratio, 128, coff, lens, "non-finite", non_finite=True)
        if kv != "fp16" and score != "fp16" and out != "fp16":
            yield make(ratio, 128, coff, lens, "x64", scaled=True)
    yield make(4, 128, 2, [3, 2, 1, 3], "no rows, R=2", {"extra_rows": 2})
    yield make(4, 128, 2, [], "no segments", {"padding": 9})
    yield make(4, 128, 2, [1 + (7 * i) % 40 for i in range(20000)])

    # The corners of the spec.
    corners = ((4, 1, 2), (4, 65, 2), (8, 96, 2), (3, 192, 1), (17, 65, 2), (127, 65, 1), (256, 96, 2))
    for ratio, head_dim, coff in corners:
        yield make(ratio, head_dim, coff, [3, 515, 1024, 129])
    yield make(1, 128, 1, [64, 0, 253, 3], ape=False)
    yield make(4, 128, 2, [1023, 2048, 509], ape=False)
    yield make(16, 128, 2, [1023, 2048, 509], "non-finite", non_finite=True)


def random_lens(rng, ratio, budget):
    """Segment lengths of one of several kinds, together at most about budget tokens."""
    kind = rng.choice(("one", "few", "many short", "all below r", "with empties", "none"))
    if kind == "none":
        return []
    if kind == "one":
        return [rng.randint(0, budget)]
    lens, total = [], 0
    count = {"few": rng.randint(2, 6), "many short": 400, "all below r": 20, "with empties": 12}[kind]
    for _ in range(count):
        top = {"few": budget // 2, "many short": 40, "all below r": ratio - 1, "with empties": 3 * ratio}[kind]
        length = 0 if kind == "with empties" and rng.random() < 0.4 else rng.randint(0, max(top, 0))
        if total + length > budget:
            break
        lens.append(length)
        total += length
    return lens


def random_case(seed, dtype_names):
    """A case from the contract's whole range, drawn from its seed alone."""
    rng = random.Random(seed)
    ratio = rng.choice((1, 2, 3, 4, 4, 5, 8, 16, 17, 32, 127, 128, 128, 256, rng.randint(1, 256)))
    head_dim = rng.choice((1, 2, 3, 8, 64, 65, 96, 128, 128, 192, 256, 512, 512, 520, rng.randint(1, 700)))
    coff = rng.choice((1, 2, 2))
    kv, score, out = rng.choice([types for name in dtype_names for types in DTYPE_SETS[name]])
    spec = Spec(ratio, head_dim, coff, kv, score, out, ape=rng.random() < 0.85)
    budget = max(2 * ratio, min(6000, 3_000_000 // spec.columns))
    lens = random_lens(rng, ratio, budget)
    batched = rng.random() < 0.25 and bool(lens)
    if batched:
        lens = lens[: max(1, 2 * budget // max([ratio, *lens]))]
    pack = Pack(
        lens,
        ratio,
        padding=0 if batched else rng.choice((0, 0, 1, 21, 37, sum(lens))),
        cu_start=rng.choice((0, 0, 0, 1, 9)),
        comp_start=rng.choice((0, 0, 0, 2)),
        extra_rows=rng.choice((0, 0, 0, 1, 5, 8, -1, -3, -(10**6))),
        batched_tokens=max([ratio, *lens]) + rng.choice((0, 1, 13)) if batched else 0,
    )
    if pack.num_tokens < ratio and pack.num_rows:
        pack.extra_rows = -(10**6)  # rows need a window of tokens to lie in
    wanted = rng.choice([("grad_kv", "grad_score", "grad_ape")] * 5 + [("grad_kv",), ("grad_score",), ("grad_ape",)])
    return Case(
        name=f"seed {seed}: {spec} {text_of(lens)}",
        spec=spec,
        pack=pack,
        layout=rng.choice(("contiguous", "contiguous", "strided", "fused", "sbhd")),
        second_layout=rng.choice(("contiguous", "strided", "fused", "sbhd")),
        shift=rng.choice((0, 0, 0, 1, 2, 4, 8)),
        row_gap=rng.choice((1, 2, 3, 4, 8, 64)),
        wanted=wanted,
        accumulate=rng.random() < 0.15,
        non_finite=rng.random() < 0.1,
        seed=seed,
    )


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, service, case, device):
        """Runs one case and prints its line."""
        start = time.monotonic()
        spec = case.spec
        try:
            verdict = run_case(service, case, device)
        except CsajitError as error:
            must = (spec.kv, spec.score, spec.out, spec.ape) == ("bf16", "bf16", "bf16", True)
            if error.status == abi.E_UNSUPPORTED and not must:
                self.skipped += 1
                print(f"skip {case.name}: {error.message}", flush=True)
                return
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
    """Fills the cache with every spec's kernels, several at once; a refusal shows up again where it is judged."""
    if torch.device(device).type != "cuda":
        return
    major, minor = torch.cuda.get_device_capability()
    for spec in specs:
        try:
            service.build(spec, f"sm_{major}{minor}", jobs=min(16, os.cpu_count() or 1))
        except CsajitError:
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only cases whose name holds this text")
    parser.add_argument("--dtype", default="bf16", help="comma list of bf16, fp16, fp32, mixed")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no further case after this time")
    options = parser.parse_args()
    dtype_names = options.dtype.split(",")
    if not torch.cuda.is_available():
        print("skip parity: PyTorch sees no GPU here")
        return 0
    device = "cuda"
    torch.cuda.init()
    torch.zeros(1, device=device)  # makes the primary context current, which csajit uses
    if options.random:
        cases = (random_case(options.seed + i, dtype_names) for i in range(options.random))
    else:
        cases = (case for name in dtype_names for types in DTYPE_SETS[name] for case in named_cases(types))
    cases = [case for case in cases if options.filter in case.name]
    start, tally, built = time.monotonic(), Tally(), set()
    with Service() as service:
        for index, case in enumerate(cases):
            if time.monotonic() - start > options.seconds:
                print(f"time is up: {len(cases) - index} of {len(cases)} cases were not run")
                break
            if str(case.spec) not in built:
                built.add(str(case.spec))
                build_ahead(service, [case.spec], device)
            tally.run(service, case, device)
        figures = service.statistics()
    print("statistics: " + ", ".join(f"{name} {value}" for name, value in figures.items()))
    if tally.skipped:
        print(f"skipped (not supported by this build): {tally.skipped}")
    print(f"parity: {time.monotonic() - start:.1f} s")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
