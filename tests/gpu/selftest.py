"""Tests of the test code, on the CPU: the references against plain loops, and every check against a planted fault.

Usage: selftest.py; needs PyTorch (skipped, and said, without it), neither a GPU nor csajit.
"""

import math
import sys
import time
import traceback

try:
    import torch
except ImportError:
    print("skip selftest: PyTorch is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import compare as contract
import selftest_cases
from case import Case, run_case
from csajit_ctypes import Spec
from data import make_data
from fake_service import FakeService
from selftest_cases import window_slots
from reference import Pack, consumed_slots, reference

DEVICE = "cpu"


def by_loops(spec, pack, kv, score, ape, grad_out):
    """The four outputs in Python floats, one element at a time."""
    shape = (pack.num_tokens, spec.columns)
    out = torch.zeros((pack.num_rows, spec.head_dim), dtype=torch.float64)
    grad_kv, grad_score = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    grad_ape = torch.zeros((spec.ratio, spec.columns), dtype=torch.float64)
    begin, end = pack.true_rows
    for row in range(pack.num_rows):
        slots = [slot for slot in window_slots(spec, pack, row) if slot is not None]
        for j in range(spec.head_dim):
            values = [float(kv[t, c + j]) for t, c, _ in slots]
            logits = [float(score[t, c + j]) + (float(ape[k, c + j]) if ape is not None else 0.0) for t, c, k in slots]
            top = max(logits)
            exps = [math.exp(x - top) for x in logits]
            weights = [e / sum(exps) for e in exps]
            out[row, j] = sum(v * p for v, p in zip(values, weights))
            if not begin <= row < end:
                continue
            g = float(grad_out[row, j])
            total = sum(g * v * p for v, p in zip(values, weights))
            for (t, c, k), v, p in zip(slots, values, weights):
                grad_kv[t, c + j] += g * p
                grad_score[t, c + j] += p * (g * v - total)
                grad_ape[k, c + j] += p * (g * v - total)
    return out, grad_kv, grad_score, grad_ape


def check_oracle_against_loops():
    packs = (
        ([7, 0, 2, 12], {}),
        ([5, 9], {"extra_rows": 2, "padding": 3}),
        ([9, 8], {"extra_rows": -1}),
        ([8, 5], {"cu_start": 2, "comp_start": 2}),
        ([8, 5, 1], {"batched_tokens": 9, "extra_rows": 1}),
        ([1, 2], {"padding": 4, "extra_rows": 1}),
    )
    for ratio, coff, ape in ((3, 1, True), (3, 2, True), (1, 2, True), (4, 2, False)):
        for lens, more in packs:
            case = Case("loops", Spec(ratio, 5, coff, "fp32", ape=ape), Pack(lens, ratio, **more))
            data = make_data(case, DEVICE)
            kv, score = torch.nan_to_num(data.kv), torch.nan_to_num(data.score)
            inputs = (case.spec, case.pack, kv, score, data.ape, data.grad_out)
            result = reference("oracle", *inputs)
            eager = reference("eager", *inputs)
            for name, loop in zip(("out", "grad_kv", "grad_score", "grad_ape"), by_loops(*inputs)):
                if name == "grad_ape" and not ape:
                    continue
                assert torch.allclose(getattr(result, name), loop, rtol=0, atol=1e-13), (name, lens, more)
                assert torch.allclose(getattr(eager, name).double(), loop, rtol=0, atol=2e-6), (name, lens, more)
            touched = by_loops(*inputs[:5], torch.ones_like(data.grad_out))[1] != 0
            assert torch.equal(touched, consumed_slots(case.spec, case.pack, DEVICE)), (lens, more)


def check_pieces_agree():
    """Cutting into pieces of rows and columns changes no value but grad_ape's last bits."""
    import reference as module

    case = Case("pieces", Spec(4, 300, 2, "bf16"), Pack([200, 331], 4, extra_rows=1))
    data = make_data(case, DEVICE)
    inputs = (case.spec, case.pack, data.kv, data.score, data.ape, data.grad_out)
    whole = {kind: reference(kind, *inputs) for kind in ("eager", "oracle")}
    before = module.MAX_PIECE_ELEMENTS
    try:
        for size in (132 * 8 * 128, 40 * 8 * 128):
            module.MAX_PIECE_ELEMENTS = size
            for kind, expected in whole.items():
                pieces = reference(kind, *inputs)
                for name in ("out", "grad_kv", "grad_score"):
                    got, want = getattr(pieces, name).double(), getattr(expected, name).double()
                    assert torch.allclose(got, want, rtol=0, atol=4e-3, equal_nan=True), (kind, name)
                assert torch.allclose(pieces.grad_ape.double(), expected.grad_ape.double(), atol=1e-4)
    finally:
        module.MAX_PIECE_ELEMENTS = before


def verdict_of(case, fault=None):
    return run_case(FakeService(fault), case, DEVICE)


def check_faultless_cases_pass():
    variants = (
        {},
        {"layout": "fused", "second_layout": "contiguous"},
        {"layout": "strided", "row_gap": 3, "second_layout": "fused", "shift": 2},
        {"wanted": ("grad_kv",)},
        {"wanted": ("grad_ape",), "accumulate": True},
        {"non_finite": True},
        {"scaled": True},
    )
    for spec in (Spec(4, 96, 2), Spec(32, 65, 2, "fp32"), Spec(3, 1, 1, "fp16"), Spec(4, 8, 2, "bf16", "fp32", "fp32")):
        packs = (
            Pack([67, 0, 2, 36], spec.ratio, padding=5, extra_rows=3),
            Pack([20, 40, 3], spec.ratio, batched_tokens=45, extra_rows=-1),
            Pack([1], spec.ratio),
            Pack([], spec.ratio, padding=4),
        )
        for pack in packs:
            for more in variants:
                more = dict(more)
                if more.get("scaled") and spec.kv == "fp16":
                    continue
                if pack.batched_tokens and more.get("layout") == "fused":
                    more["layout"] = "sbhd"
                case = Case("faultless", spec, pack, **more)
                verdict = verdict_of(case)
                assert not verdict.misses, (str(spec), pack, more, verdict.misses)



def first_consumed(tensor):
    """An element of the own half of the first token of the first segment (packed, cu_start 0)."""
    return (0, tensor.size(-1) - 1)


def check_faults_are_seen():
    case = Case("faulty", Spec(4, 128, 2), Pack([206, 103], 4, padding=3, extra_rows=2))
    columns = case.spec.columns

    def beside(tensor, elements):
        # One element before the view: a guard.
        tensor.as_strided((1,), (1,), tensor.storage_offset() - elements).zero_()

    def nudge(tensor, index, step):
        flat = contract.bits(tensor[index].reshape(1)) + step
        tensor[index] = flat.view(tensor.dtype)[0]

    faults = {
        "one gradient bit": lambda o: "grad_kv" in o and nudge(o["grad_kv"], first_consumed(o["grad_kv"]), 1),
        "score gradient bit": lambda o: "grad_kv" in o and nudge(o["grad_score"], first_consumed(o["grad_kv"]), 1),
        "padding not written": lambda o: "grad_kv" in o and o["grad_kv"][-1].fill_(float("nan")),
        "padding -0": lambda o: "grad_score" in o and o["grad_score"][-1].fill_(-0.0),
        "tail token": lambda o: "grad_kv" in o and o["grad_kv"][205, columns - 1].fill_(1e-30),
        "NaN in out": lambda o: "out" in o and o["out"][3, 5].fill_(float("nan")),
        "out wrong": lambda o: "out" in o and o["out"][3, 5].add_(0.125),
        "out slightly wrong everywhere": lambda o: "out" in o and o["out"].mul_(1.01),
        "capacity row": lambda o: "out" in o and o["out"][-1, 7].fill_(0.0),
        "grad_ape wrong": lambda o: "grad_ape" in o and o["grad_ape"][1, 1].add_(5e-4),
        "guard before out": lambda o: "out" in o and beside(o["out"], 1),
        "guard before grad_kv": lambda o: "grad_kv" in o and beside(o["grad_kv"], 1),
        "workspace overrun": lambda o: "workspace" in o and o["workspace"].as_strided((1,), (1,), 64).zero_(),
        "second run differs": lambda o: "out" in o and o["call"] == 2 and nudge(o["out"], (9, 9), 1),
        "grad_ape of second run": lambda o: "grad_ape" in o and o["call"] == 2 and nudge(o["grad_ape"], (0, 0), 1),
    }
    for name, fault in faults.items():
        assert verdict_of(case, fault).misses, f"not seen: {name}"

    unwanted = Case("unwanted", case.spec, case.pack, wanted=("grad_kv",))

    class Eager(FakeService):
        def backward(self, *arguments, **more):
            super().backward(*arguments, **more)
            grad_kv = arguments[7]
            grad_kv.as_strided((4,), (1,), grad_kv.storage_offset() - 4).zero_()

    assert run_case(Eager(), unwanted, DEVICE).misses

    for spec in (Spec(4, 128, 2), Spec(128, 128, 1)):
        planted = Case("mask", spec, Pack([515, 1030], spec.ratio), non_finite=True)
        assert verdict_of(planted, lambda o: "out" in o and o["out"].nan_to_num_()).misses
        assert verdict_of(planted, lambda o: "grad_kv" in o and o["grad_kv"].nan_to_num_()).misses

    long = Case("long", Spec(128, 128, 1), Pack([4096], 128))
    assert verdict_of(long, lambda o: "grad_kv" in o and o["grad_kv"].mul_(1.004)).misses


def check_shares_are_counted():
    """Long windows: a thousandth of the elements may differ, two thousandths may not; one of a few may."""
    for count, differing, fine in ((10**6, 1000, True), (10**6, 2000, False), (1000, 1, True), (1000, 20, False)):
        eager = torch.ones(count, dtype=torch.bfloat16)
        ours, misses = eager.clone(), []
        ours[:differing] = 1.0 - 2.0**-8
        oracle = torch.full((count,), 1.0 - 2.0**-9, dtype=torch.float64)
        rules = contract.Rules(False, False, count)
        contract.judge_rounded("out", ours, eager, oracle, oracle, rules, [], misses)
        assert bool(misses) != fine, (count, differing, misses)


def check_ulp():
    values = torch.tensor([1.0, 1.99, 2.0, 0.0, 2.0**-126, 2.0**-130], dtype=torch.float64)
    expected = [2.0**-7, 2.0**-7, 2.0**-6, 2.0**-133, 2.0**-133, 2.0**-133]
    assert contract._ulp(values, torch.bfloat16).tolist() == expected
    tiny = torch.tensor([2.0**-20], dtype=torch.float64)
    assert contract._ulp(tiny, torch.float16).tolist() == [2.0**-24]


def check_upstream_bound_is_within_reach():
    """Upstream-eager and fp32-eager themselves are within the looser bound on a real shape."""
    case = Case("upstream", Spec(4, 128, 2), Pack([2048] * 2, 4))
    data = make_data(case, DEVICE)
    inputs = (case.spec, case.pack, data.kv, data.score, data.ape, data.grad_out)
    upstream, eager = reference("upstream", *inputs), reference("eager", *inputs)
    for name in ("out", "grad_kv", "grad_score", "grad_ape"):
        misses = []
        contract.judge_upstream(name, getattr(eager, name), getattr(upstream, name), misses)
        assert not misses, misses


def check_bound_counts_rounded_exponents():
    """An exact fp32 evaluation of a wide window keeps the weighted bound, though not always the plain one."""
    case = Case("spread", Spec(8, 64, 2, "fp32"), Pack([1023, 2048], 8), score_sigma=40.0)
    data = make_data(case, DEVICE)
    inputs = (case.spec, case.pack, data.kv, data.score, data.ape, data.grad_out)
    eager, oracle = reference("eager", *inputs), reference("oracle", *inputs)
    for name in ("out", "grad_kv", "grad_score"):
        terms = getattr(oracle, name + "_terms")
        assert contract.bound_misses(getattr(eager, name), getattr(oracle, name), terms, 20) == 0, name
        wrong = getattr(eager, name) * (1.0 + 2.0**-12)
        assert contract.bound_misses(wrong, getattr(oracle, name), terms, 20) > 0, name
    plain = oracle.grad_kv.abs()
    assert contract.bound_misses(eager.grad_kv, oracle.grad_kv, plain, 20) > 0


def main():
    modules = (globals(), vars(selftest_cases))
    checks = [value for module in modules for name, value in module.items() if name.startswith("check_")]
    failed = 0
    for check in checks:
        start = time.monotonic()
        try:
            check()
            print(f"ok   {check.__name__} ({time.monotonic() - start:.1f} s)")
        except AssertionError:
            failed += 1
            print(f"FAIL {check.__name__}")
            traceback.print_exc(file=sys.stdout)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sys.exit(main())
