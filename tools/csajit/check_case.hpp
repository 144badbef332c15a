// One case of `csajit check`: shapes, segment tables and memory layout as plain data. Runs nothing.
#pragma once

#include <csajit/csajit.h>

#include <cstdint>
#include <string>
#include <vector>

namespace csajit::tool {

enum class Plant : std::uint8_t {
  none,
  non_finite,  // NaN and infinities at every position of a window
  largest,     // kv as large as its type holds
  tiny,        // one score of a window so far below the others that its weight is a denormal
  ape,         // NaN and infinities in the APE
};

struct CheckCase {
  std::string name;  // says what is special, for people and --filter

  // What the kernels are specialised for.
  std::int64_t ratio = 4;
  std::int64_t head_dim = 128;
  std::int64_t coff = 2;
  csajit_dtype kv_dtype = CSAJIT_DTYPE_BF16;
  csajit_dtype score_dtype = CSAJIT_DTYPE_BF16;
  csajit_dtype out_dtype = CSAJIT_DTYPE_BF16;
  bool ape = true;

  // The pack.
  std::vector<std::int32_t> cu{0};    // num_segments + 1
  std::vector<std::int32_t> comp{0};  // likewise
  std::int64_t num_tokens = 0;
  std::int64_t num_rows = 0;
  std::int64_t tokens_per_segment = 0;  // S of a batched layout; 0: packed

  // Where it lies in memory, in elements.
  std::int64_t row_gap = 0;      // between the rows of kv; the other tensors get other gaps from it
  std::int64_t segment_gap = 0;  // batched: between the segments
  std::int64_t shift = 0;        // from a 256-byte boundary to the first element
  bool interleaved = false;      // kv and score (and their gradients) are the halves of one buffer's rows

  // What the inputs hold.
  double score_sigma = 1.5;  // of the scores' normal distribution
  Plant plant = Plant::none;

  // What is asked of the backward.
  bool grad_kv = true;
  bool grad_score = true;
  bool grad_ape = true;  // without effect where there is no APE
  bool accumulate = false;

  bool garbage = false;  // the segment tables make no sense: only memory safety is checked
  bool quick = false;    // part of --quick
  std::uint64_t seed = 1;

  std::int64_t num_segments() const { return static_cast<std::int64_t>(cu.size()) - 1; }
  std::int64_t columns() const { return coff * head_dim; }
  std::int64_t window() const { return coff * ratio; }
  // PyTorch-order windows have the narrower bound of the contract.
  bool is_short() const { return window() <= 16 && head_dim > 1; }
  bool wants_grad_ape() const { return ape && grad_ape; }
};

csajit_spec spec_of(const CheckCase& check);
std::string describe_spec(const CheckCase& check);  // "r4 d128 c2 bf16"

// The list, in the order it runs.
std::vector<CheckCase> check_cases();

}  // namespace csajit::tool
