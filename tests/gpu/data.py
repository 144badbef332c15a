"""The random data of a case, and what a case plants into it: scales, spreads and non-finite values. Runs nothing."""

from dataclasses import dataclass

import torch

from reference import TORCH_DTYPES, consumed_slots


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


def _plant_anywhere(tensor, window, generator):
    """NaN, +inf and -inf, each in about one of two windows, at every position in time."""
    draw = torch.rand(tensor.shape, device=tensor.device, generator=generator)
    step = 1.0 / (6.0 * window)
    for index, value in enumerate((float("nan"), float("inf"), float("-inf"))):
        tensor[(draw >= index * step) & (draw < (index + 1) * step)] = value


def make_data(case, device, scale=1.0):
    """kv and grad_out ~ N(0,1), score ~ N(0,1.5^2), ape ~ N(0,0.25^2), as the contract's figures assume.

    Slots that no row consumes, and grad_out of capacity rows, hold NaN.
    """
    spec, pack = case.spec, case.pack
    generator = torch.Generator(device=device)
    generator.manual_seed(case.seed)

    def normal(shape, sigma):
        return torch.randn(shape, device=device, generator=generator) * sigma

    shape = (pack.num_tokens, spec.columns)
    kv, score = normal(shape, 1.0), normal(shape, case.score_sigma)
    if case.non_finite:
        _plant_anywhere(kv, spec.window, generator)
        _plant_anywhere(score, spec.window, generator)
    kv = kv.to(TORCH_DTYPES[spec.kv]) * scale
    score = score.to(TORCH_DTYPES[spec.score])
    grad_out = normal((pack.num_rows, spec.head_dim), 1.0).to(TORCH_DTYPES[spec.out]) * scale
    data = Data(
        kv=kv,
        score=score,
        ape=normal((spec.ratio, spec.columns), 0.25) if spec.ape else None,
        grad_out=grad_out,
        cu=torch.tensor(pack.cu, dtype=torch.int32, device=device),
        comp=torch.tensor(pack.comp, dtype=torch.int32, device=device),
        ape_before=normal((spec.ratio, spec.columns), 1.0) if spec.ape and case.accumulate else None,
    )
    if case.plant is not None:
        case.plant(case, data, generator)
    unused = ~consumed_slots(spec, pack, device)
    kv[unused] = float("nan")
    score[unused] = float("nan")
    begin, end = pack.true_rows
    grad_out[:begin] = float("nan")
    grad_out[end:] = float("nan")
    return data
