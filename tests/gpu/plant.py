"""Plans of what to put at which position of which window: every position, every kind of value, every column.

A slot of kv or score belongs to one window at most, so a window is changed without touching its neighbours. Each plan
lands in windows of every lane of a vector; where it asks for a missing entry (the first half of a segment's first
row) that part of it is left out.
"""

import torch

from reference import window_tokens

NAN, INF = float("nan"), float("inf")
VALUES = (NAN, INF, -INF)
LANES = 8  # columns that no vector is wider than


def positions(window):
    """Every position of a window of at most 16 entries; of a longer one the ends and both sides of each boundary of
    leaves and halves."""
    if window <= 16:
        return list(range(window))
    edges = {0, window // 2, window // 2 - 1, window - 1, window - 2}
    for leaf in (8, 16):
        for boundary in range(0, window, leaf):
            edges.update((boundary, boundary - 1))
    return sorted(k for k in edges if 0 <= k < window)


def single_plans(window):
    """One value at one position of kv or of score; the last plan changes nothing."""
    plans = [[(name, k, value)] for k in positions(window) for value in VALUES for name in ("kv", "score")]
    return plans + [[]]


def joint_plans(window):
    """Values that meet: whole columns, pairs, and a NaN or an infinity where the weight is 0."""
    last, middle = window - 1, window // 2
    every = range(window)
    plans = [[(name, k, value) for k in every] for name in ("kv", "score") for value in VALUES]
    plans += [[("score", k, -INF) for k in every if k != kept] for kept in {0, middle, last}]
    plans += [[("score", k, -INF) for k in every if (k < middle) == first] for first in (True, False)]
    for k, other in ((0, last), (last, 0), (middle, 0), (0, middle)):
        for first in VALUES:
            plans += [[("score", k, first), ("score", other, value)] for value in VALUES]
            plans += [[("kv", k, first), ("score", other, value)] for value in VALUES]
            plans += [[("kv", k, first), ("kv", other, value)] for value in VALUES]
    plans += [[("score", k, -INF), ("kv", k, value)] for k in {0, middle, last} for value in VALUES]
    plans += [[("grad_out", 0, value)] for value in VALUES]
    plans += [[("grad_out", 0, INF), ("score", 0, -INF)], [("grad_out", 0, INF), ("kv", last, 0.0)]]
    return plans + [[]]


def largest_plans(window):
    """kv as large as its type holds, one sign or both, at one position or all; "max" stands for the largest float."""
    last, middle, every = window - 1, window // 2, range(window)
    plans = [[("kv", k, sign)] for k in sorted({0, 1 % window, middle, last}) for sign in ("max", "-max")]
    plans += [[("kv", k, sign) for k in every] for sign in ("max", "-max")]
    plans.append([("kv", k, "max" if k % 2 else "-max") for k in every])
    plans.append([("kv", k, "max" if k < middle else "-max") for k in every])
    plans.append([("kv", k, "max") for k in every] + [("score", k, 0.0) for k in every])
    return plans + [[]]


def _largest(dtype):
    # fp32 products with a weight that is rounded up must not pass the largest float by themselves.
    return 3e38 if dtype == torch.float32 else torch.finfo(dtype).max


class Planter:
    """Puts plans into windows. sparse: one planted window a column, so that grad_ape keeps finite columns and sums;
    then column j takes plan first + j.

    grad_limit: grad_out is cut to [-limit, limit] first, so that no order of summation overflows.
    """

    def __init__(self, plans, sparse=False, grad_limit=None, first=0):
        self.plans, self.sparse, self.grad_limit, self.first = plans, sparse, grad_limit, first

    def assign(self, rows, columns, device):
        """(rows, columns) number of the plan of each window, -1: none."""
        count = len(self.plans)
        if self.sparse:
            chosen = torch.full((rows, columns), -1, dtype=torch.int64, device=device)
            column = torch.arange(columns, device=device)
            # In every fourth column it is the first segment's first row; the others go through all rows.
            row = torch.where(column % 4 == 0, 0, (column * 7 + 3) % rows)
            chosen[row, column] = (column + self.first) % count
            return chosen
        # Rows count up the plans, columns shift them.
        row, column = torch.arange(rows, device=device)[:, None], torch.arange(columns, device=device)[None]
        chosen = (row + column // LANES * 17 + column % LANES * (count // LANES + 1)) % count
        return chosen.expand(rows, columns).contiguous()

    def __call__(self, case, data, generator):
        spec, pack = case.spec, case.pack
        device = data.kv.device
        if self.grad_limit is not None:
            data.grad_out.clamp_(-self.grad_limit, self.grad_limit)
        starts, firsts = pack.row_starts(device)
        tokens = window_tokens(spec, starts)
        begin, _ = pack.true_rows
        chosen = self.assign(starts.numel(), spec.head_dim, device)
        for number in chosen.unique().tolist():
            plan = self.plans[number] if number >= 0 else []
            if not plan:
                continue
            rows, columns = (chosen == number).nonzero(as_tuple=True)
            for name, k, value in plan:
                target = getattr(data, name)
                if isinstance(value, str):
                    value = _largest(target.dtype) * (-1.0 if value[0] == "-" else 1.0)
                if name == "grad_out":
                    target[begin + rows, columns] = value
                    continue
                there = ~firsts[rows] if spec.coff == 2 and k < spec.ratio else torch.ones_like(firsts[rows])
                shift = spec.head_dim if spec.coff == 2 and k >= spec.ratio else 0
                target[tokens[rows[there], k], columns[there] + shift] = value


def plant_ape(case, data, generator):
    """NaN, +inf and -inf at every row of APE, each in columns of its own, beside columns without any."""
    spec = case.spec
    flat = torch.arange(spec.columns, device=data.ape.device)
    for index, value in enumerate(VALUES):
        columns = flat[flat % 5 == index]
        data.ape[(columns * 3 + index) % spec.ratio, columns] = value


def plant_missing_ape(case, data, generator):
    """A non-finite APE that only entries before a segment would use: every segment must have one row at most."""
    assert case.spec.coff == 2 and all(length < 2 * case.spec.ratio for length in case.pack.lens)
    d = case.spec.head_dim
    half = data.ape[:, :d]
    kinds = torch.arange(half.numel(), device=half.device).view(half.shape) % 3
    for index, value in enumerate(VALUES):
        half[kinds == index] = value
