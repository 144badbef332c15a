"""Random cases of the parity suite, and the quotas that a run of them must meet. Runs nothing.

A case is drawn from its seed and number alone. Its number also forces one or two features, in turn, so that each
quota is met by construction; the draws meet them once more by chance.
"""

import random

from case import GRADIENTS, Case
from csajit_ctypes import Spec
from memory import row_elements
from named_cases import text_of
from reference import Pack

DTYPE_SETS = {
    "bf16": [("bf16", "bf16", "bf16")],
    "fp16": [("fp16", "fp16", "fp16")],
    "fp32": [("fp32", "fp32", "fp32")],
    "mixed": [
        ("bf16", "fp32", "bf16"),
        ("fp16", "bf16", "fp32"),
        ("fp32", "bf16", "bf16"),
        ("fp32", "fp16", "fp32"),
        ("bf16", "bf16", "fp32"),
    ],
}


def is_unaligned(case):
    """The rows of kv lie at strides that no vector access fits."""
    row = row_elements(case.layout, case.spec, case.row_gap)
    if case.layout == "sbhd" and case.pack.batched_tokens:
        row *= len(case.pack.lens)
    return row % 4 != 0


# Of 300 cases at least so many.
QUOTAS = {
    "win > 64": (60, lambda case: case.spec.window > 64),
    "fp16": (40, lambda case: (case.spec.kv, case.spec.score, case.spec.out) == ("fp16",) * 3),
    "fp32": (40, lambda case: (case.spec.kv, case.spec.score, case.spec.out) == ("fp32",) * 3),
    "mixed dtypes": (40, lambda case: len({case.spec.kv, case.spec.score, case.spec.out}) > 1),
    "d >= 512": (40, lambda case: case.spec.head_dim >= 512),
    "B > 100": (40, lambda case: len(case.pack.lens) > 100),
    "unaligned strides": (40, is_unaligned),
    "capacity and padding": (40, lambda case: case.pack.extra_rows > 0 and case.pack.padding > 0),
}


def count_quotas(cases):
    """{name: (cases that have it, cases that must)} for a run of this many cases."""
    return {
        name: (sum(1 for case in cases if has(case)), least * len(cases) // 300)
        for name, (least, has) in QUOTAS.items()
    }


def _random_lens(rng, ratio, budget, many):
    """Segment lengths of one of several kinds, together at most about budget tokens."""
    if many:
        # More than 100 segments, whatever the budget: most of them short ones, some of several rows.
        count = rng.randint(101, 400)
        top = max(3, min(40, 2 * budget // count))
        lens = [rng.randint(0, top) for _ in range(count)]
        for _ in range(5):
            lens[rng.randrange(count)] = rng.randint(0, max(2 * ratio, budget // 16))
        return lens
    kind = rng.choice(("one", "few", "few", "several", "several", "below r", "with empties", "none or nothing"))
    if kind == "none or nothing":
        return rng.choice(([], [0], [0, 0, 0], [rng.randint(0, ratio)]))
    if kind == "one":
        return [rng.randint(ratio, budget)]
    lens, total = [], 0
    count = {"few": rng.randint(2, 6), "several": rng.randint(7, 60), "below r": 20, "with empties": 12}[kind]
    for _ in range(count):
        top = {"few": budget // 2, "several": 5 * ratio, "below r": ratio - 1, "with empties": 3 * ratio}[kind]
        length = 0 if kind == "with empties" and rng.random() < 0.4 else rng.randint(0, max(top, 0))
        if total + length > budget:
            break
        lens.append(length)
        total += length
    if kind == "below r":
        lens.append(ratio + rng.randint(0, ratio))  # one row among them
    return lens


def _random_pack(rng, ratio, budget, number):
    """Every sixth pack has many segments, every other sixth capacity rows and padding."""
    many = number % 6 == 2
    both = number % 6 == 4
    lens = _random_lens(rng, ratio, budget, many)
    batched = rng.random() < 0.25 and bool(lens) and not both
    if batched and not many:
        lens = lens[: max(1, 2 * budget // max([ratio, *lens]))]
    elif batched:
        lens = [min(length, max(ratio, 40)) for length in lens]
        batched = len(lens) * max(ratio, 40) <= 4 * budget
    pack = Pack(
        lens,
        ratio,
        padding=0 if batched else rng.choice((1, 21, 37, sum(lens) + 1) if both else (0, 0, 1, 21, 37, sum(lens))),
        cu_start=rng.choice((0, 0, 0, 1, 9)),
        comp_start=rng.choice((0, 0, 0, 2)),
        extra_rows=rng.choice((1, 5, 8, 100) if both else (0, 0, 0, 1, 5, 8, -1, -3, -(10**6))),
        batched_tokens=max([ratio, *lens]) + rng.choice((0, 1, 13)) if batched else 0,
    )
    if pack.num_tokens < ratio and pack.num_rows:
        if both:
            pack.padding += ratio
        else:
            pack.extra_rows = -(10**6)  # rows need a window of tokens to lie in
    return pack


def random_case(seed, number, dtype_names):
    """Case `number` of a seed, drawn from the contract's whole range."""
    rng = random.Random(f"{seed}:{number}")
    long = number % 4 == 0
    ratio = rng.choice((1, 2, 3, 4, 4, 5, 8, 16, 17, 32, 127, 128, 128, 256, rng.randint(1, 256)))
    coff = rng.choice((1, 2, 2))
    if long and ratio * coff <= 64:
        ratio = rng.choice((65, 127, 128, 128, 256, rng.randint(65, 256)))
    head_dim = rng.choice((1, 2, 3, 8, 64, 65, 96, 128, 128, 192, 256, 512, 512, 520, rng.randint(1, 700)))
    if number % 7 == 1:
        head_dim = rng.choice((512, 512, 513, 520, 576, 700))
    # Types in turn, each with every other feature sooner or later: 4 sets, 7 * 6 * 5 features.
    kv, score, out = rng.choice(DTYPE_SETS[dtype_names[(number + number // len(dtype_names)) % len(dtype_names)]])
    spec = Spec(ratio, head_dim, coff, kv, score, out, ape=rng.random() < 0.85)
    budget = max(3 * ratio, min(6000, 3_000_000 // spec.columns))
    pack = _random_pack(rng, ratio, budget, number)
    layout = rng.choice(("contiguous", "contiguous", "strided", "fused", "sbhd"))
    row_gap = rng.choice((1, 2, 3, 4, 8, 64))
    if number % 5 == 3:
        layout = "strided"
        while (spec.columns + row_gap) % 4 == 0:
            row_gap = rng.choice((1, 2, 3, 5, 6, 7))
    return Case(
        name=f"{seed}:{number} {spec} {text_of(pack.lens)}",
        spec=spec,
        pack=pack,
        layout=layout,
        second_layout=rng.choice(("contiguous", "strided", "fused", "sbhd")),
        shift=rng.choice((0, 0, 0, 1, 2, 4, 8)),
        row_gap=row_gap,
        wanted=rng.choice([GRADIENTS] * 5 + [("grad_kv",), ("grad_score",), ("grad_ape",)]),
        accumulate=rng.random() < 0.15,
        non_finite=rng.random() < 0.1,
        score_sigma=rng.choice((1.5,) * 9 + (50.0,)),
        seed=1 + seed * 100_003 + number,
    )
