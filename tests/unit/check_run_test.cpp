// `csajit check` must notice what it claims to: a host imitation of the operator passes, and each defect planted in
// it is found.
#include "check_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "check_number.hpp"

namespace csajit::tool {
namespace {

enum class Defect {
  none,
  truncates,             // rounds towards zero
  forgets_tail,          // does not write tail tokens
  writes_minus_zero,     // -0 where nobody consumes
  crosses_segments,      // a first block takes the tokens before its segment
  adds_capacity_rows,    // capacity rows take part in the backward
  writes_past_the_end,   // one element beyond out
  writes_into_a_gap,     // between two rows of grad_kv
  writes_an_input,       // kv
  depends_on_leftovers,  // grad_ape starts from the workspace
  forgets_a_row_of_ape,  // the last row does not reach grad_ape
  ignores_accumulate,
  takes_kv_stride_for_score,
};

// Host memory; the operator in fp32, a row at a time, straight from its definition.
class HostDevice final : public CheckDevice {
 public:
  explicit HostDevice(Defect defect) : defect_(defect) {}

  Result<std::uint64_t> allocate(std::size_t bytes) override {
    void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    REQUIRE(memory != nullptr);
    return reinterpret_cast<std::uint64_t>(memory);
  }
  void release(std::uint64_t address) override { std::free(reinterpret_cast<void*>(address)); }
  Result<void> upload(std::uint64_t address, const std::vector<std::byte>& bytes) override {
    std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
    return {};
  }
  Result<void> download(std::uint64_t address, std::vector<std::byte>& bytes) override {
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(address), bytes.size());
    return {};
  }
  Result<void> prepare(const csajit_spec& spec) override {
    if (spec.kv_dtype == CSAJIT_DTYPE_FP16) return Error{CSAJIT_E_UNSUPPORTED, "no fp16 here"};
    return {};
  }
  Result<std::uint64_t> workspace_bytes(const csajit_spec&, std::int64_t) override { return std::uint64_t{64}; }
  bool alive() override { return true; }

  Result<void> forward(const csajit_spec& spec, const csajit_forward_args& args) override {
    Call call{spec, args.num_tokens, args.num_segments, args.total_comp, args.cu_seqlens, args.cu_seqlens_comp};
    call.kv = args.kv;
    call.score = args.score;
    call.ape = args.ape;
    for (std::int64_t i = 0; i < call.rows; ++i) {
      for (std::int64_t j = 0; j < spec.head_dim; ++j) {
        const Column column = pool(call, i, j);
        put(spec.out_dtype, args.out, call, i, j, column.out);
      }
    }
    if (defect_ == Defect::writes_past_the_end) put(spec.out_dtype, args.out, call, call.rows, 0, 0);
    if (defect_ == Defect::writes_an_input) put(spec.kv_dtype, args.kv, call, 1, 1, 0);
    return {};
  }

  Result<void> backward(const csajit_spec& spec, const csajit_backward_args& args) override {
    Call call{spec, args.num_tokens, args.num_segments, args.total_comp, args.cu_seqlens, args.cu_seqlens_comp};
    call.kv = args.kv;
    call.score = args.score;
    call.ape = args.ape;
    const std::int64_t columns = spec.coff * spec.head_dim;
    std::vector<double> ape_sum(static_cast<std::size_t>(spec.ratio * columns));
    write_zeros(call, args, columns);
    for (std::int64_t i = 0; i < call.rows; ++i) {
      const bool capacity = i < call.comp[0] || i >= call.comp[call.segments];
      if (capacity && defect_ != Defect::adds_capacity_rows) continue;
      for (std::int64_t j = 0; j < spec.head_dim; ++j) backward_column(call, args, i, j, ape_sum);
    }
    if (args.grad_ape.data == nullptr) return {};
    const bool add = (args.flags & CSAJIT_ACCUMULATE_GRAD_APE) != 0 && defect_ != Defect::ignores_accumulate;
    for (std::int64_t k = 0; k < spec.ratio; ++k) {
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum = ape_sum[static_cast<std::size_t>(k * columns + c)];
        if (add) sum += get(CSAJIT_DTYPE_FP32, args.grad_ape, call, k, c, false);
        if (defect_ == Defect::depends_on_leftovers)
          sum *= 1 + 1e-9 * static_cast<const std::uint8_t*>(args.workspace)[0];
        put(CSAJIT_DTYPE_FP32, args.grad_ape, call, k, c, sum, false);
      }
    }
    return {};
  }

