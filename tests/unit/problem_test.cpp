#include "compressor/problem.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/tiling.h"

using namespace csajit;

namespace {

constexpr std::int64_t tokens = 2048;
constexpr std::int64_t rows = 512;

Spec spec_r4() { return {4, 128, 2, DType::bf16, DType::bf16, DType::bf16, true}; }

std::vector<KernelShape> shapes_of(const Spec& spec) {
  std::vector<KernelShape> shapes;
  for (const KernelRecipe& recipe : kernels_of(spec, 227 << 10)) shapes.push_back(shape_of(recipe));
  return shapes;
}

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

csajit_forward_args forward_args() {
  csajit_forward_args args{};
  args.struct_size = sizeof args;
  args.num_tokens = tokens;
  args.num_segments = 3;
  args.total_comp = rows;
  args.cu_seqlens = static_cast<const std::int32_t*>(at(0x1000));
  args.cu_seqlens_comp = static_cast<const std::int32_t*>(at(0x2000));
  args.kv.data = at(0x10000000);
  args.score.data = at(0x20000000);
  args.ape.data = at(0x30000000);
  args.out.data = at(0x40000000);
  return args;
}

csajit_backward_args backward_args() {
  csajit_backward_args args{};
  args.struct_size = sizeof args;
  args.num_tokens = tokens;
  args.num_segments = 3;
  args.total_comp = rows;
  args.cu_seqlens = static_cast<const std::int32_t*>(at(0x1000));
  args.cu_seqlens_comp = static_cast<const std::int32_t*>(at(0x2000));
  args.kv.data = at(0x10000000);
  args.score.data = at(0x20000000);
  args.ape.data = at(0x30000000);
  args.grad_out.data = at(0x40000000);
  args.grad_kv.data = at(0x50000000);
  args.grad_score.data = at(0x60000000);
  args.grad_ape.data = at(0x70000000);
  args.workspace = at(0x80000000);
  args.workspace_bytes = *workspace_bytes(spec_r4(), rows);
  return args;
}

std::string forward_error(const csajit_forward_args& args, const Spec& spec = spec_r4()) {
  LaunchArgs out{};
  const auto plan = plan_forward(spec, args, shapes_of(spec), out);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().status == CSAJIT_E_INVALID_ARGUMENT);
  return plan.error().message;
}

std::string backward_error(const csajit_backward_args& args, const Spec& spec = spec_r4()) {
  LaunchArgs out{};
  const auto plan = plan_backward(spec, args, shapes_of(spec), out);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().status == CSAJIT_E_INVALID_ARGUMENT);
  return plan.error().message;
}

bool begins(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

}  // namespace

TEST_CASE("a forward of the preset takes the wide kernel and covers every row and strip") {
  LaunchArgs out{};
  const auto shapes = shapes_of(spec_r4());
  const auto plan = plan_forward(spec_r4(), forward_args(), shapes, out);
  REQUIRE(plan.ok());
  REQUIRE(plan->count == 1);
  CHECK(shapes[plan->launches[0].kernel].role == KernelRole::forward);
  CHECK(shapes[plan->launches[0].kernel].vector == 4);
  CHECK(out.num_items == rows / 4);  // four rows of 32 threads a CTA
  CHECK(out.kv == 0x10000000);
  CHECK(out.kv_row_stride == 256);
  CHECK(out.out_row_stride == 128);
  CHECK(out.tokens_per_segment == 0);
}

TEST_CASE("an unaligned tensor takes the scalar kernel") {
  const auto shapes = shapes_of(spec_r4());
  LaunchArgs out{};
  csajit_forward_args args = forward_args();
  args.score.data = at(0x20000002);
  CHECK(shapes[plan_forward(spec_r4(), args, shapes, out)->launches[0].kernel].vector == 1);
  args = forward_args();
  args.kv.row_stride = 257;
  CHECK(shapes[plan_forward(spec_r4(), args, shapes, out)->launches[0].kernel].vector == 1);
  args = forward_args();
  args.ape.row_stride = 258;
  CHECK(shapes[plan_forward(spec_r4(), args, shapes, out)->launches[0].kernel].vector == 1);
}

