"""The numerics contract as checks over tensors: equality, error and bound of each output. Runs no operator.

Bit-equal means equal as values: -0 equals +0 and any NaN equals any NaN.
"""

import math
from dataclasses import dataclass

import torch

# Largest share of elements that may differ from fp32-eager where bits may differ at all; None: not counted.
DIFFERING_SHARE = {torch.bfloat16: 1e-3, torch.float16: 8e-3, torch.float32: None}
MAX_ABS_TO_EAGER = 1.6e-2
MAX_ABS_APE_TO_EAGER = 1e-3
MAX_ABS_TO_UPSTREAM = 0.1
# A share or an RMS says nothing about a handful of elements: below these counts it gets room for chance.
MIN_COUNT_FOR_SHARE = 100_000
# The elements of one window share their maximum and denominator, so it is windows that count as samples here.
MIN_WINDOWS_FOR_RMS = 4_096
FRACTION_BITS = {torch.bfloat16: 7, torch.float16: 10, torch.float32: 23}
MIN_EXPONENT = {torch.bfloat16: -126, torch.float16: -14, torch.float32: -126}


@dataclass
class Difference:
    """Two tensors side by side; max_abs over elements that are finite in both."""

    count: int
    differing: int
    class_mismatches: int  # NaN, +inf, -inf or finite in one and something else in the other
    max_abs: float

    @property
    def share(self):
        return self.differing / self.count if self.count else 0.0


def _kinds(tensor):
    kinds = torch.isnan(tensor).to(torch.int8)
    kinds += 2 * torch.isposinf(tensor)
    kinds += 4 * torch.isneginf(tensor)
    return kinds


def compare(ours, other):
    """Difference of two tensors of one shape and one dtype."""
    if ours.numel() == 0:
        return Difference(0, 0, 0, 0.0)
    same = (ours == other) | (torch.isnan(ours) & torch.isnan(other))
    mismatches = int((_kinds(ours) != _kinds(other)).sum())
    differing = int((~same).sum())
    gap = (ours.double() - other.double()).abs()
    gap = torch.where(torch.isfinite(gap), gap, 0.0)
    return Difference(ours.numel(), differing, mismatches, float(gap.max()))


def bits(tensor):
    """The tensor's bits as integers of its width, contiguous."""
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32, 1: torch.uint8}[tensor.element_size()])


def errors(tensor, oracle):
    """(max, RMS) error over elements that are finite in both."""
    if tensor.numel() == 0:
        return 0.0, 0.0
    gap = (tensor.double() - oracle).abs()
    gap = torch.where(torch.isfinite(gap), gap, 0.0)
    return float(gap.max()), float(gap.square().mean().sqrt())


def _finite_max(tensor):
    if tensor.numel() == 0:
        return 0.0
    return float(torch.where(torch.isfinite(tensor), tensor, 0.0).abs().max())


def _ulp(values, dtype):
    """fp64 tensor: distance of neighbouring numbers of dtype around each value."""
    exponent = torch.where(values == 0.0, MIN_EXPONENT[dtype], torch.frexp(values)[1] - 1)
    exponent = exponent.clamp(min=MIN_EXPONENT[dtype]) - FRACTION_BITS[dtype]
    return torch.pow(2.0, exponent.double())


def bound_misses(ours, oracle, terms, slack_exponent):
    """Elements past 0.5 ulp + 2^-slack_exponent * terms; where either is not finite there is no bound."""
    if ours.numel() == 0:
        return 0
    value = ours.double()
    finite = torch.isfinite(value) & torch.isfinite(oracle) & torch.isfinite(terms)
    ulp = torch.maximum(
        _ulp(torch.where(finite, value, 0.0), ours.dtype), _ulp(torch.where(finite, oracle, 0.0), ours.dtype)
    )
    # Four steps of the smallest denormal: products and sums round to multiples of it, however small they are.
    allowed = 0.5 * ulp + terms * 2.0**-slack_exponent + 2.0**-147
    return int(((value - oracle).abs() > allowed)[finite].sum())


def allowed_differing(count, share):
    allowed = share * count
    if count < MIN_COUNT_FOR_SHARE:
        allowed += 3.0 * math.sqrt(allowed) + 1.0
    return int(allowed)


@dataclass
class Rules:
    """How one output is judged. windows: how many independent softmax windows its elements come from."""

    is_short: bool  # the per-element bound of short windows
    bit_equal: bool  # to fp32-eager
    windows: int
    absolute: bool = True  # limits in absolute figures; without meaning where inputs are near the largest float
    share: bool = True  # how many elements may differ; the contract's figures are for its own distributions


