"""Small forward and backward calls for a memory checker: T <= 2048, B <= 8; no result is judged.

Usage: small_cases.py. Run it with PYTORCH_NO_CUDA_MEMORY_CACHING=1, so that each tensor is an allocation of its own
and an access past its end is seen. Garbage segment tables are among the cases: no access may leave the tensors.
"""

import random
import sys

import torch

import memory
from case import Case, execute
from csajit_ctypes import Service, Spec
from data import make_data
from reference import Pack

GARBAGE = 0x7FFFFFFF


def cases():
    specs = (
        Spec(4, 128, 2),
        Spec(4, 65, 2),
        Spec(4, 1, 2),
        Spec(1, 64, 1),
        Spec(8, 512, 2),
        Spec(128, 128, 1),
        Spec(128, 65, 2),
        Spec(256, 64, 2),
    )
    for number, spec in enumerate(specs):
        r = spec.ratio
        packs = (
            Pack([515, 0, 3, 129], r, padding=21, extra_rows=5),
            Pack([2 * r, r + 1, 1], r, cu_start=3, comp_start=1, extra_rows=-1, padding=2 * r),
            Pack([300, 257], r, batched_tokens=301),
            Pack([1, 2], r, padding=5, extra_rows=-5),
        )
        for index, pack in enumerate(packs):
            if pack.num_rows and pack.num_tokens < r:
                continue
            layouts = (("contiguous", 0), ("strided", 1), ("sbhd" if pack.batched_tokens else "fused", 2), ("fused", 0))
            layout, shift = layouts[(index + number) % 4]
            yield Case(f"{spec}", spec, pack, layout=layout, shift=shift)


def run_garbage(service, spec, rng):
    """Tables that no honest caller would pass; only the checker's verdict counts."""
    tokens, rows, segments = 600, 12, 5
    kv = torch.randn(tokens, spec.columns, device="cuda").to(torch.bfloat16)
    score = torch.randn(tokens, spec.columns, device="cuda").to(torch.bfloat16)
    ape = torch.randn(spec.ratio, spec.columns, device="cuda")
    out = torch.zeros(rows, spec.head_dim, dtype=torch.bfloat16, device="cuda")
    grad_kv, grad_score, grad_ape = torch.zeros_like(kv), torch.zeros_like(score), torch.zeros_like(ape)
    size = service.workspace_size(spec, rows)
    workspace = torch.empty(size, dtype=torch.uint8, device="cuda") if size else None
    pool = (0, -1, 1, tokens, tokens + 1, -tokens, GARBAGE, -GARBAGE - 1, 2**30, 64, 300)
    draws = [[rng.choice(pool) for _ in range(segments + 1)] for _ in range(2)]
    tables = [torch.tensor(draw, dtype=torch.int32, device="cuda") for draw in draws]
    service.forward(spec, kv, score, ape, *tables, out)
    service.backward(spec, kv, score, ape, *tables, out, grad_kv, grad_score, grad_ape, workspace)
    torch.cuda.synchronize()


def main():
    if not torch.cuda.is_available():
        print("skip small_cases: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    # Tensors end where their allocations end: guard elements would hide a stray access from the checker.
    memory.GUARD_ELEMENTS = 0
    count, misses = 0, []
    rng = random.Random(3)
    with Service() as service:
        for case in cases():
            data = make_data(case, "cuda")
            # An uninitialised workspace, so that a read before a write is seen.
            execute(service, case, data, "cuda", case.layout, case.shift, None, misses)
            count += 1
        for spec in (Spec(4, 128, 2), Spec(4, 128, 1), Spec(128, 128, 1), Spec(32, 65, 2)):
            for _ in range(8):
                run_garbage(service, spec, rng)
                count += 1
    for miss in misses:
        print(miss)
    print(f"small cases: {count} calls")
    print(f"{count - len(misses)} passed, {len(misses)} failed")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
