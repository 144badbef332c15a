"""One parity case: data, memory layout, two runs of csajit and the judgement. Knows no list of cases.

Every output lies between guard elements in memory filled with NaN bits; grad_out of capacity rows and every input
slot that no row consumes hold NaN. The second run uses another layout, alignment and workspace content and must
give the same bits.
"""

from dataclasses import dataclass, field

import torch

import compare as contract
from csajit_ctypes import Spec
from reference import TORCH_DTYPES, Pack, consumed_slots, reference

GUARD_ELEMENTS = 64
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
    seed: int = 1


@dataclass
class Verdict:
    misses: list = field(default_factory=list)
    figures: list = field(default_factory=list)


@dataclass
class Data:
    """Dense tensors of a case, and what a caller knows of them."""

    kv: torch.Tensor
    score: torch.Tensor
    ape: torch.Tensor
    grad_out: torch.Tensor
    cu: torch.Tensor
    comp: torch.Tensor
    ape_before: torch.Tensor  # what grad_ape holds when it is accumulated into


class Slab:
    """One allocation full of 0xFF bytes (NaN in every dtype) that remembers which elements views may write."""

    def __init__(self, elements, dtype, device):
        raw = torch.full((elements * dtype.itemsize,), 0xFF, dtype=torch.uint8, device=device)
        self.flat = raw.view(dtype)
        self.used = torch.zeros(elements, dtype=torch.bool, device=device)

    def view(self, size, strides, offset):
        self.used.as_strided(size, strides, offset).fill_(True)
        return self.flat.as_strided(size, strides, offset)

    def gaps_untouched(self):
        return bool(((contract.bits(self.flat) == -1) | self.used).all())


def make_views(layout, pack, columns, dtypes, device, shift, row_gap):
    """Slabs and one view for each dtype: (T, columns), or (B, S, columns) when the pack is batched."""
    fused = layout == "fused" and len(set(dtypes)) == 1
    parts = len(dtypes) if fused else 1
    row = columns * parts + (row_gap if layout == "strided" else 0)
    segments, tokens = len(pack.lens), pack.batched_tokens
    if not tokens:
        size, strides = (pack.num_tokens, columns), (row, 1)
    elif layout == "sbhd":
        size, strides = (segments, tokens, columns), (row, segments * row, 1)
    else:
        size, strides = (segments, tokens, columns), (tokens * row, row, 1)
    total = pack.num_tokens * row + 2 * GUARD_ELEMENTS + shift
    slabs, views = [], []
    for index, dtype in enumerate(dtypes):
        if index == 0 or not fused:
            slabs.append(Slab(total, dtype, device))
        offset = GUARD_ELEMENTS + shift + (index * columns if fused else 0)
        views.append(slabs[-1].view(size, strides, offset))
    return slabs, views


def make_matrix(rows, columns, dtype, device, shift, gap):
    slab = Slab(rows * (columns + gap) + 2 * GUARD_ELEMENTS + shift, dtype, device)
    return slab, slab.view((rows, columns), (columns + gap, 1), GUARD_ELEMENTS + shift)


def _plant_non_finite(tensor, window, generator):
    """NaN, +inf and -inf, each in about one of two windows, at every position in time."""
    draw = torch.rand(tensor.shape, device=tensor.device, generator=generator)
    step = 1.0 / (6.0 * window)
    for index, value in enumerate((float("nan"), float("inf"), float("-inf"))):
        tensor[(draw >= index * step) & (draw < (index + 1) * step)] = value


def make_data(case, device, scale=1.0):
    """kv and grad_out ~ N(0,1), score ~ N(0,1.5^2), ape ~ N(0,0.25^2), as the contract's figures assume."""
    spec, pack = case.spec, case.pack
    generator = torch.Generator(device=device)
    generator.manual_seed(case.seed)

    def normal(shape, sigma):
        return torch.randn(shape, device=device, generator=generator) * sigma

    shape = (pack.num_tokens, spec.columns)
    kv, score = normal(shape, 1.0), normal(shape, 1.5)
    if case.non_finite:
        _plant_non_finite(kv, spec.window, generator)
        _plant_non_finite(score, spec.window, generator)
    kv = kv.to(TORCH_DTYPES[spec.kv]) * scale
    score = score.to(TORCH_DTYPES[spec.score])
    unused = ~consumed_slots(spec, pack, device)
    kv[unused] = float("nan")
    score[unused] = float("nan")
    grad_out = normal((pack.num_rows, spec.head_dim), 1.0).to(TORCH_DTYPES[spec.out]) * scale
    begin, end = pack.true_rows
    grad_out[:begin] = float("nan")
    grad_out[end:] = float("nan")
    return Data(
        kv=kv,
        score=score,
        ape=normal((spec.ratio, spec.columns), 0.25) if spec.ape else None,
        grad_out=grad_out,
        cu=torch.tensor(pack.cu, dtype=torch.int32, device=device),
        comp=torch.tensor(pack.comp, dtype=torch.int32, device=device),
        ape_before=normal((spec.ratio, spec.columns), 1.0) if spec.ape and case.accumulate else None,
    )


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
    if workspace is not None and workspace_slab and not bool((workspace_slab.flat[workspace_bytes:] == 0xFF).all()):
        misses.append(f"{layout}: memory after the workspace was written")
    for name, view in (("grad_kv", grad_kv), ("grad_score", grad_score)):
        if not wanted[name] and not bool((contract.bits(view) == -1).all()):
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