TEST_CASE("tensors without gaps take the contiguous kernel, any other packing of the same width the strided one") {
  const auto shapes = shapes_of(spec_r4());
  LaunchArgs out{};
  const auto forward = [&](const csajit_forward_args& args) {
    return shapes[plan_forward(spec_r4(), args, shapes, out)->launches[0].kernel];
  };
  const auto backward = [&](const csajit_backward_args& args) {
    return shapes[plan_backward(spec_r4(), args, shapes, out)->launches[0].kernel];
  };
  CHECK(forward(forward_args()).contiguous);
  CHECK(backward(backward_args()).contiguous);
  for (csajit_tensor csajit_forward_args::*tensor :
       {&csajit_forward_args::kv, &csajit_forward_args::score, &csajit_forward_args::ape}) {
    csajit_forward_args args = forward_args();
    (args.*tensor).row_stride = 512;
    CHECK_FALSE(forward(args).contiguous);
    CHECK(forward(args).vector == 4);
  }
  for (csajit_tensor csajit_backward_args::*tensor :
       {&csajit_backward_args::kv, &csajit_backward_args::score, &csajit_backward_args::ape,
        &csajit_backward_args::grad_kv, &csajit_backward_args::grad_score}) {
    csajit_backward_args args = backward_args();
    (args.*tensor).row_stride = 512;
    CHECK_FALSE(backward(args).contiguous);
    CHECK(backward(args).vector == 4);
  }
  // A window takes one row of these, whose stride is no matter.
  csajit_forward_args spread = forward_args();
  spread.out.row_stride = 512;
  CHECK(forward(spread).contiguous);
  csajit_backward_args spread_gradient = backward_args();
  spread_gradient.grad_out.row_stride = 512;
  CHECK(backward(spread_gradient).contiguous);
  csajit_forward_args batched = forward_args();
  batched.kv.segment_stride = batched.score.segment_stride = tokens / 3 * 256;
  batched.num_tokens = tokens / 3 * 3;
  CHECK_FALSE(forward(batched).contiguous);
}

TEST_CASE("the zero that ties loads is 0, whatever stood in the arguments") {
  LaunchArgs out;
  std::memset(&out, 0xff, sizeof out);
  REQUIRE(plan_forward(spec_r4(), forward_args(), shapes_of(spec_r4()), out).ok());
  CHECK(out.zero == 0);
  std::memset(&out, 0xff, sizeof out);
  REQUIRE(plan_backward(spec_r4(), backward_args(), shapes_of(spec_r4()), out).ok());
  CHECK(out.zero == 0);
}

TEST_CASE("a forward without rows launches nothing") {
  csajit_forward_args args = forward_args();
  args.total_comp = 0;
  args.out.data = nullptr;
  LaunchArgs out{};
  const auto plan = plan_forward(spec_r4(), args, shapes_of(spec_r4()), out);
  REQUIRE(plan.ok());
  CHECK(plan->count == 0);
}

