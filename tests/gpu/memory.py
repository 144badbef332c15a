"""Memory for a call: slabs full of NaN bits (or of FILL_BYTE), and views of every layout in them. Knows no data.

Views lie between guard elements; a slab remembers which elements its views may write, so that any other write shows.
"""

import torch

from compare import bits

GUARD_ELEMENTS = 64
FILL_BYTE = 0xFF  # NaN in every dtype


def untouched(tensor):
    """(bool per element) whether it still holds what slabs are filled with."""
    fill = torch.full((tensor.element_size(),), FILL_BYTE, dtype=torch.uint8, device=tensor.device)
    return bits(tensor) == bits(fill.view(tensor.dtype))


class Slab:
    """One allocation full of FILL_BYTE that remembers which elements views may write."""

    def __init__(self, elements, dtype, device):
        raw = torch.full((elements * dtype.itemsize,), FILL_BYTE, dtype=torch.uint8, device=device)
        self.flat = raw.view(dtype)
        self.used = torch.zeros(elements, dtype=torch.bool, device=device)

    def view(self, size, strides, offset):
        self.used.as_strided(size, strides, offset).fill_(True)
        return self.flat.as_strided(size, strides, offset)

    def gaps_untouched(self):
        return bool((untouched(self.flat) | self.used).all())


def _row_elements(layout, columns, fused, row_gap):
    return columns * (2 if fused else 1) + (row_gap if layout == "strided" else 0)


def row_elements(layout, spec, row_gap):
    """Elements from a token's kv to the next one's in a packed layout."""
    return _row_elements(layout, spec.columns, layout == "fused" and spec.kv == spec.score, row_gap)


def make_views(layout, pack, columns, dtypes, device, shift, row_gap):
    """Slabs and one view for each dtype: (T, columns), or (B, S, columns) when the pack is batched."""
    fused = layout == "fused" and len(set(dtypes)) == 1
    row = _row_elements(layout, columns, fused, row_gap)
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
