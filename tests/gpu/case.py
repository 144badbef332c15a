"""One parity case: data, memory layout, two runs of csajit and the judgement. Knows no list of cases.

Every output lies between guard elements in memory filled with NaN bits; grad_out of capacity rows and every input
slot that no row consumes hold NaN. The second run uses another layout, alignment and workspace content and must
give the same bits.
"""

from dataclasses import dataclass, field

from typing import Callable

import torch

import compare as contract
from csajit_ctypes import Spec
from data import make_data
from memory import Slab, make_matrix, make_views, untouched
from reference import TORCH_DTYPES, Pack, consumed_slots, reference

# Upstream's own rounding noise in grad_ape grows with the square root of the rows and passes 0.1 above this.
MAX_ROWS_FOR_UPSTREAM_APE = 8192
GRADIENTS = ("grad_kv", "grad_score", "grad_ape")


@dataclass
class Case:
    """What to run. layout: contiguous, strided (rows padded), fused (kv and score halves of one buffer) or sbhd."""

    name: str
    spec: Spec
    pack: Pack
    layout: str = "contiguous"
    second_layout: str = "strided"
    shift: int = 0  # elements between an aligned address and the first element
    row_gap: int = 8  # elements between rows of strided layouts
    wanted: tuple = GRADIENTS
    accumulate: bool = False
    non_finite: bool = False
    scaled: bool = False  # also run with kv and grad_out times 2^6
    score_sigma: float = 1.5
    plant: Callable = None  # (case, data, generator): changes the data after they are drawn
    huge: bool = False  # inputs near the largest floats: limits in absolute figures do not apply
    other_shifts: tuple = ()  # further runs, contiguous, that must give the same bits
    seed: int = 1

    def rules(self, bit_equal):
        spec, pack = self.spec, self.pack
        begin, end = pack.true_rows
        windows = (end - begin) * spec.head_dim
        # Values of one size cancel in grad_score, as a window with one weight of 1 does: what is left is rounding.
        share = not self.huge and self.score_sigma < 2.0
        return contract.Rules(spec.is_short, bit_equal, windows, absolute=not self.huge, share=share)


@dataclass
class Verdict:
    misses: list = field(default_factory=list)
    figures: list = field(default_factory=list)


