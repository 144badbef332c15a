// The cases that `csajit check` runs: packs, ratios, widths, layouts, paddings, tables without sense.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <numeric>
#include <utility>

#include "check_case.hpp"
#include "check_number.hpp"

namespace csajit::tool {
namespace {

using Lengths = std::vector<std::int64_t>;

const Lengths one_long{2048};
const Lengths three{1023, 2048, 509};
const Lengths first_short{3, 515, 1024, 129};
const Lengths one_empty{64, 0, 253, 3};
const Lengths no_row{5, 6, 7};
const Lengths mixed_long{127, 8192, 0, 129, 128, 3, 515, 1024};
const Lengths small{37, 0, 5, 64, 1, 90};

struct Shape {
  std::int64_t ratio;
  std::int64_t head_dim;
  std::int64_t coff;
};

CheckCase packed(std::string name, Shape shape, const Lengths& lengths) {
  CheckCase check;
  check.name = std::move(name);
  check.ratio = shape.ratio;
  check.head_dim = shape.head_dim;
  check.coff = shape.coff;
  for (const std::int64_t length : lengths) {
    check.cu.push_back(check.cu.back() + static_cast<std::int32_t>(length));
    check.comp.push_back(check.comp.back() + static_cast<std::int32_t>(length / shape.ratio));
  }
  check.num_tokens = check.cu.back();
  check.num_rows = check.comp.back();
  return check;
}

class List {
 public:
  CheckCase& add(CheckCase check) {
    check.seed = cases_.size() + 1;
    cases_.push_back(std::move(check));
    return cases_.back();
  }
  CheckCase& add(std::string name, Shape shape, const Lengths& lengths) {
    return add(packed(std::move(name), shape, lengths));
  }
  std::vector<CheckCase> take() { return std::move(cases_); }

