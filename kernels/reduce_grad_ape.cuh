// Second stage of grad_ape: adds the partials of the backward in a fixed order, with compensation.
//
// Launch: kReduceThreads threads, any grid; CTAs stride over groups of 32 elements of (RATIO, W).
// Runs after the backward on the same stream.
#pragma once

#include "common/math.cuh"
#include "common/segment.cuh"

namespace csajit {

// A sum and what rounding has taken from it (Knuth's two-sum, as in Neumaier's variant of Kahan's summation).
struct CompensatedSum {
  float sum = 0.0f;
  float lost = 0.0f;

  __device__ void add_value(float value) {
    const float total = add(sum, value);
    const float shadow = sub(total, sum);
    lost = add(lost, add(sub(sum, sub(total, shadow)), sub(value, shadow)));
    sum = total;
  }
  // Once the sum has left the finite range, what was lost is NaN and means nothing.
  __device__ float result() const { return isfinite_bits(sum) ? add(sum, lost) : sum; }
  __device__ static bool isfinite_bits(float value) { return (float_to_bits(value) & 0x7f800000u) != 0x7f800000u; }
};

template <int RATIO, int HEAD_DIM, int COFF, bool IS_SHORT>
__global__ void __launch_bounds__(kReduceThreads) compressor_reduce_grad_ape(const __grid_constant__ LaunchArgs args) {
  constexpr int kColumns = COFF * HEAD_DIM;
  constexpr long long kElements = 1LL * RATIO * kColumns;
  constexpr long long kItems = ceil_div(kElements, kWarpThreads);
  __shared__ float sums[kReduceLanes][kWarpThreads];
  __shared__ float losts[kReduceLanes][kWarpThreads];
  const int lane = threadIdx.x / kWarpThreads;
  const Partition partition =
      partition_rows(true_rows(args).last, partial_base(IS_SHORT), partial_cap(RATIO, HEAD_DIM, COFF, IS_SHORT));

  for (long long item = blockIdx.x; item < kItems; item += gridDim.x) {
    const long long element = item * kWarpThreads + lane_id();
    CompensatedSum total;
    if (element < kElements) {
#pragma unroll 8
      for (long long p = lane; p < partition.num_partials; p += kReduceLanes) {
        total.add_value(load_global<float>(args.workspace + (p * kElements + element) * 4ull));
      }
    }
    sums[lane][lane_id()] = total.sum;
    losts[lane][lane_id()] = total.lost;
    __syncthreads();
    if (lane == 0 && element < kElements) {
#pragma unroll
      for (int other = 1; other < kReduceLanes; ++other) {
        total.add_value(sums[other][lane_id()]);
        total.lost = add(total.lost, losts[other][lane_id()]);
      }
      const unsigned long long address =
          args.grad_ape + (element / kColumns * args.grad_ape_row_stride + element % kColumns) * 4ull;
      const float result = total.result();
      store_global(address, args.accumulate_grad_ape != 0 ? add(load_global<float>(address), result) : result);
    }
    __syncthreads();
  }
}

}  // namespace csajit
