"""Tests of the lists of cases, on the CPU: legal, complete, passed by the reference, and able to find a fault.

Run by selftest.py.
"""

import math

import torch

import invariance
import large
import named_cases
import plant
from case import Case, run_case
from csajit_ctypes import Spec
from data import make_data
from fake_service import FakeService
from harness import Call
from random_cases import DTYPE_SETS, count_quotas, random_case
from reference import Pack

DEVICE = "cpu"


def window_slots(spec, pack, row):
    """[(token, column offset, APE row)] of a row in window order, None where an entry is missing; by the text."""
    begin, end = pack.true_rows
    segment, n = None, 0
    if begin <= row < end:
        for index in range(len(pack.lens)):
            if pack.comp[index] <= row < pack.comp[index + 1]:
                segment, n = index, row - pack.comp[index]
    base = 0
    if segment is not None:
        base = segment * pack.batched_tokens if pack.batched_tokens else pack.cu[segment]
    t0, r, d = base + n * spec.ratio, spec.ratio, spec.head_dim
    if spec.coff == 1:
        return [(t0 + k, 0, k) for k in range(r)]
    first = [(t0 - r + k, 0, k) if n > 0 else None for k in range(r)]
    return first + [(t0 + k, d, k) for k in range(r)]


def verdict_of(case, fault=None):
    return run_case(FakeService(fault), case, DEVICE)


def check_random_cases_are_legal():
    names = list(DTYPE_SETS)
    for seed in range(1, 9):
        cases = [random_case(seed, number, names) for number in range(300)]
        for case in cases:
            pack, spec = case.pack, case.spec
            assert pack.num_rows == 0 or pack.num_tokens >= spec.ratio, case
            assert not pack.batched_tokens or pack.batched_tokens >= max([spec.ratio, *pack.lens]), case
            assert pack.num_tokens * spec.columns < 3e7, case
        for name, (count, least) in count_quotas(cases).items():
            assert count >= least, (seed, name, count, least)
        assert sum(case.pack.true_rows[1] > case.pack.true_rows[0] for case in cases) > 200
    ran = 0
    for number in range(60):
        case = random_case(1, number, names)
        if case.pack.num_tokens * case.spec.columns < 2e5:
            verdict = verdict_of(case)
            assert not verdict.misses, (case.name, verdict.misses)
            ran += 1
    assert ran > 5, ran


def check_plans_reach_every_position():
    """Each plan lands in each lane of a short window and somewhere in a long one, missing entries not counted."""
    for ratio, head_dim, coff in named_cases.PLANTED:
        window = coff * ratio
        pack = Pack(named_cases.planted_lens(ratio, window, head_dim), ratio)
        _, firsts = pack.row_starts(DEVICE)
        for plans in (plant.single_plans(window), plant.joint_plans(window), plant.largest_plans(window)):
            planter = plant.Planter(plans)
            chosen = planter.assign(firsts.numel(), head_dim, DEVICE)[~firsts]
            lanes = min(4, head_dim) if window <= 16 else 1
            for lane in range(lanes):
                columns = chosen[:, lane::4] if window <= 16 else chosen
                missed = set(range(len(plans))) - set(columns.unique().tolist())
                assert not missed, (ratio, head_dim, coff, len(plans), lane, len(missed))


def check_planted_values_land():
    """What the windows hold after planting, read by the text, is what the plans say."""
    spec = Spec(4, 8, 2, "fp32")
    pack = Pack(named_cases.planted_lens(4, 8, 8), 4, cu_start=3, comp_start=2, padding=2)
    plans = plant.single_plans(8)
    planter = plant.Planter(plans)
    case = Case("planted", spec, pack, plant=planter)
    data = make_data(case, DEVICE)
    begin, end = pack.true_rows
    chosen = planter.assign(end - begin, 8, DEVICE)
    for row in range(begin, end):
        slots = window_slots(spec, pack, row)
        for j in range(8):
            wanted = {(name, k): value for name, k, value in plans[int(chosen[row - begin, j])]}
            for name in ("kv", "score"):
                for k, slot in enumerate(slots):
                    if slot is None:
                        continue
                    value, want = float(getattr(data, name)[slot[0], slot[1] + j]), wanted.get((name, k))
                    same = math.isfinite(value) if want is None else value == want or math.isnan(value) and want != want
                    assert same, (row, j, name, k, value, want)


def check_planted_cases_pass_and_find_faults():
    """The reference passes its own planted cases; a result that loses a NaN or makes one does not."""
    names = ("r4 d128 c2", "r17 d65 c2", "r4 d1 c2")
    ran = 0
    for case in named_cases.named_cases(("bf16", "fp32", "bf16")):
        if case.plant is None and case.score_sigma < 2.0 or not case.name.startswith(names):
            continue
        verdict = verdict_of(case)
        assert not verdict.misses, (case.name, verdict.misses)
        ran += 1
        if "position" in case.name and "r4 d128" in case.name:
            assert verdict_of(case, lambda o: "out" in o and o["out"].nan_to_num_(nan=0.5)).misses
            assert verdict_of(case, lambda o: "grad_ape" in o and o["grad_ape"].nan_to_num_(nan=0.5)).misses
    assert ran >= 25, ran
    for kind in ("bf16", "fp16", "fp32"):
        case = next(c for c in named_cases.named_cases((kind,) * 3) if "r4 d128" in c.name and "largest" in c.name)
        assert not verdict_of(case).misses
        assert verdict_of(case, lambda o: "out" in o and o["out"].mul_(1e38)).misses


class QuietTally:
    def __init__(self):
        self.failed = 0

    def check(self, good, text, detail=""):
        self.failed += not good


def _invariance_failures(fault):
    tally = QuietTally()
    specs = (Spec(4, 16, 2), Spec(3, 5, 1, "fp32"), Spec(2, 8, 2, ape=False))
    invariance.run(FakeService(fault), DEVICE, tally, specs, 20)
    return tally.failed


def check_invariance_passes_and_finds_faults():
    def spoil_other_alignment(outputs):
        out = outputs.get("out")
        if out is not None and out.numel() and out.storage_offset() % 2:
            out.view(torch.int16 if out.element_size() == 2 else torch.int32)[-1, -1] ^= 1

    def depend_on_capacity(outputs):
        ape = outputs.get("grad_ape")
        if ape is not None and outputs["grad_kv"].size(0) % 2:
            ape[0, 0] += 1e-3

    assert _invariance_failures(None) == 0
    assert _invariance_failures(spoil_other_alignment) > 0
    assert _invariance_failures(depend_on_capacity) > 0


def check_large_calls_are_judged():
    """Per group of segments: nothing is missed at a group's edge."""
    lens = [9, 30, 0, 17, 3, 41]

    def judged(spoil=None):
        call = Call(FakeService(), Spec(4, 16, 2), lens, num_tokens=sum(lens) + 7, device=DEVICE)
        call.direct()
        if spoil:
            spoil(call)
        misses = []
        _, ape = large.judge_groups(call, lens, misses, 35)
        assert float((call.grad_ape - ape).abs().max()) < 1e-5
        return misses

    assert large.groups_of(lens, 35) == [(0, 2), (2, 4)]
    assert not judged()
    assert judged(lambda call: call.grad_kv[sum(lens) + 3, 5].fill_(1e-30))
    assert judged(lambda call: call.grad_kv[sum(lens[:2]), 20].mul_(1.5))
    assert judged(lambda call: call.grad_score[sum(lens) - 1, 0].fill_(float("nan")))
    assert judged(lambda call: call.out[-1, 3].add_(1.0))