TEST_CASE("each bad forward argument is refused by name") {
  csajit_forward_args args = forward_args();
  args.num_tokens = -1;
  CHECK(begins(forward_error(args), "num_tokens"));
  args = forward_args();
  args.num_tokens = 3;
  CHECK(begins(forward_error(args), "num_tokens: 3"));
  args = forward_args();
  args.num_segments = -1;
  CHECK(begins(forward_error(args), "num_segments"));
  args = forward_args();
  args.num_segments = 0x7fffffff;
  CHECK(begins(forward_error(args), "num_segments"));
  args = forward_args();
  args.total_comp = -1;
  CHECK(begins(forward_error(args), "total_comp"));
  args = forward_args();
  args.cu_seqlens = nullptr;
  CHECK(begins(forward_error(args), "cu_seqlens is NULL"));
  args = forward_args();
  args.cu_seqlens_comp = nullptr;
  CHECK(begins(forward_error(args), "cu_seqlens_comp is NULL"));
  args = forward_args();
  args.cu_seqlens = static_cast<const std::int32_t*>(at(0x1002));
  CHECK(begins(forward_error(args), "cu_seqlens:"));
  args = forward_args();
  args.cu_seqlens = static_cast<const std::int32_t*>(at(~std::uint64_t{3}));
  CHECK(begins(forward_error(args), "cu_seqlens: 16 bytes at 0xfffffffffffffffc leave"));
  args = forward_args();
  args.kv.data = nullptr;
  CHECK(begins(forward_error(args), "kv.data"));
  args = forward_args();
  args.score.row_stride = 255;
  CHECK(begins(forward_error(args), "score.row_stride"));
  args = forward_args();
  args.ape.data = nullptr;
  CHECK(begins(forward_error(args), "ape.data"));
  args = forward_args();
  args.out.data = at(0x10000000);
  CHECK(begins(forward_error(args), "kv and out overlap"));
  args = forward_args();
  args.out.data = at(0x1000);
  CHECK(forward_error(args).find("cu_seqlens overlap") != std::string::npos);
  args = forward_args();
  args.out.row_stride = 127;
  CHECK(begins(forward_error(args), "out.row_stride"));
  args = forward_args();
  args.flags = 1;
  CHECK(begins(forward_error(args), "flags"));
  args = forward_args();
  args.kv.segment_stride = 1024;
  CHECK(begins(forward_error(args), "score.segment_stride"));
  args.score.segment_stride = 1024;
  CHECK(begins(forward_error(args), "num_tokens: 2048 is no multiple of num_segments 3"));
  args = forward_args();
  args.num_tokens = std::int64_t{1} << 60;
  CHECK(begins(forward_error(args), "kv:"));
  Spec no_ape = spec_r4();
  no_ape.ape = false;
  CHECK(begins(forward_error(forward_args(), no_ape), "ape.data must be NULL"));
}

TEST_CASE("a batched layout counts tokens within segments") {
  csajit_forward_args args = forward_args();
  args.num_segments = 4;
  args.kv.row_stride = args.score.row_stride = 4 * 256;
  args.kv.segment_stride = args.score.segment_stride = 256;
  LaunchArgs out{};
  const auto plan = plan_forward(spec_r4(), args, shapes_of(spec_r4()), out);
  REQUIRE(plan.ok());
  CHECK(out.tokens_per_segment == tokens / 4);
  CHECK(out.kv_segment_stride == 256);
  args.num_tokens = 12;
  CHECK(begins(forward_error(args), "num_tokens: 3 tokens a segment"));
}

TEST_CASE("a backward runs rows and zero slots in one kernel and grad_ape's second stage in another") {
  LaunchArgs out{};
  const auto shapes = shapes_of(spec_r4());
  const auto plan = plan_backward(spec_r4(), backward_args(), shapes, out);
  REQUIRE(plan.ok());
  REQUIRE(plan->count == 2);
  CHECK(shapes[plan->launches[0].kernel].role == KernelRole::backward);
  CHECK(shapes[plan->launches[1].kernel].role == KernelRole::reduce_grad_ape);
  CHECK(out.num_row_items == rows / 4);
  CHECK(out.num_items == out.num_row_items + tokens / (4 * kZeroTokensPerWarp));
}

TEST_CASE("gradients that are not wanted cost no checks and no launches") {
  const Spec spec = spec_r4();
  csajit_backward_args args = backward_args();
  args.grad_ape.data = nullptr;
  args.workspace = nullptr;
  args.workspace_bytes = 0;
  LaunchArgs out{};
  auto plan = plan_backward(spec, args, shapes_of(spec), out);
  REQUIRE(plan.ok());
  CHECK(plan->count == 1);
  args.grad_kv.data = nullptr;
  args.grad_score.data = nullptr;
  plan = plan_backward(spec, args, shapes_of(spec), out);
  REQUIRE(plan.ok());
  CHECK(plan->count == 0);
}

TEST_CASE("without rows a backward still writes zeros, and an accumulated grad_ape is left alone") {
  const Spec spec = spec_r4();
  csajit_backward_args args = backward_args();
  args.total_comp = 0;
  args.grad_out.data = nullptr;
  args.cu_seqlens = nullptr;
  args.cu_seqlens_comp = nullptr;
  args.workspace = nullptr;
  args.workspace_bytes = 0;
  LaunchArgs out{};
  auto plan = plan_backward(spec, args, shapes_of(spec), out);
  REQUIRE(plan.ok());
  CHECK(plan->count == 2);
  CHECK(out.num_row_items == 0);
  args.flags = CSAJIT_ACCUMULATE_GRAD_APE;
  plan = plan_backward(spec, args, shapes_of(spec), out);
  REQUIRE(plan.ok());
  CHECK(plan->count == 1);
}