 private:
  std::vector<CheckCase> cases_;
};

constexpr Shape attention{4, 512, 2};
constexpr Shape indexer{4, 128, 2};
constexpr Shape heavy{128, 512, 1};
constexpr Shape heavy_indexer{128, 128, 1};

void add_packs(List& list) {
  for (const Shape shape : {indexer, attention, heavy, heavy_indexer}) {
    list.add("lens [2048]", shape, one_long).quick = true;
    list.add("lens [1023,2048,509]", shape, three);
    list.add("lens [3,515,1024,129]", shape, first_short).quick = true;
    list.add("lens [64,0,253,3]", shape, one_empty).quick = true;
  }
  list.add("lens [5,6,7], no row", heavy, no_row).quick = true;
  list.add("lens [127,8192,0,129,128,3,515,1024]", heavy, mixed_long);
  list.add("lens [127,8192,0,129,128,3,515,1024]", {128, 128, 2}, mixed_long);
}

void add_shapes(List& list) {
  for (const std::int64_t head_dim : {1, 65, 96, 192}) {
    list.add("width", {4, head_dim, 2}, first_short).quick = head_dim == 65;
    list.add("width", {128, head_dim, 1}, first_short);
    list.add("width", {16, head_dim, 2}, first_short);
  }
  for (const std::int64_t ratio : {1, 2, 3, 8, 16, 17, 32, 127, 256}) {
    for (const std::int64_t coff : {1, 2}) {
      list.add("ratio", {ratio, 128, coff}, {515, 0, 1024, 129}).quick = ratio == 17;
    }
  }
  list.add("ratio, coff 1", {4, 128, 1}, first_short);
  list.add("ratio 256, widest window", {256, 512, 2}, three);
  list.add("odd ratio and width", {127, 65, 2}, first_short);
  list.add("odd ratio and width", {3, 65, 2}, first_short);
  for (const Shape shape : {Shape{2, 128, 2}, Shape{1, 128, 2}, Shape{1, 512, 1}, indexer, heavy}) {
    CheckCase& check = list.add("no APE", shape, first_short);
    check.ape = false;
    check.quick = shape.ratio == 2;
  }
}

void add_layouts(List& list) {
  for (const Shape shape : {indexer, heavy_indexer}) {
    CheckCase& aligned = list.add("rows 8 apart", shape, first_short);
    aligned.row_gap = 8;
    CheckCase& odd = list.add("rows 3 apart", shape, first_short);
    odd.row_gap = 3;
    odd.quick = true;
    CheckCase& halves = list.add("kv and score in one buffer", shape, first_short);
    halves.interleaved = true;
    halves.quick = true;
    CheckCase& odd_halves = list.add("kv and score in one buffer, rows 5 apart", shape, first_short);
    odd_halves.interleaved = true;
    odd_halves.row_gap = 5;
    for (const std::int64_t shift : {1, 2, 3, 4, 5, 6, 7}) {
      list.add(fmt::format("first element {} off", shift), shape, {37, 300, 5}).shift = shift;
    }
  }
  for (const Shape shape : {indexer, Shape{2, 65, 2}, heavy_indexer, Shape{32, 128, 2}}) {
    CheckCase check = packed("batched", shape, {300, 5, 0, 299, 128});
    check.tokens_per_segment = 300;
    check.num_tokens = 5 * 300;
    list.add(check).quick = shape.ratio == 4;
    check.name = "batched, gaps";
    check.row_gap = 8;
    check.segment_gap = 40;
    list.add(check);
    check.name = "batched, odd gaps, capacity rows";
    check.row_gap = 3;
    check.segment_gap = 7;
    check.num_rows += 5;
    list.add(check);
    check.name = "batched, kv and score in one buffer";
    check.interleaved = true;
    list.add(check);
  }
}

void add_capacities(List& list) {
  for (const Shape shape : {indexer, heavy_indexer, attention}) {
    list.add("5 rows more", shape, first_short).num_rows += 5;
    list.add("8 rows more", shape, first_short).num_rows += 8;
    list.add("3 rows less", shape, first_short).num_rows -= 3;
    list.add("1 row of many", shape, three).num_rows = 1;
    for (const int percent : {21, 37, 90}) {
      CheckCase& check = list.add(fmt::format("{} % of the tokens are padding", percent), shape, first_short);
      check.num_tokens = check.cu.back() * 100 / (100 - percent);
      check.num_rows += percent == 37 ? 8 : 0;
      check.quick = percent == 37 && shape.head_dim == 128;
    }
    CheckCase& offset = list.add("cu[0] = 5, comp[0] = 3", shape, first_short);
    for (std::int32_t& value : offset.cu) value += 5;
    for (std::int32_t& value : offset.comp) value += 3;
    offset.num_tokens += 5 + 11;
    offset.num_rows = offset.comp.back() + 2;
    offset.quick = true;
    list.add("R = 0", shape, first_short).num_rows = 0;
    list.add("T = 0", shape, {}).quick = true;
    list.add("T = 0, empty segments", shape, {0, 0, 0});
    CheckCase& tokens_only = list.add("B = 0, tokens only", shape, {});
    tokens_only.num_tokens = 300;
    CheckCase& capacity_only = list.add("B = 0, capacity rows only", shape, {});
    capacity_only.num_tokens = 300;
    capacity_only.num_rows = 7;
  }
  list.add("every segment shorter than r, R > 0", heavy_indexer, {100, 100, 56}).num_rows = 5;
  list.add("every segment shorter than r, R > 0", indexer, {3, 3, 2, 1, 3}).num_rows = 9;
}

void add_garbage(List& list) {
  auto bad = [&](std::string name, Shape shape, std::vector<std::int32_t> cu, std::vector<std::int32_t> comp) {
    CheckCase& check = list.add("bad tables: " + std::move(name), shape, {});
    check.cu = std::move(cu);
    check.comp = std::move(comp);
    check.num_tokens = 700;
    check.num_rows = 700 / shape.ratio + 4;
    check.garbage = true;
    check.quick = shape.ratio == 4;
  };
  for (const Shape shape : {indexer, heavy_indexer, Shape{32, 65, 2}, Shape{1, 128, 2}}) {
    const auto r = static_cast<std::int32_t>(shape.ratio);
    bad("cu[B] > T", shape, {0, 300, 5000}, {0, 300 / r, 300 / r + 4700 / r});
    bad("cu decreases", shape, {0, 600, 200, 700}, {0, 600 / r, 600 / r, 600 / r + 500 / r});
    bad("comp decreases", shape, {0, 300, 500, 700}, {0, 700 / r, 2, 700 / r});
    bad("comp without cu", shape, {0, 0, 0, 0}, {0, 50, 100, 150});
    bad("negative", shape, {-700, -300, -1, INT_MIN}, {-50, -3, INT_MIN, -1});
    bad("huge", shape, {INT_MAX, INT_MAX, INT_MAX, INT_MAX}, {INT_MAX, 0, INT_MAX, INT_MAX});
    bad("full range", shape, {INT_MIN, INT_MAX, INT_MIN, INT_MAX}, {INT_MIN, INT_MAX, INT_MIN, INT_MAX});
    bad("starts huge, rows valid", shape, {INT_MAX - 3, INT_MAX - 2, INT_MAX - 1, INT_MAX}, {0, 3, 6, 9});
    bad("starts just below T", shape, {699, 699, 699, 1400}, {0, 1, 2, 700});
    bad("noise", shape, {17, -4, 1 << 20, 699, 3, 3, 700, -1}, {5, 1, 1 << 30, 2, -7, 40, 3, 90});
  }
  // A batched layout whose lengths pass S: the neighbour's tokens are as forbidden as the end of the tensor.
  CheckCase& check = list.add("bad tables: batched, lengths beyond S", indexer, {900, 10, 2000});
  check.tokens_per_segment = 250;
  check.num_tokens = 750;
  check.garbage = true;
}

void add_requests(List& list) {
  for (const Shape shape : {indexer, heavy_indexer}) {
    for (int wanted = 0; wanted < 7; ++wanted) {
      CheckCase check = packed("", shape, small);
      check.grad_kv = (wanted & 1) != 0;
      check.grad_score = (wanted & 2) != 0;
      check.grad_ape = (wanted & 4) != 0;
      check.name =
          fmt::format("wanted:{}{}{}{}", check.grad_kv ? " grad_kv" : "", check.grad_score ? " grad_score" : "",
                      check.grad_ape ? " grad_ape" : "", wanted == 0 ? " nothing" : "");
      list.add(std::move(check));
    }
    CheckCase& accumulate = list.add("grad_ape accumulates", shape, first_short);
    accumulate.accumulate = true;
    accumulate.quick = true;
    CheckCase& nothing_to_add = list.add("grad_ape accumulates, R = 0", shape, small);
    nothing_to_add.accumulate = true;
    nothing_to_add.num_rows = 0;
  }
}

void add_dtypes(List& list) {
  constexpr csajit_dtype bf16 = CSAJIT_DTYPE_BF16;
  constexpr csajit_dtype fp16 = CSAJIT_DTYPE_FP16;
  constexpr csajit_dtype fp32 = CSAJIT_DTYPE_FP32;
  struct Types {
    csajit_dtype kv;
    csajit_dtype score;
    csajit_dtype out;
  };
  for (const Types types : {Types{fp16, fp16, fp16}, Types{fp32, fp32, fp32}, Types{bf16, fp32, fp32},
                            Types{fp16, bf16, bf16}, Types{fp32, fp16, bf16}}) {
    for (const Shape shape : {indexer, heavy_indexer, Shape{4, 65, 2}}) {
      CheckCase& check = list.add("dtype", shape, first_short);
      check.kv_dtype = types.kv;
      check.score_dtype = types.score;
      check.out_dtype = types.out;
      check.num_rows += 3;
    }
  }
}

void add_many_segments(List& list) {
  Lengths lengths(20000);
  std::uint32_t state = 12345;
  for (std::int64_t& length : lengths) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator: the pack is the same everywhere
    length = 1 + (state >> 8) % 40;
  }
  list.add("20000 segments of 1 to 40 tokens", indexer, lengths);
}

}  // namespace