 private:
  struct Call {
    csajit_spec spec;
    std::int64_t tokens;
    std::int64_t segments;
    std::int64_t rows;
    const std::int32_t* cu;
    const std::int32_t* comp;
    csajit_tensor kv{};
    csajit_tensor score{};
    csajit_tensor ape{};
  };
  struct Entry {
    std::int64_t token = -1;
    std::int64_t column = 0;
    std::int64_t ape_row = 0;
    float kv = 0;
    float p = 0;
  };
  struct Column {
    std::vector<Entry> entries;
    float out = 0;
  };

  static std::byte* element(std::uint32_t type, const csajit_tensor& tensor, const Call& call, std::int64_t row,
                            std::int64_t column, bool token_tensor, std::int64_t default_columns) {
    const std::int64_t stride = tensor.row_stride == 0 ? default_columns : tensor.row_stride;
    std::int64_t at = row * stride + column;
    if (token_tensor && tensor.segment_stride != 0) {
      const std::int64_t s = call.tokens / call.segments;
      at = row / s * tensor.segment_stride + row % s * stride + column;
    }
    return static_cast<std::byte*>(tensor.data) +
           at * static_cast<std::int64_t>(element_bytes(static_cast<csajit_dtype>(type)));
  }
  static std::int64_t width(const Call& call) { return call.spec.coff * call.spec.head_dim; }

  static double get(std::uint32_t type, const csajit_tensor& tensor, const Call& call, std::int64_t row,
                    std::int64_t column, bool token_tensor) {
    return decode_element(static_cast<csajit_dtype>(type),
                          element(type, tensor, call, row, column, token_tensor, width(call)));
  }
  void put(std::uint32_t type, const csajit_tensor& tensor, const Call& call, std::int64_t row, std::int64_t column,
           double value, bool is_out = true) const {
    std::byte* const bits = element(type, tensor, call, row, column, false,
                                    is_out ? static_cast<std::int64_t>(call.spec.head_dim) : width(call));
    write(type, bits, value);
  }
  void put_token(std::uint32_t type, const csajit_tensor& tensor, const Call& call, std::int64_t row,
                 std::int64_t column, double value) const {
    if (tensor.data != nullptr) write(type, element(type, tensor, call, row, column, true, width(call)), value);
  }
  void write(std::uint32_t type, std::byte* bits, double value) const {
    if (defect_ == Defect::truncates && type == CSAJIT_DTYPE_BF16 && value != 0) {
      const double spacing = ulp(CSAJIT_DTYPE_BF16, value);
      value = std::trunc(value / spacing) * spacing;
    }
    encode_elements(static_cast<csajit_dtype>(type), &value, 1, bits);
  }

  Column pool(const Call& call, std::int64_t i, std::int64_t j) const {
    const std::int64_t r = call.spec.ratio;
    std::int64_t first = 0;
    bool overlap = false;
    for (std::int64_t s = 0; s < call.segments; ++s) {
      if (i < call.comp[s] || i >= call.comp[s + 1]) continue;
      const std::int64_t n = i - call.comp[s];
      first = (call.kv.segment_stride != 0 ? s * (call.tokens / call.segments) : call.cu[s]) + n * r;
      overlap = n > 0 || (defect_ == Defect::crosses_segments && first >= r);
    }
    Column column;
    column.entries.resize(static_cast<std::size_t>(call.spec.coff * r));
    std::vector<float> x(column.entries.size(), -INFINITY);
    float maximum = -INFINITY;
    for (std::int64_t k = 0; k < call.spec.coff * r; ++k) {
      Entry& entry = column.entries[static_cast<std::size_t>(k)];
      const bool own = call.spec.coff == 1 || k >= r;
      if (!own && !overlap) continue;
      entry.token = first + (call.spec.coff == 1 ? k : k - r);
      if (entry.token < 0 || entry.token >= call.tokens) {
        entry.token = -1;
        continue;
      }
      entry.column = (own && call.spec.coff == 2 ? call.spec.head_dim : 0) + j;
      entry.ape_row = k % r;
      entry.kv = static_cast<float>(get(call.spec.kv_dtype, call.kv, call, entry.token, entry.column, true));
      csajit_tensor score = call.score;
      if (defect_ == Defect::takes_kv_stride_for_score) score.row_stride = call.kv.row_stride;
      float value = static_cast<float>(get(call.spec.score_dtype, score, call, entry.token, entry.column, true));
      if (call.ape.data != nullptr) {
        value += static_cast<float>(get(CSAJIT_DTYPE_FP32, call.ape, call, entry.ape_row, entry.column, false));
      }
      x[static_cast<std::size_t>(k)] = value;
      maximum = std::max(maximum, value);
    }
    float denominator = 0;
    for (std::size_t k = 0; k < x.size(); ++k) denominator += column.entries[k].p = std::exp(x[k] - maximum);
    for (Entry& entry : column.entries) {
      entry.p /= denominator;
      column.out += entry.kv * entry.p;
    }
    return column;
  }