def _judge_out(case, out, eager, oracle, verdict, element_bound):
    spec = case.spec
    begin, end = case.pack.true_rows
    true = slice(begin, end)
    contract.judge_rounded(
        "out",
        out[true],
        eager.out[true],
        oracle.out[true],
        oracle.out_terms[true],
        False,
        spec.is_short,
        verdict.figures,
        verdict.misses,
        element_bound,
    )
    capacity = torch.cat([out[:begin], out[end:]])
    if capacity.size(0) == 0:
        return
    index = 0 if begin > 0 else end
    row = slice(index, index + 1)
    if not torch.equal(contract.bits(capacity), contract.bits(capacity[:1]).expand(capacity.shape)):
        verdict.misses.append("out: capacity rows differ from each other")
    contract.judge_rounded(
        f"out[{capacity.size(0)} capacity]",
        out[row],
        eager.out[row],
        oracle.out[row],
        oracle.out_terms[row],
        False,
        spec.is_short,
        verdict.figures,
        verdict.misses,
        element_bound,
    )


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


def _check_scaling(service, case, data, outputs, device, misses):
    """kv and grad_out times 2^6: every output grows by an exact power of two."""
    scaled = make_data(case, device, scale=64.0)
    again = execute(service, case, scaled, device, case.layout, case.shift, 0xFF, misses)
    for name, factor in (("out", 64.0), ("grad_kv", 64.0), ("grad_score", 4096.0), ("grad_ape", 4096.0)):
        if outputs[name] is not None:
            gap = contract.compare(outputs[name] * factor, again[name])
            if gap.differing:
                misses.append(f"{name}: {gap.differing} elements do not scale by {factor:g}")


def run_case(service, case, device):
    """Runs and judges one case. CsajitError passes through: the caller knows which refusals it expects."""
    verdict = Verdict()
    spec, pack = case.spec, case.pack
    data = make_data(case, device)
    outputs = execute(service, case, data, device, case.layout, case.shift, 0xFF, verdict.misses)
    again = execute(service, case, data, device, case.second_layout, 1 - min(case.shift, 1), 0x00, verdict.misses)
    _check_same_bits(outputs, again, f"in layout {case.second_layout}", verdict.misses)
    del again
    _check_zero_slots(case, outputs, device, verdict.misses)

    eager = reference("eager", spec, pack, data.kv, data.score, data.ape, data.grad_out)
    oracle = reference("oracle", spec, pack, data.kv, data.score, data.ape, data.grad_out)
    # Infinite inputs make sums whose absolute terms bound nothing.
    element_bound = not case.non_finite
    _judge_out(case, outputs["out"], eager, oracle, verdict, element_bound)
    for name in ("grad_kv", "grad_score"):
        if outputs[name] is not None:
            contract.judge_rounded(
                name,
                outputs[name],
                getattr(eager, name),
                getattr(oracle, name),
                getattr(oracle, name + "_terms"),
                spec.is_short,
                spec.is_short,
                verdict.figures,
                verdict.misses,
                element_bound,
            )
    if outputs["grad_ape"] is not None:
        if case.accumulate:
            eager.grad_ape += data.ape_before
            oracle.grad_ape += data.ape_before.double()
            oracle.grad_ape_terms += data.ape_before.double().abs()
        contract.judge_grad_ape(
            outputs["grad_ape"],
            eager.grad_ape,
            oracle.grad_ape,
            oracle.grad_ape_terms,
            spec.is_short,
            verdict.figures,
            verdict.misses,
            element_bound,
        )
    if spec.kv != "fp32" and not case.non_finite:
        _judge_upstream(case, data, outputs, verdict)
    if case.scaled:
        _check_scaling(service, case, data, outputs, device, verdict.misses)
    return verdict
