"""The operator in plain PyTorch: fp32-eager, upstream-eager and an fp64 oracle. Trusts its offsets; no csajit here.

fp32-eager is the region as a model would write it, with fp32 intermediates and one final rounding, gradients by
autograd. The oracle is the same in fp64, with the sum of the absolute terms of each element beside it. Everything
runs on the device of its inputs, cut into pieces of columns or rows so that memory stays bounded.
"""

from dataclasses import dataclass, field

import torch

TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# Window elements of one piece: 2^27 fp32 values are half a GiB, and a dozen such tensors live at once.
MAX_PIECE_ELEMENTS = 1 << 27
# PyTorch picks another softmax kernel for narrow inner sizes, so pieces of columns are never narrower than this.
MIN_PIECE_COLUMNS = 128


@dataclass
class Pack:
    """Segments of one call, known on the host. cu and comp may start above 0; batched_tokens is S, or 0: packed."""

    lens: list
    ratio: int
    padding: int = 0  # tokens past cu[B] (packed layout)
    cu_start: int = 0
    comp_start: int = 0
    extra_rows: int = 0  # R = comp[B] + extra_rows, never below 0
    batched_tokens: int = 0
    cu: list = field(init=False)
    comp: list = field(init=False)

    def __post_init__(self):
        self.cu, self.comp = [self.cu_start], [self.comp_start]
        for length in self.lens:
            self.cu.append(self.cu[-1] + length)
            self.comp.append(self.comp[-1] + length // self.ratio)

    @property
    def num_tokens(self):
        if self.batched_tokens:
            return len(self.lens) * self.batched_tokens
        return self.cu[-1] + self.padding

    @property
    def num_rows(self):
        return max(0, self.comp[-1] + self.extra_rows)

    @property
    def true_rows(self):
        """[begin, end) of the rows that belong to a segment and fit into out."""
        end = min(self.num_rows, self.comp[-1])
        return min(self.comp[0], end), end

    def row_starts(self, device):
        """For each true row: the first token of its own window, and whether it is its segment's first row."""
        starts, firsts = [], []
        begin, end = self.true_rows
        for index, length in enumerate(self.lens):
            base = index * self.batched_tokens if self.batched_tokens else self.cu[index]
            count = max(0, min(length // self.ratio, end - self.comp[index]))
            block = torch.arange(count, dtype=torch.int64)
            starts.append(base + block * self.ratio)
            firsts.append(block == 0)
        if not starts:
            return torch.empty(0, dtype=torch.int64, device=device), torch.empty(0, dtype=torch.bool, device=device)
        starts, firsts = torch.cat(starts).to(device), torch.cat(firsts).to(device)
        assert starts.numel() == end - begin
        return starts, firsts


@dataclass
class Results:
    """The four outputs; *_terms: sums of absolute terms (oracle only). Absent ones are None."""

    out: torch.Tensor = None
    grad_kv: torch.Tensor = None
    grad_score: torch.Tensor = None
    grad_ape: torch.Tensor = None
    out_terms: torch.Tensor = None
    grad_kv_terms: torch.Tensor = None
    grad_score_terms: torch.Tensor = None
    grad_ape_terms: torch.Tensor = None


def window_tokens(spec, starts):
    """(rows, win) token numbers; the first half of an overlapping window may lie before its segment."""
    own = starts[:, None] + torch.arange(spec.ratio, device=starts.device)[None, :]
    return own if spec.coff == 1 else torch.cat([own - spec.ratio, own], dim=1)


def _missing(spec, firsts):
    """(rows, win, 1) bool: entries that do not exist (first half of a segment's first row)."""
    if spec.coff == 1:
        return torch.zeros((firsts.numel(), spec.ratio, 1), dtype=torch.bool, device=firsts.device)
    half = torch.zeros((firsts.numel(), 2 * spec.ratio), dtype=torch.bool, device=firsts.device)
    half[:, : spec.ratio] = firsts[:, None]
    return half[:, :, None]


def _gather(spec, tensor, tokens, columns):
    """(rows, win, columns) windows of a dense (T, W) tensor; tokens outside the tensor read token 0."""
    low, high = columns
    if spec.coff == 1:
        return tensor[:, low:high][tokens]
    first, second = tokens[:, : spec.ratio].clamp(min=0), tokens[:, spec.ratio :]
    d = spec.head_dim
    return torch.cat([tensor[:, low:high][first], tensor[:, d + low : d + high][second]], dim=1)


def _scatter(spec, target, tokens, firsts, columns, values):
    """Puts window values back to their slots, each at most once; values of missing entries are dropped."""
    low, high = columns
    if spec.coff == 1:
        target[:, low:high][tokens] = values
        return
    d, r = spec.head_dim, spec.ratio
    target[:, d + low : d + high][tokens[:, r:]] = values[:, r:]
    inner = ~firsts
    target[:, low:high][tokens[inner][:, :r]] = values[inner][:, :r]


def _ape_windows(spec, ape, columns):
    """(1, win, columns) view of the APE in window order."""
    low, high = columns
    if spec.coff == 1:
        return ape[None, :, low:high]
    d = spec.head_dim
    return torch.cat([ape[:, low:high], ape[:, d + low : d + high]], dim=0)[None]


def _add_ape_gradient(spec, target, columns, values):
    low, high = columns
    if spec.coff == 1:
        target[:, low:high] += values[0]
        return
    d, r = spec.head_dim, spec.ratio
    target[:, low:high] += values[0, :r]
    target[:, d + low : d + high] += values[0, r:]


def _eager_piece(kv, score, ape, missing, grad_out, out_dtype, weight_dtype):
    """out and autograd's gradients of one piece. weight_dtype: what the weights and products are rounded to."""
    kv = kv.to(weight_dtype).masked_fill(missing, 0.0).requires_grad_()
    score = score.float().requires_grad_()
    leaves = [kv, score]
    logits = score
    if ape is not None:
        ape = ape.clone().requires_grad_()
        leaves.append(ape)
        logits = score + ape
    weights = logits.masked_fill(missing, float("-inf")).softmax(dim=1).to(weight_dtype)
    out = (kv * weights).sum(dim=1).to(out_dtype)
    if grad_out is None:
        return out.detach(), None, None, None
    grads = torch.autograd.grad(out, leaves, grad_out.to(out_dtype))
    return (out.detach(),) + tuple(grads) + ((None,) if ape is None else ())


def _weight_terms(logits, weights):
    """The weights as the absolute terms of the per-element bound count them.

    fp32 rounds x = score + ape, the maximum and x - maximum before exp sees them, so a weight carries a relative
    error of up to 2^-24 * (|x| + |maximum| + |x - maximum|) beside the 2^-21 or so of exp and of the sums. The
    factor is 1 up to a sum of 8, where the contract's bound stands unchanged. (PyTorch's own fp32 results pass the
    unweighted bound.) A weight below 2^-126 is a multiple of 2^-149, however small, and exp, the division and the
    product round to it in turn: the constant is four such steps where the bound is 2^-20 of the terms.
    """
    top = logits.amax(dim=1, keepdim=True)
    exponents = logits.abs() + top.abs() + (logits - top).abs()
    factor = (0.5 + exponents / 16.0).clamp(min=1.0)
    return torch.where(weights > 0, weights * factor + 2.0**-127, weights)


def _oracle_piece(kv, score, ape, missing, grad_out):
    """The same in fp64 by the formulas, and the sums of absolute terms."""
    kv = kv.double().masked_fill(missing, 0.0)
    logits = score.double() if ape is None else score.double() + ape.double()
    logits = logits.masked_fill(missing, float("-inf"))
    weights = logits.softmax(dim=1)
    products = kv * weights
    weight_terms = _weight_terms(logits, weights)
    out, out_terms = products.sum(dim=1), (kv.abs() * weight_terms).sum(dim=1)
    if grad_out is None:
        return (out, None, None, None), (out_terms, None, None, None)
    grad = grad_out.double()[:, None, :]
    grad_kv = grad * weights
    terms = grad * products
    total = terms.sum(dim=1, keepdim=True)
    grad_score = (terms - weights * total).masked_fill(missing, 0.0)
    absolute = (grad * kv).abs()
    score_terms = weight_terms * (absolute + (absolute * weight_terms).sum(dim=1, keepdim=True))
    score_terms = score_terms.masked_fill(missing, 0.0)
    return (
        (out, grad_kv, grad_score, grad_score.sum(dim=0, keepdim=True)),
        (out_terms, grad.abs() * weight_terms, score_terms, score_terms.sum(dim=0, keepdim=True)),
    )


def _pieces(spec, rows):
    """(row range, column range) pieces: columns are cut first, since grad_ape sums over rows."""
    columns = spec.head_dim
    if rows * spec.window * columns > MAX_PIECE_ELEMENTS:
        fit = MAX_PIECE_ELEMENTS // (rows * spec.window)
        columns = min(columns, max(MIN_PIECE_COLUMNS, fit // MIN_PIECE_COLUMNS * MIN_PIECE_COLUMNS))
        if spec.head_dim % columns and spec.head_dim % columns < MIN_PIECE_COLUMNS:
            columns = spec.head_dim  # never leave a narrow rest
    row_step = max(1, min(rows, MAX_PIECE_ELEMENTS // (spec.window * columns)))
    for low in range(0, spec.head_dim, columns):
        for begin in range(0, rows, row_step):
            yield (begin, min(rows, begin + row_step)), (low, min(spec.head_dim, low + columns))


def reference(kind, spec, pack, kv, score, ape, grad_out):
    """Results of one kind ("eager", "upstream", "oracle") on dense (T, W) inputs; grad_out None: forward only.

    Gradients are those of the true rows: grad_out of capacity rows is not read. out holds the capacity rows too.
    """
    device, oracle = kv.device, kind == "oracle"
    out_dtype = torch.float64 if oracle else TORCH_DTYPES[spec.out]
    weight_dtype = kv.dtype if kind == "upstream" else torch.float32
    starts, firsts = pack.row_starts(device)
    begin, end = pack.true_rows
    result = Results(out=torch.zeros((pack.num_rows, spec.head_dim), dtype=out_dtype, device=device))
    if oracle:
        result.out_terms = torch.zeros_like(result.out)
    if grad_out is not None:
        shape = (pack.num_tokens, spec.columns)
        result.grad_kv = torch.zeros(shape, dtype=torch.float64 if oracle else kv.dtype, device=device)
        result.grad_score = torch.zeros(shape, dtype=torch.float64 if oracle else score.dtype, device=device)
        if ape is not None:
            result.grad_ape = torch.zeros(
                (spec.ratio, spec.columns), dtype=torch.float64 if oracle else torch.float32, device=device
            )
        if oracle:
            result.grad_kv_terms = torch.zeros(shape, dtype=torch.float64, device=device)
            result.grad_score_terms = torch.zeros(shape, dtype=torch.float64, device=device)
            result.grad_ape_terms = None if ape is None else torch.zeros_like(result.grad_ape)

    for (low_row, high_row), columns in _pieces(spec, end - begin):
        rows = slice(low_row, high_row)
        out_rows = slice(begin + low_row, begin + high_row)
        tokens = window_tokens(spec, starts[rows])
        missing = _missing(spec, firsts[rows])
        inputs = (
            _gather(spec, kv, tokens, columns),
            _gather(spec, score, tokens, columns),
            None if ape is None else _ape_windows(spec, ape, columns),
            missing,
            None if grad_out is None else grad_out[out_rows, columns[0] : columns[1]],
        )
        terms = None
        if oracle:
            values, terms = _oracle_piece(*inputs)
        else:
            values = _eager_piece(*inputs, out_dtype, weight_dtype)
        span = slice(columns[0], columns[1])
        result.out[out_rows, span] = values[0]
        if terms:
            result.out_terms[out_rows, span] = terms[0]
        if grad_out is None:
            continue
        for target, value in ((result.grad_kv, values[1]), (result.grad_score, values[2])):
            _scatter(spec, target, tokens, firsts[rows], columns, value.to(target.dtype))
        if terms:
            _scatter(spec, result.grad_kv_terms, tokens, firsts[rows], columns, terms[1])
            _scatter(spec, result.grad_score_terms, tokens, firsts[rows], columns, terms[2])
        if ape is not None:
            _add_ape_gradient(spec, result.grad_ape, columns, values[3])
            if terms:
                _add_ape_gradient(spec, result.grad_ape_terms, columns, terms[3])

    capacity = pack.num_rows - (end - begin)
    if capacity:
        value, value_terms = _capacity_row(spec, kv, score, ape, oracle, out_dtype, weight_dtype)
        for span in (slice(0, begin), slice(end, pack.num_rows)):
            result.out[span] = value
            if value_terms is not None:
                result.out_terms[span] = value_terms
    return result


def _capacity_row(spec, kv, score, ape, oracle, out_dtype, weight_dtype):
    """A first block at token 0, whatever segment lies there."""
    tokens = window_tokens(spec, torch.zeros(1, dtype=torch.int64, device=kv.device))
    missing = _missing(spec, torch.ones(1, dtype=torch.bool, device=kv.device))
    columns = (0, spec.head_dim)
    inputs = (
        _gather(spec, kv, tokens, columns),
        _gather(spec, score, tokens, columns),
        None if ape is None else _ape_windows(spec, ape, columns),
        missing,
        None,
    )
    if oracle:
        values, terms = _oracle_piece(*inputs)
        return values[0], terms[0]
    return _eager_piece(*inputs, out_dtype, weight_dtype)[0], None


def consumed_slots(spec, pack, device):
    """(T, W) bool: slots of kv and score that a true row reads; every other gradient is exactly +0."""
    starts, firsts = pack.row_starts(device)
    mask = torch.zeros((pack.num_tokens, spec.columns), dtype=torch.bool, device=device)
    tokens = window_tokens(spec, starts)
    ones = torch.ones((1, 1, 1), dtype=torch.bool, device=device).expand(tokens.size(0), tokens.size(1), spec.head_dim)
    _scatter(spec, mask, tokens, firsts, (0, spec.head_dim), ones)
    return mask
