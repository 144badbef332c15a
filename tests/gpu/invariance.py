"""Batch invariance: the same window gives the same bits wherever it lies, and grad_ape's depend on its rows alone.

Usage: invariance.py. One segment's results, from a call of its own, are compared bit by bit with those of the same
data at other positions, in other packs, layouts, strides and alignments (so other vector widths), with other T, R
and B. grad_ape is compared where the rows are the same ones in the same order.
"""

import sys

import torch

from case import Case, execute
from compare import bits
from csajit_ctypes import Service, Spec
from data import make_data
from harness import Tally
from reference import Pack

ROW_OUTPUTS = ("out", "grad_kv", "grad_score")


class Segment:
    """One segment's dense data and its results from a call of its own."""

    def __init__(self, service, spec, length, device, seed=5):
        self.spec, self.length = spec, length
        self.case = Case("alone", spec, Pack([length], spec.ratio), seed=seed)
        self.data = make_data(self.case, device)
        self.misses = []
        self.golden = execute(service, self.case, self.data, device, "contiguous", 0, 0xFF, self.misses)

    def put_into(self, case, index, data):
        """This segment's data as segment `index` of another case. Returns its tokens and rows there."""
        pack = case.pack
        first = index * pack.batched_tokens if pack.batched_tokens else pack.cu[index]
        tokens = slice(first, first + self.length)
        rows = slice(pack.comp[index], min(pack.num_rows, pack.comp[index + 1]))
        data.kv[tokens], data.score[tokens] = self.data.kv, self.data.score
        data.grad_out[rows] = self.data.grad_out[: rows.stop - rows.start]
        if data.ape is not None:
            data.ape.copy_(self.data.ape)
        return tokens, rows


def places(spec, length):
    """(text, pack, index of the segment) of packs that hold the segment."""
    r = spec.ratio
    others = [3 * r + 1, 0, 1, length, 5 * r - 1]
    yield "second of two", Pack([r + 1, length], r), 1
    yield "between others", Pack([*others, length, 2 * r], r, padding=7), 5
    yield "first, and capacity rows", Pack([length, *others], r, extra_rows=9, padding=3 * r), 0
    yield "offsets that start above 0", Pack([r, length], r, cu_start=5, comp_start=3, padding=1), 1
    yield "last, and as many rows as R", Pack([*others, length], r), 5
    yield "after 300 short ones", Pack([1 + i % (2 * r) for i in range(300)] + [length], r), 300
    yield "batched", Pack([length, r, length - 1], r, batched_tokens=length + 3), 0
    yield "batched, last", Pack([r, 0, length], r, batched_tokens=length), 2


LAYOUTS = (("contiguous", 0, 8), ("contiguous", 1, 8), ("contiguous", 2, 8), ("strided", 0, 3), ("fused", 4, 8))


def check_rows(service, spec, length, device, tally):
    segment = Segment(service, spec, length, device)
    runs, bad = 0, []
    for text, pack, index in places(spec, length):
        for layout, shift, gap in (*LAYOUTS, ("sbhd", 0, 8)):
            if layout == "sbhd" and not pack.batched_tokens:
                continue
            case = Case(text, spec, pack, layout=layout, row_gap=gap, seed=11)
            data = make_data(case, device)
            tokens, rows = segment.put_into(case, index, data)
            outputs = execute(service, case, data, device, layout, shift, 0x00, segment.misses)
            runs += 1
            for name in ROW_OUTPUTS:
                part = outputs[name][rows if name == "out" else tokens]
                count = int((bits(part) != bits(segment.golden[name])).sum())
                if count:
                    bad.append(f"{text}, {layout}+{shift}: {count} bits of {name}")
    text = f"{spec}: a segment of {length} tokens has its bits in {runs} other calls"
    tally.check(not bad and not segment.misses, text, "; ".join((bad + segment.misses)[:5]))


def check_grad_ape(service, spec, lens, device, tally):
    """R as a capacity, padding, offsets, layouts and, at coff 1, how the rows are cut into segments."""
    r = spec.ratio
    whole = Pack(lens, r)
    golden_case = Case("golden", spec, whole, seed=21)
    golden_data = make_data(golden_case, device)
    misses = []
    golden = execute(service, golden_case, golden_data, device, "contiguous", 0, 0xFF, misses)["grad_ape"]
    variants = [
        ("R + 1", Pack(lens, r, extra_rows=1)),
        ("R + 1000", Pack(lens, r, extra_rows=1000)),
        ("R times 9", Pack(lens, r, extra_rows=8 * whole.num_rows)),
        ("padding", Pack(lens, r, padding=4 * r + 3)),
        ("cu[0] = 5", Pack(lens, r, cu_start=5)),
        ("empty segments before and after", Pack([0, 0, *lens, 0], r)),
        ("segments below r among them", Pack([r - 1, *lens, r - 1, 0], r, padding=3, extra_rows=5)),
    ]
    if spec.coff == 1:
        rows = [length // r for length in lens]
        variants.append(("each row a segment with a tail", Pack([2 * r - 1] * sum(rows), r)))
        variants.append(("one segment", Pack([sum(rows) * r], r)))
    starts, _ = whole.row_starts(device)
    own = starts[:, None] + torch.arange(r, device=device)[None]
    bad = []
    for text, pack in variants:
        case = Case(text, spec, pack, seed=22)
        data = make_data(case, device)
        there = pack.row_starts(device)[0][:, None] + torch.arange(r, device=device)[None]
        data.kv[there], data.score[there] = golden_data.kv[own], golden_data.score[own]
        data.grad_out[: whole.num_rows] = golden_data.grad_out
        data.ape.copy_(golden_data.ape)
        for layout, shift in (("contiguous", 0), ("strided", 1)):
            got = execute(service, case, data, device, layout, shift, 0x00, misses)["grad_ape"]
            count = int((bits(got) != bits(golden)).sum())
            if count:
                bad.append(f"{text}, {layout}+{shift}: {count}")
    text = f"{spec} R={whole.num_rows}: grad_ape has its bits in {2 * len(variants)} other calls"
    tally.check(not bad and not misses, text, "; ".join((bad + misses)[:5]))


def run(service, device, tally, specs, rows):
    for spec in specs:
        r = spec.ratio
        check_rows(service, spec, 7 * r + r // 2, device, tally)
        if spec.ape:
            # A few rows, and enough that partials hold many.
            for lens in ([5 * r, 3 * r + r - 1], [rows * r, 17 * r, rows * r]):
                check_grad_ape(service, spec, lens, device, tally)


SPECS = (
    Spec(4, 512, 2),
    Spec(4, 128, 2),
    Spec(128, 512, 1),
    Spec(128, 128, 2),
    Spec(4, 65, 2, "fp16"),
    Spec(4, 128, 1, "fp32"),
    Spec(8, 128, 2, "bf16", "fp32", "fp32"),
    Spec(2, 64, 2, ape=False),
    Spec(3, 1, 2, "fp32"),
    Spec(17, 96, 2, "fp32"),
    Spec(256, 64, 2),
)


def main():
    if not torch.cuda.is_available():
        print("skip invariance: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    tally = Tally()
    with Service() as service:
        run(service, "cuda", tally, [spec for spec in SPECS if spec.window <= 16], 3000)
        run(service, "cuda", tally, [spec for spec in SPECS if spec.window > 16], 300)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