def _judge_error(name, ours, eager, oracle, terms, rules, misses):
    """Largest and RMS error against eager's. Returns the ratio of the largest ones."""
    dtype = ours.dtype
    ours_max, ours_rms = errors(ours, oracle)
    eager_max, eager_rms = errors(eager, oracle)
    if dtype == torch.float32:
        allowed = 2.0 * eager_max + 2.0**-23 * _finite_max(oracle)
        # Where the largest floats are planted, a few elements make the whole RMS.
        few = rules.windows < MIN_WINDOWS_FOR_RMS or not rules.absolute
        if not few and ours_rms > 1.25 * eager_rms:
            misses.append(f"{name}: RMS error {ours_rms:.3g} > 1.25 x eager's {eager_rms:.3g}")
    else:
        allowed = eager_max * (1.0 + 1e-6) + 1e-4
        few = ours.numel() < MIN_COUNT_FOR_SHARE or not rules.absolute
    if few:
        # One near-tie rounded the other way may be the largest error of a few elements, and eager may be lucky.
        top = torch.tensor([_finite_max(oracle)], dtype=torch.float64)
        allowed = max(allowed, 0.5 * float(_ulp(top, dtype)) + 2.0**-18 * _finite_max(terms))
    if ours_max > allowed:
        misses.append(f"{name}: max error {ours_max:.4g} > {allowed:.4g} (eager's {eager_max:.4g})")
    return ours_max / eager_max if eager_max else (1.0 if ours_max == 0.0 else math.inf)


def judge_rounded(name, ours, eager, oracle, terms, rules, figures, misses):
    """out, grad_kv or grad_score against the table. Adds one text to figures and each miss to misses."""
    dtype = ours.dtype
    difference = compare(ours, eager)
    if difference.class_mismatches:
        misses.append(f"{name}: {difference.class_mismatches} elements NaN or infinite in one of ours and eager only")
    if rules.bit_equal:
        if difference.differing:
            misses.append(f"{name}: {difference.differing} elements differ from fp32-eager, must be bit-equal")
    else:
        share = DIFFERING_SHARE[dtype]
        if rules.share and share is not None and difference.differing > allowed_differing(difference.count, share):
            misses.append(f"{name}: {difference.share:.3%} of elements differ from fp32-eager, allowed {share:.1%}")
        if rules.absolute and difference.max_abs > MAX_ABS_TO_EAGER:
            misses.append(f"{name}: max abs to fp32-eager {difference.max_abs:.3g} > {MAX_ABS_TO_EAGER}")
    ratio = _judge_error(name, ours, eager, oracle, terms, rules, misses)
    over = bound_misses(ours, oracle, terms, 20 if rules.is_short else 18)
    if over:
        misses.append(f"{name}: {over} elements past the per-element bound")
    counts = f"{difference.differing}/{difference.count}"
    figures.append(f"{name} diff {counts} max {difference.max_abs:.2g} err x{ratio:.3f}")


def judge_grad_ape(ours, eager, oracle, terms, rules, figures, misses):
    """grad_ape against its row of the table."""
    difference = compare(ours, eager)
    ours_max, _ = errors(ours, oracle)
    eager_max, _ = errors(eager, oracle)
    allowed = 1.5 * eager_max + 2.0**-20 * _finite_max(oracle)
    if difference.class_mismatches:
        misses.append(f"grad_ape: {difference.class_mismatches} elements NaN or infinite in one only")
    if ours_max > allowed:
        misses.append(f"grad_ape: max error {ours_max:.4g} > {allowed:.4g} (eager's {eager_max:.4g})")
    if rules.absolute and difference.max_abs > MAX_ABS_APE_TO_EAGER:
        misses.append(f"grad_ape: max abs to fp32-eager {difference.max_abs:.3g} > {MAX_ABS_APE_TO_EAGER}")
    over = bound_misses(ours, oracle, terms, 20 if rules.is_short else 18)
    if over:
        misses.append(f"grad_ape: {over} elements past the per-element bound")
    ratio = ours_max / eager_max if eager_max else (1.0 if ours_max == 0.0 else math.inf)
    figures.append(f"grad_ape max {difference.max_abs:.2g} err x{ratio:.3f}")


def judge_upstream(name, ours, upstream, misses):
    difference = compare(ours, upstream.to(ours.dtype))
    if difference.max_abs > MAX_ABS_TO_UPSTREAM:
        misses.append(f"{name}: max abs to upstream-eager {difference.max_abs:.3g} > {MAX_ABS_TO_UPSTREAM}")
    return difference.max_abs