def synchronize(device):
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def execute(service, case, data, device, layout, shift, workspace_byte, misses):
    """Forward and backward in one layout. Returns the dense outputs by name; untouched memory is checked here.

    workspace_byte fills the workspace before the call; None leaves it uninitialised, for a memory checker.
    """
    spec, pack = case.spec, case.pack
    dtypes = [TORCH_DTYPES[spec.kv], TORCH_DTYPES[spec.score]]
    gap = case.row_gap if layout == "strided" else 0
    _, (kv, score) = make_views(layout, pack, spec.columns, dtypes, device, shift, case.row_gap)
    kv.copy_(data.kv.view(kv.shape))
    score.copy_(data.score.view(score.shape))
    grad_slabs, (grad_kv, grad_score) = make_views(layout, pack, spec.columns, dtypes, device, shift, case.row_gap)
    out_dtype = TORCH_DTYPES[spec.out]
    out_slab, out = make_matrix(pack.num_rows, spec.head_dim, out_dtype, device, shift, gap)
    _, grad_out = make_matrix(pack.num_rows, spec.head_dim, out_dtype, device, shift, gap)
    grad_out.copy_(data.grad_out)
    slabs = [out_slab, *grad_slabs]
    ape = grad_ape = None
    wanted = {name: name in case.wanted for name in GRADIENTS}
    if spec.ape:
        _, ape = make_matrix(spec.ratio, spec.columns, torch.float32, device, shift, gap)
        ape.copy_(data.ape)
        if wanted["grad_ape"]:
            ape_slab, grad_ape = make_matrix(spec.ratio, spec.columns, torch.float32, device, shift, gap)
            slabs.append(ape_slab)
            if case.accumulate:
                grad_ape.copy_(data.ape_before)
    workspace = None
    workspace_bytes = service.workspace_size(spec, pack.num_rows) if grad_ape is not None else 0
    if workspace_bytes and workspace_byte is None:
        workspace_slab = None
        workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device=device)
    elif workspace_bytes:
        # As a slab of its own, so that writes past its end are seen.
        workspace_slab = Slab(workspace_bytes + 4096, torch.uint8, device)
        workspace = workspace_slab.view((workspace_bytes,), (1,), 0)
        workspace.fill_(workspace_byte)
    service.forward(spec, kv, score, ape, data.cu, data.comp, out)
    service.backward(
        spec,
        kv,
        score,
        ape,
        data.cu,
        data.comp,
        grad_out,
        grad_kv if wanted["grad_kv"] else None,
        grad_score if wanted["grad_score"] else None,
        grad_ape,
        workspace,
        accumulate_grad_ape=case.accumulate and grad_ape is not None,
    )
    synchronize(device)
    for slab in slabs:
        if not slab.gaps_untouched():
            misses.append(f"{layout}: memory beside an output was written ({slab.flat.dtype})")
    if workspace is not None and workspace_slab and not bool(untouched(workspace_slab.flat[workspace_bytes:]).all()):
        misses.append(f"{layout}: memory after the workspace was written")
    for name, view in (("grad_kv", grad_kv), ("grad_score", grad_score)):
        if not wanted[name] and not bool(untouched(view).all()):
            misses.append(f"{layout}: {name} was written though it was not passed")
    shape = (pack.num_tokens, spec.columns)
    return {
        "out": out.contiguous(),
        "grad_kv": grad_kv.reshape(shape).contiguous() if wanted["grad_kv"] else None,
        "grad_score": grad_score.reshape(shape).contiguous() if wanted["grad_score"] else None,
        "grad_ape": grad_ape.contiguous() if grad_ape is not None else None,
    }


def _check_same_bits(first, second, what, misses):
    for name, tensor in first.items():
        if tensor is None or torch.equal(contract.bits(tensor), contract.bits(second[name])):
            continue
        count = int((contract.bits(tensor) != contract.bits(second[name])).sum())
        misses.append(f"{name}: {count} elements have other bits {what}")


def _check_zero_slots(case, outputs, device, misses):
    unused = ~consumed_slots(case.spec, case.pack, device)
    for name in ("grad_kv", "grad_score"):
        if outputs[name] is not None:
            count = int(((contract.bits(outputs[name]) != 0) & unused).sum())
            if count:
                misses.append(f"{name}: {count} slots that no row consumes are not +0")


def _judge_out(case, out, eager, oracle, verdict):
    begin, end = case.pack.true_rows
    parts = [("out", slice(begin, end))]
    capacity = torch.cat([out[:begin], out[end:]])
    if capacity.size(0):
        index = 0 if begin > 0 else end
        parts.append((f"out[{capacity.size(0)} capacity]", slice(index, index + 1)))
        if not torch.equal(contract.bits(capacity), contract.bits(capacity[:1]).expand(capacity.shape)):
            verdict.misses.append("out: capacity rows differ from each other")
    for name, rows in parts:
        rules = case.rules(False)
        rules.windows = out[rows].numel()
        tensors = (out[rows], eager.out[rows], oracle.out[rows], oracle.out_terms[rows])
        contract.judge_rounded(name, *tensors, rules, verdict.figures, verdict.misses)