std::vector<CheckCase> check_cases() {
  List list;
  add_packs(list);
  add_shapes(list);
  add_layouts(list);
  add_capacities(list);
  add_requests(list);
  add_dtypes(list);
  add_many_segments(list);
  add_garbage(list);  // last: a kernel that fails here takes the context with it
  return list.take();
}

csajit_spec spec_of(const CheckCase& check) {
  csajit_spec spec{};
  spec.struct_size = sizeof spec;
  spec.ratio = static_cast<std::uint32_t>(check.ratio);
  spec.head_dim = static_cast<std::uint32_t>(check.head_dim);
  spec.coff = static_cast<std::uint32_t>(check.coff);
  spec.kv_dtype = check.kv_dtype;
  spec.score_dtype = check.score_dtype;
  spec.out_dtype = check.out_dtype;
  spec.ape = check.ape ? CSAJIT_APE_PRESENT : CSAJIT_APE_ABSENT;
  return spec;
}

std::string describe_spec(const CheckCase& check) {
  std::string types = dtype_name(check.kv_dtype);
  if (check.score_dtype != check.kv_dtype || check.out_dtype != check.kv_dtype) {
    types += fmt::format(":{}:{}", dtype_name(check.score_dtype), dtype_name(check.out_dtype));
  }
  return fmt::format("r{} d{} c{} {}{}", check.ratio, check.head_dim, check.coff, types, check.ape ? "" : " no APE");
}

}  // namespace csajit::tool
