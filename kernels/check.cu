// Compile-only: the production preset's kernels and a few odd ones, for tools that read CUDA sources.
#include "backward_long.cuh"
#include "backward_short.cuh"
#include "forward_long.cuh"
#include "forward_short.cuh"
#include "reduce_grad_ape.cuh"
#include "validate_offsets.cuh"

namespace csajit {

#define CSAJIT_INSTANTIATE(FAMILY, RATIO, HEAD_DIM, COFF, TYPE, APE, FORWARD_VEC, BACKWARD_VEC)                     \
  template __global__ void compressor_forward_##FAMILY<RATIO, HEAD_DIM, COFF, TYPE, TYPE, TYPE, APE, FORWARD_VEC,   \
                                                       true>(const __grid_constant__ LaunchArgs);                   \
  template __global__ void compressor_backward_##FAMILY<RATIO, HEAD_DIM, COFF, TYPE, TYPE, TYPE, APE, BACKWARD_VEC, \
                                                        true>(const __grid_constant__ LaunchArgs)

CSAJIT_INSTANTIATE(short, 4, 128, 2, DType::bf16, true, 4, 4);
CSAJIT_INSTANTIATE(short, 4, 512, 2, DType::bf16, true, 4, 4);
CSAJIT_INSTANTIATE(long, 128, 128, 1, DType::bf16, true, 4, 2);
CSAJIT_INSTANTIATE(long, 128, 512, 1, DType::bf16, true, 4, 2);
CSAJIT_INSTANTIATE(long, 128, 512, 2, DType::bf16, true, 4, 2);
CSAJIT_INSTANTIATE(long, 127, 512, 2, DType::fp32, true, 4, 2);
CSAJIT_INSTANTIATE(long, 256, 512, 2, DType::fp32, true, 2, 1);
CSAJIT_INSTANTIATE(short, 16, 512, 1, DType::fp32, true, 4, 2);
CSAJIT_INSTANTIATE(short, 8, 512, 2, DType::fp16, true, 4, 2);
CSAJIT_INSTANTIATE(short, 3, 65, 2, DType::fp32, false, 1, 1);
CSAJIT_INSTANTIATE(long, 256, 65, 2, DType::fp32, true, 1, 1);
CSAJIT_INSTANTIATE(long, 17, 65, 1, DType::fp16, false, 1, 1);
template __global__ void compressor_reduce_grad_ape<4, 512, 2, true>(const __grid_constant__ LaunchArgs);
template __global__ void compressor_validate_offsets<4>(const __grid_constant__ LaunchArgs);

#undef CSAJIT_INSTANTIATE

}  // namespace csajit