def _judge_upstream(case, data, outputs, verdict):
    """The looser reference: the region as frameworks run it, weights and products rounded to kv's type."""
    pack = case.pack
    upstream = reference("upstream", case.spec, pack, data.kv, data.score, data.ape, data.grad_out)
    begin, end = pack.true_rows
    worst = contract.judge_upstream("out", outputs["out"][begin:end], upstream.out[begin:end], verdict.misses)
    for name in GRADIENTS:
        if name == "grad_ape" and (case.accumulate or pack.num_rows > MAX_ROWS_FOR_UPSTREAM_APE):
            continue
        if outputs[name] is not None:
            gap = contract.judge_upstream(name, outputs[name], getattr(upstream, name), verdict.misses)
            worst = max(worst, gap)
    verdict.figures.append(f"upstream max {worst:.2g}")


def _check_scaling(service, case, outputs, eager, device, misses):
    """kv and grad_out times 2^6: every output grows by an exact power of two, and so differs from eager as often."""
    scaled = make_data(case, device, scale=64.0)
    again = execute(service, case, scaled, device, case.layout, case.shift, 0xFF, misses)
    eager_again = reference("eager", case.spec, case.pack, scaled.kv, scaled.score, scaled.ape, scaled.grad_out)
    for name, factor in (("out", 64.0), ("grad_kv", 64.0), ("grad_score", 4096.0), ("grad_ape", 4096.0)):
        if outputs[name] is None:
            continue
        gap = contract.compare(outputs[name] * factor, again[name])
        if gap.differing:
            misses.append(f"{name}: {gap.differing} elements do not scale by {factor:g}")
        if name == "grad_ape":
            continue
        before = contract.compare(outputs[name], getattr(eager, name)).differing
        after = contract.compare(again[name], getattr(eager_again, name)).differing
        if before != after:
            misses.append(f"{name}: {before} elements differ from fp32-eager, scaled {after}")


def _judge(case, data, outputs, eager, oracle, verdict):
    spec = case.spec
    _judge_out(case, outputs["out"], eager, oracle, verdict)
    for name in ("grad_kv", "grad_score"):
        if outputs[name] is not None:
            tensors = (getattr(eager, name), getattr(oracle, name), getattr(oracle, name + "_terms"))
            rules = case.rules(spec.is_short)
            contract.judge_rounded(name, outputs[name], *tensors, rules, verdict.figures, verdict.misses)
    if outputs["grad_ape"] is not None:
        if case.accumulate:
            eager.grad_ape += data.ape_before
            oracle.grad_ape += data.ape_before.double()
            oracle.grad_ape_terms += data.ape_before.double().abs()
        tensors = (eager.grad_ape, oracle.grad_ape, oracle.grad_ape_terms)
        contract.judge_grad_ape(
            outputs["grad_ape"], *tensors, case.rules(False), verdict.figures, verdict.misses
        )


def run_case(service, case, device):
    """Runs and judges one case. CsajitError passes through: the caller knows which refusals it expects."""
    verdict = Verdict()
    spec, pack = case.spec, case.pack
    data = make_data(case, device)
    outputs = execute(service, case, data, device, case.layout, case.shift, 0xFF, verdict.misses)
    again = execute(service, case, data, device, case.second_layout, 1 - min(case.shift, 1), 0x00, verdict.misses)
    _check_same_bits(outputs, again, f"in layout {case.second_layout}", verdict.misses)
    for shift in case.other_shifts:
        again = execute(service, case, data, device, "contiguous", shift, 0x55, verdict.misses)
        _check_same_bits(outputs, again, f"{shift} elements further", verdict.misses)
    del again
    _check_zero_slots(case, outputs, device, verdict.misses)

    eager = reference("eager", spec, pack, data.kv, data.score, data.ape, data.grad_out)
    if case.scaled:
        _check_scaling(service, case, outputs, eager, device, verdict.misses)
    oracle = reference("oracle", spec, pack, data.kv, data.score, data.ape, data.grad_out)
    _judge(case, data, outputs, eager, oracle, verdict)
    if spec.kv != "fp32" and not case.non_finite and case.plant is None and case.score_sigma < 2.0:
        _judge_upstream(case, data, outputs, verdict)
    return verdict
