"""The named cases of the parity suite: those that the contract lists, for one set of dtypes. Runs nothing."""

import plant
from case import GRADIENTS, Case
from csajit_ctypes import Spec
from reference import Pack

SHORT_PACKS = ([2048], [1023, 2048, 509], [3, 515, 1024, 129], [64, 0, 253, 3])
LONG_PACKS = ([5, 6, 7], [127, 8192, 0, 129, 128, 3, 515, 1024], *SHORT_PACKS)
# (ratio, head_dim, coff): short windows of every depth, long ones with leaves of 8 and of 16 entries, odd sizes.
PLANTED = (
    (1, 128, 1),
    (2, 128, 2),
    (3, 192, 1),
    (4, 128, 2),
    (4, 65, 2),
    (8, 128, 2),
    (16, 64, 1),
    (4, 1, 2),
    (17, 65, 2),
    (32, 64, 1),
    (128, 128, 1),
    (128, 64, 2),
    (256, 64, 2),
)
MAX_SPARSE_CASES = 13


def text_of(lens):
    return str(lens).replace(" ", "") if len(lens) <= 8 else f"[{len(lens)} segments, {sum(lens)} tokens]"


def planted_lens(ratio, window, head_dim):
    """Rows enough for every plan in every lane of a short window and in some lane of a long one."""
    rows = 64 if window > 16 else 160 if head_dim >= 8 else 600
    return [ratio * 8 + ratio // 2] * (rows // 8) + [ratio + 1, 3 * ratio]


def planted_cases(make):
    """Every position of a window, every kind of value, every lane; aligned, shifted and scalar."""
    for ratio, head_dim, coff in PLANTED:
        window = coff * ratio
        lens = planted_lens(ratio, window, head_dim)
        more = {"other_shifts": (2, 4), "row_gap": 3}
        spec = (ratio, head_dim, coff, lens)
        yield make(*spec, "each position", plant=plant.Planter(plant.single_plans(window)), **more)
        yield make(*spec, "values that meet", plant=plant.Planter(plant.joint_plans(window)), **more)
        singles, joints = plant.single_plans(window), plant.joint_plans(window)
        for note, plans in (("each position", singles), ("values that meet", joints)):
            # As many as it takes for each plan to have a column; of a single column only some.
            for first in range(0, min(len(plans), MAX_SPARSE_CASES * head_dim), head_dim):
                sparse = plant.Planter(plans, True, first=first)
                yield make(*spec, f"{note}, sparse, from {first}", plant=sparse, **more)
        # Sums of the largest floats overflow in some order unless grad_out keeps them small; each partial sum of a
        # short window is eager's own, so there any grad_out does.
        for note, limit in (("", 0.25), (" and gradients", None)):
            if limit is None and (window > 16 or head_dim == 1):
                continue
            wanted = GRADIENTS if limit is not None else ("grad_kv", "grad_score")
            largest = plant.Planter(plant.largest_plans(window), limit is not None, limit)
            yield make(*spec, "largest floats" + note, plant=largest, huge=True, wanted=wanted, **more)
        dense = plant.Planter(plant.largest_plans(window), False, 0.25)
        yield make(*spec, "largest floats, dense", plant=dense, huge=True, wanted=("grad_kv", "grad_score"), **more)
        yield make(*spec, "APE", plant=plant.plant_ape, **more)
        if coff == 2:
            single = [ratio, 2 * ratio - 1, ratio + ratio // 2, 0, ratio] * 3
            yield make(ratio, head_dim, 2, single, "APE before segments", plant=plant.plant_missing_ape, **more)


def spread_cases(make):
    """Scores so wide that most weights are 0 or denormal."""
    for ratio, head_dim, coff in ((4, 128, 2), (8, 64, 2), (2, 128, 1), (16, 128, 1), (128, 128, 1), (128, 64, 2)):
        for sigma in (8.0, 40.0, 60.0):
            lens = [1023, 2048, 509]
            yield make(ratio, head_dim, coff, lens, f"score std {sigma:g}", score_sigma=sigma, other_shifts=(2,))


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
    # Narrow rows, windows enough for an RMS: PyTorch sums these over many threads, in a tree.
    yield make(128, 8, 2, [66000])
    yield make(256, 16, 2, [66000])
    yield make(4, 128, 2, [1023, 2048, 509], ape=False)
    yield make(16, 128, 2, [1023, 2048, 509], "non-finite", non_finite=True)
    yield from planted_cases(make)
    yield from spread_cases(make)
