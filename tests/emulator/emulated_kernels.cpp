// The kernel templates, instantiated for the host for the specs of the emulator's tests.
#include "common/intrinsics.cuh"
// (first: it stands in for CUDA's own words)
#include <fmt/format.h>

#include "backward_long.cuh"
#include "backward_short.cuh"
#include "emulator/emulated_device.hpp"
#include "forward_long.cuh"
#include "forward_short.cuh"
#include "reduce_grad_ape.cuh"
#include "validate_offsets.cuh"

namespace csajit::emulator {

namespace {

struct Registry {
  std::map<std::string, Kernel> kernels;
  std::vector<EmulatedSpec> specs;
};

constexpr DType bf16 = DType::bf16;
constexpr DType fp16 = DType::fp16;
constexpr DType fp32 = DType::fp32;

const char* name_of(DType type) {
  return type == bf16 ? "csajit::DType::bf16" : type == fp16 ? "csajit::DType::fp16" : "csajit::DType::fp32";
}

template <int RATIO, int HEAD_DIM, int COFF, DType KV, DType SCORE, DType OUT, bool HAS_APE>
struct Add {
  static constexpr bool is_short = RATIO * COFF <= 16 && HEAD_DIM > 1;

  template <int VEC, bool CONTIGUOUS>
  static void width(Registry& registry) {
    if constexpr (HEAD_DIM % VEC == 0) {
      const std::string arguments =
          fmt::format("{}<{}, {}, {}, {}, {}, {}, {}, {}, {}>", is_short ? "short" : "long", RATIO, HEAD_DIM, COFF,
                      name_of(KV), name_of(SCORE), name_of(OUT), HAS_APE, VEC, CONTIGUOUS);
      Kernel& forward = registry.kernels["csajit::compressor_forward_" + arguments];
      Kernel& backward = registry.kernels["csajit::compressor_backward_" + arguments];
      if constexpr (is_short) {
        forward = compressor_forward_short<RATIO, HEAD_DIM, COFF, KV, SCORE, OUT, HAS_APE, VEC, CONTIGUOUS>;
        backward = compressor_backward_short<RATIO, HEAD_DIM, COFF, KV, SCORE, OUT, HAS_APE, VEC, CONTIGUOUS>;
      } else {
        forward = compressor_forward_long<RATIO, HEAD_DIM, COFF, KV, SCORE, OUT, HAS_APE, VEC, CONTIGUOUS>;
        backward = compressor_backward_long<RATIO, HEAD_DIM, COFF, KV, SCORE, OUT, HAS_APE, VEC, CONTIGUOUS>;
      }
    }
  }

  static void to(Registry& registry) {
    registry.specs.push_back({RATIO, HEAD_DIM, COFF, static_cast<csajit_dtype>(KV), static_cast<csajit_dtype>(SCORE),
                              static_cast<csajit_dtype>(OUT), HAS_APE});
    width<4, true>(registry);
    width<4, false>(registry);
    width<2, true>(registry);
    width<2, false>(registry);
    width<1, false>(registry);
    registry
        .kernels[fmt::format("csajit::compressor_reduce_grad_ape<{}, {}, {}, {}>", RATIO, HEAD_DIM, COFF, is_short)] =
        compressor_reduce_grad_ape<RATIO, HEAD_DIM, COFF, is_short>;
    registry.kernels[fmt::format("csajit::compressor_validate_offsets<{}>", RATIO)] =
        compressor_validate_offsets<RATIO>;
  }
};

const Registry& registry() {
  static const Registry all = [] {
    Registry r;
    Add<4, 12, 2, bf16, bf16, bf16, true>::to(r);
    Add<4, 132, 2, bf16, bf16, bf16, true>::to(r);  // two strips
    Add<4, 8, 1, fp16, fp16, fp16, true>::to(r);
    Add<1, 8, 2, bf16, fp32, bf16, false>::to(r);
    Add<1, 5, 1, fp32, fp32, fp32, false>::to(r);
    Add<2, 4, 2, fp32, fp32, fp32, true>::to(r);
    Add<3, 7, 2, fp32, bf16, fp16, true>::to(r);
    Add<8, 4, 2, bf16, bf16, bf16, true>::to(r);
    Add<16, 6, 1, bf16, bf16, bf16, true>::to(r);
    Add<17, 4, 1, bf16, bf16, bf16, true>::to(r);
    Add<9, 65, 2, bf16, bf16, bf16, false>::to(r);
    Add<4, 1, 2, bf16, bf16, bf16, true>::to(r);  // head_dim 1 is of the long family
    Add<31, 4, 2, fp16, fp32, fp16, true>::to(r);
    Add<128, 8, 1, bf16, bf16, bf16, true>::to(r);
    Add<128, 4, 2, bf16, bf16, bf16, true>::to(r);
    Add<127, 7, 2, fp32, fp32, fp32, true>::to(r);
    Add<256, 6, 2, bf16, bf16, fp32, true>::to(r);
    return r;
  }();
  return all;
}

}  // namespace

const std::map<std::string, Kernel>& emulated_kernels() { return registry().kernels; }
const std::vector<EmulatedSpec>& emulated_specs() { return registry().specs; }

}  // namespace csajit::emulator
