"""csajit's exp and division against PyTorch's expf and IEEE division, from kernels/common/math.cuh.

Usage: exp_division.py [--pairs N]. exp: every float from -0 down to -inf, +0 and a sample of NaNs, bit for bit.
Division: N random pairs (default 4 million) at every exponent of e by itself, den in [1, 512], and special values:
bit for bit from e = 2^-76 up, where short windows use it, and within an ulp below, where long ones do. Exits non-zero
where that does not hold.
"""

import argparse
import ctypes
import os
import sys

import torch

import probe

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHUNK = 1 << 27

SOURCE = r"""
#include "common/math.cuh"

extern "C" __global__ void exp_of_bits(unsigned first, unsigned long long count, float* out) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    out[i] = csajit::exp_nonpositive(__uint_as_float(first + (unsigned)i));
}

extern "C" __global__ void bits_as_floats(unsigned first, unsigned long long count, float* out) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    out[i] = __uint_as_float(first + (unsigned)i);
}

__device__ unsigned scramble(unsigned long long x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return (unsigned)((x ^ (x >> 31)) >> 16);
}

__device__ bool same(float a, float b) {
  return __float_as_uint(a) == __float_as_uint(b) || (a != a && b != b);
}

// Neighbours or the same; neither is negative.
__device__ bool near(float a, float b) {
  const int apart = (int)(__float_as_uint(a) - __float_as_uint(b));
  return same(a, b) || apart == 1 || apart == -1;
}

// A den in [1, 512]: uniform in one of its nine binades; some are exact powers of two or just beside them.
__device__ float pick_den(unsigned binade, unsigned bits) {
  unsigned fraction = bits & 0x7fffffu;
  const unsigned kind = bits >> 27;
  if (kind == 0) fraction = 0;
  if (kind == 1) fraction = bits & 0xfu;
  if (kind == 2) fraction = 0x7fffffu - (bits & 0xfu);
  return __uint_as_float(((127u + binade % 9u) << 23) | fraction);
}

// e: all pairs of one exponent field (0: the denormals, 127: 1 alone). Counts pairs that differ from IEEE division,
// and those that differ by more than an ulp.
extern "C" __global__ void division(unsigned exponent, unsigned long long pairs, unsigned long long* differing,
                                    unsigned long long* far) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  unsigned long long bad = 0, bad_far = 0;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += stride) {
    const unsigned long long seed = (i * 256u + exponent) * 4u;
    unsigned fraction = scramble(seed) & 0x7fffffu;
    if (exponent == 0 && (i & 1)) fraction >>= scramble(seed + 3) % 23u;
    if (exponent == 127) fraction = 0;
    const float e = __uint_as_float((exponent << 23) | fraction);
    const float den = i % 101 == 0 ? 512.0f : pick_den(scramble(seed + 1), scramble(seed + 2));
    const float wanted = __fdiv_rn(e, den);
    const float quotient = csajit::divide_normal(e, den, __frcp_rn(den));
    bad += !same(quotient, wanted);
    bad_far += !near(quotient, wanted);
  }
  if (bad) atomicAdd(differing, bad);
  if (bad_far) atomicAdd(far, bad_far);
}

// Each listed e with each listed den.
extern "C" __global__ void division_table(const float* e, unsigned e_count, const float* den, unsigned den_count,
                                          unsigned long long* wrong) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < e_count * den_count; i += gridDim.x * blockDim.x) {
    const float a = e[i / den_count], b = den[i % den_count];
    const float quotient = csajit::divide_normal(a, b, __frcp_rn(b));
    const bool is_tiny = a != 0.0f && a < 0x1p-76f;
    if (!(is_tiny ? near(quotient, __fdiv_rn(a, b)) : same(quotient, __fdiv_rn(a, b)))) atomicAdd(wrong, 1ull);
  }
}
"""