TEST_CASE("each bad backward argument is refused by name") {
  csajit_backward_args args = backward_args();
  args.workspace_bytes -= 1;
  CHECK(begins(backward_error(args), "workspace_bytes"));
  args = backward_args();
  args.workspace = nullptr;
  CHECK(begins(backward_error(args), "workspace is NULL"));
  args = backward_args();
  args.workspace = at(~std::uint64_t{15});
  CHECK(begins(backward_error(args), "workspace: "));
  args = backward_args();
  args.workspace = at(0x80000008);
  CHECK(begins(backward_error(args), "workspace:"));
  args = backward_args();
  args.grad_out.data = nullptr;
  CHECK(begins(backward_error(args), "grad_out.data"));
  args = backward_args();
  args.grad_kv.data = at(0x50000001);
  CHECK(begins(backward_error(args), "grad_kv.data"));
  args = backward_args();
  args.grad_score.data = args.grad_kv.data;
  CHECK(begins(backward_error(args), "grad_kv and grad_score overlap"));
  args = backward_args();
  args.grad_ape.data = at(0x30000000);
  CHECK(begins(backward_error(args), "ape and grad_ape overlap"));
  args = backward_args();
  args.workspace = at(0x50000000);
  CHECK(begins(backward_error(args), "grad_kv and workspace overlap"));
  args = backward_args();
  args.flags = 2;
  CHECK(begins(backward_error(args), "flags"));
  args = backward_args();
  args.grad_kv.segment_stride = 8;
  CHECK(begins(backward_error(args), "grad_kv.segment_stride"));
  Spec no_ape = spec_r4();
  no_ape.ape = false;
  args = backward_args();
  args.ape.data = nullptr;
  CHECK(begins(backward_error(args, no_ape), "grad_ape.data must be NULL"));
}

TEST_CASE("workspace grows to a bound and depends on rows only") {
  CHECK(*workspace_bytes(spec_r4(), 0) == 0);
  CHECK(*workspace_bytes(spec_r4(), 1) == 4 * 256 * 4);
  std::uint64_t before = 0;
  for (std::int64_t r = 0; r < 10000; r += 7) {
    const std::uint64_t bytes = *workspace_bytes(spec_r4(), r);
    CHECK(bytes >= before);
    before = bytes;
  }
  for (const std::uint32_t d : {128U, 512U}) {
    CHECK(*workspace_bytes({4, d, 2, DType::bf16, DType::bf16, DType::bf16, true}, 1 << 30) <= 32 << 20);
    CHECK(*workspace_bytes({128, d, 1, DType::bf16, DType::bf16, DType::bf16, true}, 1 << 30) <= 32 << 20);
  }
  CHECK(*workspace_bytes({256, 65536, 2, DType::bf16, DType::bf16, DType::bf16, true}, 1 << 30) == 4ULL * 256 * 131072);
  Spec no_ape = spec_r4();
  no_ape.ape = false;
  CHECK(*workspace_bytes(no_ape, 1000) == 0);
  CHECK_FALSE(workspace_bytes(spec_r4(), -1).ok());
}

TEST_CASE("the partition never needs more partials than the workspace holds, for any smaller row count") {
  for (const auto& [base, cap] : {std::pair{4, 384}, std::pair{1, 64}, std::pair{4, 1}, std::pair{1, 1}}) {
    for (std::int64_t most = 0; most < 3000; most += 11) {
      const std::int64_t held = max_partials(most, base, cap);
      for (std::int64_t n = 0; n <= most; n += 3) {
        const Partition partition = partition_rows(n, base, cap);
        REQUIRE(partition.num_partials <= held);
        REQUIRE(partition.num_partials * partition.rows_per_partial >= n);
        REQUIRE(partition.rows_per_partial % base == 0);
      }
    }
  }
}