  void write_zeros(const Call& call, const csajit_backward_args& args, std::int64_t columns) const {
    for (std::int64_t t = 0; t < call.tokens; ++t) {
      if (defect_ == Defect::forgets_tail && t == call.tokens - 1) continue;
      for (std::int64_t c = 0; c < columns; ++c) {
        const double zero = defect_ == Defect::writes_minus_zero ? -0.0 : 0.0;
        put_token(call.spec.kv_dtype, args.grad_kv, call, t, c, zero);
        put_token(call.spec.score_dtype, args.grad_score, call, t, c, zero);
      }
    }
    if (defect_ == Defect::writes_into_a_gap) put_token(call.spec.kv_dtype, args.grad_kv, call, 0, columns, 0);
  }

  void backward_column(const Call& call, const csajit_backward_args& args, std::int64_t i, std::int64_t j,
                       std::vector<double>& ape_sum) const {
    const Column column = pool(call, i, j);
    const std::byte* const g_bits =
        element(call.spec.out_dtype, args.grad_out, call, i, j, false, static_cast<std::int64_t>(call.spec.head_dim));
    const auto g = static_cast<float>(decode_element(static_cast<csajit_dtype>(call.spec.out_dtype), g_bits));
    float sum = 0;
    for (const Entry& entry : column.entries) sum += g * entry.kv * entry.p;
    for (const Entry& entry : column.entries) {
      if (entry.token < 0) continue;
      const float ds = entry.p * (g * entry.kv - sum);
      put_token(call.spec.kv_dtype, args.grad_kv, call, entry.token, entry.column, g * entry.p);
      put_token(call.spec.score_dtype, args.grad_score, call, entry.token, entry.column, ds);
      if (defect_ == Defect::forgets_a_row_of_ape && i == call.comp[call.segments] - 1) continue;
      ape_sum[static_cast<std::size_t>(entry.ape_row * width(call) + entry.column)] += static_cast<double>(ds);
    }
  }

  Defect defect_;
};

CheckCase small_case() {
  CheckCase check;
  check.name = "small";
  check.ratio = 4;
  check.head_dim = 6;
  check.coff = 2;
  check.cu = {0, 9, 9, 33, 36};
  check.comp = {0, 2, 2, 8, 8};
  check.num_tokens = 41;
  check.num_rows = 10;
  check.row_gap = 3;
  return check;
}

CaseOutcome run(Defect defect, const CheckCase& check) {
  HostDevice device(defect);
  return run_case(device, check, 2);
}

