// Which tokens each row pools, and which slots nobody pools.
#include "check_window.hpp"

namespace csajit::tool {

Windows::Windows(const CheckCase& check)
    : ratio_(check.ratio),
      head_dim_(check.head_dim),
      coff_(check.coff),
      rows_(static_cast<std::size_t>(check.num_rows)),
      flags_(static_cast<std::size_t>(check.num_tokens * check.coff)) {
  for (RowWindow& row : rows_) row.capacity = true;  // a first block at token 0, unless a segment claims it below
  for (std::int64_t s = 0; s < check.num_segments(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t begin = check.tokens_per_segment > 0 ? s * check.tokens_per_segment : check.cu[at];
    for (std::int64_t i = check.comp[at]; i < check.comp[at + 1] && i < check.num_rows; ++i) {
      const std::int64_t block = i - check.comp[at];
      RowWindow& row = rows_[static_cast<std::size_t>(i)];
      row.capacity = false;
      row.segment = s;
      row.first = begin + block * ratio_;
      row.previous = coff_ == 2 && block > 0 ? row.first - ratio_ : no_token;
    }
  }
  for (std::int64_t i = 0; i < num_rows(); ++i) {
    for (std::int64_t k = 0; k < coff_ * ratio_; ++k) {
      const std::int64_t t = token(i, k);
      if (t == no_token) continue;
      const std::int64_t half = column(k) == 0 ? 0 : 1;
      flags_.at(static_cast<std::size_t>(t * coff_ + half)) |= row(i).capacity ? read_flag : consumed_flag;
    }
  }
}

std::int64_t Windows::token(std::int64_t i, std::int64_t k) const {
  const RowWindow& window = row(i);
  if (coff_ == 2 && k < ratio_) return window.previous == no_token ? no_token : window.previous + k;
  return window.first + k % ratio_;
}

}  // namespace csajit::tool
