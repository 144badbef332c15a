// Which tokens each row pools, and which slots nobody pools: the contract's index rules, written plainly. Takes
// sensible segment tables only.
#pragma once

#include <cstdint>
#include <vector>

#include "check_case.hpp"

namespace csajit::tool {

// Tokens are numbered through the tensor: in a batched layout token t of segment s is s * S + t.
inline constexpr std::int64_t no_token = -1;

struct RowWindow {
  bool capacity = false;             // outside [comp[0], comp[B]): forward only
  std::int64_t segment = 0;          // of a true row
  std::int64_t first = 0;            // token of entry 0 of the own window
  std::int64_t previous = no_token;  // token of entry 0 of the overlap (coff 2, not in a first block)
};

class Windows {
 public:
  explicit Windows(const CheckCase& check);

  std::int64_t num_rows() const { return static_cast<std::int64_t>(rows_.size()); }
  const RowWindow& row(std::int64_t i) const { return rows_[static_cast<std::size_t>(i)]; }

  // Entry k of row i, k in [0, coff * ratio): its token, or no_token.
  std::int64_t token(std::int64_t i, std::int64_t k) const;
  // First column of entry k, and its row of the APE.
  std::int64_t column(std::int64_t k) const { return coff_ == 2 && k >= ratio_ ? head_dim_ : 0; }
  std::int64_t ape_row(std::int64_t k) const { return k % ratio_; }

  // Half h in [0, coff) of a token's columns: pooled by a true row that was asked for, so it has a gradient ...
  bool consumed(std::int64_t token, std::int64_t half) const { return (flags(token, half) & consumed_flag) != 0; }
  // ... or read at all (capacity rows read without a gradient).
  bool read(std::int64_t token, std::int64_t half) const { return flags(token, half) != 0; }

 private:
  static constexpr std::uint8_t consumed_flag = 1;
  static constexpr std::uint8_t read_flag = 2;
  std::uint8_t flags(std::int64_t token, std::int64_t half) const {
    return flags_[static_cast<std::size_t>(token * coff_ + half)];
  }

  std::int64_t ratio_;
  std::int64_t head_dim_;
  std::int64_t coff_;
  std::vector<RowWindow> rows_;
  std::vector<std::uint8_t> flags_;  // (token, half)
};

}  // namespace csajit::tool