void finds(Defect defect, const CheckCase& check, const std::string& word) {
  const CaseOutcome outcome = run(defect, check);
  INFO(outcome.message);
  CHECK(outcome.verdict == Verdict::fail);
  CHECK(outcome.message.find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("check passes an operator that follows the definition") {
  const CaseOutcome outcome = run(Defect::none, small_case());
  CHECK_MESSAGE(outcome.verdict == Verdict::pass, outcome.message);
  for (const double worst : outcome.worst) {
    CHECK(worst > 0);  // something was compared
    CHECK(worst <= 1);
  }
}

TEST_CASE("check finds a rounding that is not to nearest") { finds(Defect::truncates, small_case(), "misses"); }

TEST_CASE("check finds elements that were not written") {
  finds(Defect::forgets_tail, small_case(), "belongs to no row");
}

TEST_CASE("check finds a minus zero where nobody consumes") {
  finds(Defect::writes_minus_zero, small_case(), "not all +0");
}

TEST_CASE("check finds a first block that reaches into the segment before") {
  finds(Defect::crosses_segments, small_case(), "misses");
}

TEST_CASE("check finds capacity rows in the backward") { finds(Defect::adds_capacity_rows, small_case(), "misses"); }

TEST_CASE("check finds a write past the end") { finds(Defect::writes_past_the_end, small_case(), "out: byte"); }

TEST_CASE("check finds a write between two rows") { finds(Defect::writes_into_a_gap, small_case(), "grad_kv: byte"); }

TEST_CASE("check finds a write into an input") { finds(Defect::writes_an_input, small_case(), "kv: byte"); }

TEST_CASE("check finds results that depend on what the workspace held") {
  CheckCase check = small_case();  // the long-window bound is far wider than the defect, so only the second run tells
  check.ratio = 20;
  check.coff = 1;
  check.cu = {0, 41};
  check.comp = {0, 2};
  check.num_rows = 2;
  CHECK(run(Defect::none, check).verdict == Verdict::pass);
  finds(Defect::depends_on_leftovers, check, "other bits");
}

TEST_CASE("check finds a row that is missing from grad_ape") {
  finds(Defect::forgets_a_row_of_ape, small_case(), "grad_ape");
}

TEST_CASE("check finds a gradient that replaces what it should add to") {
  CheckCase check = small_case();
  check.accumulate = true;
  CHECK(run(Defect::none, check).verdict == Verdict::pass);
  finds(Defect::ignores_accumulate, check, "grad_ape");
}

TEST_CASE("check finds a score that is read by kv's stride") {
  finds(Defect::takes_kv_stride_for_score, small_case(), "misses");
}

TEST_CASE("check passes a batched layout, halves of one buffer and missing gradients") {
  CheckCase check = small_case();
  check.tokens_per_segment = 24;
  check.num_tokens = 4 * 24;
  check.segment_gap = 5;
  check.shift = 1;
  CHECK(run(Defect::none, check).verdict == Verdict::pass);
  check.interleaved = true;
  CHECK(run(Defect::none, check).verdict == Verdict::pass);
  check.grad_kv = false;
  check.grad_ape = false;
  const CaseOutcome outcome = run(Defect::none, check);
  CHECK(outcome.verdict == Verdict::pass);
  CHECK(outcome.worst[static_cast<std::size_t>(Output::grad_kv)] < 0);
  CHECK(outcome.worst[static_cast<std::size_t>(Output::grad_score)] > 0);
}

TEST_CASE("check passes mixed types and calls an unsupported one skipped") {
  CheckCase check = small_case();
  check.kv_dtype = CSAJIT_DTYPE_FP32;
  check.score_dtype = CSAJIT_DTYPE_FP16;
  CHECK(run(Defect::none, check).verdict == Verdict::pass);
  check.kv_dtype = CSAJIT_DTYPE_FP16;
  CHECK(run(Defect::none, check).verdict == Verdict::skipped);
}

TEST_CASE("check cases have sensible tables and distinct names") {
  std::vector<std::string> names;
  for (const CheckCase& check : check_cases()) {
    CAPTURE(check.name);
    names.push_back(describe_spec(check) + ": " + check.name);
    CHECK(check.cu.size() == check.comp.size());
    CHECK((check.num_rows == 0 || check.num_tokens >= check.ratio));
    if (check.interleaved) CHECK(check.kv_dtype == check.score_dtype);
    if (check.tokens_per_segment > 0) CHECK(check.num_tokens == check.num_segments() * check.tokens_per_segment);
    if (check.garbage) continue;
    for (std::size_t s = 0; s + 1 < check.cu.size(); ++s) {
      CHECK(check.comp[s + 1] - check.comp[s] == (check.cu[s + 1] - check.cu[s]) / check.ratio);
    }
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  CHECK_MESSAGE(twice == names.end(), (twice == names.end() ? std::string() : *twice));
}

}  // namespace csajit::tool