def check_exp(module):
    """Count of floats whose exp differs from torch.exp; the first few are printed."""
    exp_of_bits, bits_as_floats = module.function("exp_of_bits"), module.function("bits_as_floats")
    ours = torch.empty(CHUNK, dtype=torch.float32, device="cuda")
    inputs = torch.empty_like(ours)
    total = differing = 0
    # Sign bit set: -0 (0x80000000) to -inf (0xff800000), then some NaNs; and +0.
    begin, end = 0x80000000, 0xFF800001 + 4096
    ranges = [(0, 1)] + [(first, min(CHUNK, end - first)) for first in range(begin, end, CHUNK)]
    for first, count in ranges:
        for kernel, target in ((exp_of_bits, ours), (bits_as_floats, inputs)):
            kernel(4096, 256, [ctypes.c_uint32(first), ctypes.c_uint64(count), probe.address(target)])
        expected = torch.exp(inputs[:count])
        bad = ours[:count].view(torch.int32) != expected.view(torch.int32)
        bad &= ~(torch.isnan(ours[:count]) & torch.isnan(expected))
        number = int(bad.sum())
        if number and not differing:
            for index in torch.nonzero(bad)[:5, 0].tolist():
                x, a, b = inputs[index].item(), ours[index].item(), expected[index].item()
                print(f"  exp({x!r}) = {a!r}, PyTorch {b!r}")
        total += count
        differing += number
    print(f"exp: {total} floats, {differing} differ from PyTorch's expf")
    return differing


def check_division(module, pairs):
    """Count of quotients beyond the limits, over every exponent of e in [2^-149, 1]."""
    division = module.function("division")
    counts = torch.zeros((128, 2), dtype=torch.int64, device="cuda")
    for exponent in range(128):
        arguments = [ctypes.c_uint32(exponent), ctypes.c_uint64(pairs)]
        arguments += [probe.address(counts[exponent, 0]), probe.address(counts[exponent, 1])]
        division(2048, 256, arguments)
    table = [(exponent - 127, bad, far) for exponent, (bad, far) in enumerate(counts.tolist())]
    wrong = 0
    for exponent, bad, far in table:
        beyond = bad if exponent >= -76 else far
        wrong += beyond
        if beyond:
            print(f"  exponent 2^{exponent}: {beyond} of {pairs}")
    print(f"division: {128 * pairs} pairs over 128 exponents of e, {wrong} beyond the limits")
    # Where the fast division begins to fail shows how much room the limit leaves.
    failing = [exponent for exponent, bad, _ in table if bad]
    largest = f"2^{max(failing)}" if failing else "none"
    print(f"  the largest exponent of e with a difference from IEEE division is {largest}")
    return wrong


def check_division_specials(module):
    """Zero, NaN, the limit's neighbours and a den of NaN (a window that holds NaN)."""
    nan = float("nan")
    limit = 2.0**-76
    e = torch.tensor(
        [0.0, nan, 1.0, limit, limit * (1 - 2.0**-24), limit * (1 + 2.0**-23), 2.0**-149, 2.0**-126, 1 - 2.0**-24],
        dtype=torch.float32,
        device="cuda",
    )
    den = torch.tensor([1.0, 1 + 2.0**-23, 2.0, 3.0, 7.0, 511.99997, 512.0, nan], dtype=torch.float32, device="cuda")
    count = torch.zeros(1, dtype=torch.int64, device="cuda")
    arguments = [probe.address(e), ctypes.c_uint32(e.numel()), probe.address(den), ctypes.c_uint32(den.numel())]
    module.function("division_table")(1, 128, arguments + [probe.address(count)])
    print(f"division of special values: {e.numel() * den.numel()} pairs, {int(count)} beyond the limits")
    return int(count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4_000_000, help="pairs for each exponent of e")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skip exp_division: PyTorch sees no GPU here")
        return 0
    module = probe.Module(SOURCE, include_dirs=[os.path.join(ROOT, "kernels")])
    results = [check_exp(module), check_division(module, options.pairs), check_division_specials(module)]
    failed = sum(1 for result in results if result)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
