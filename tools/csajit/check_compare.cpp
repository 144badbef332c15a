// Holds the outputs of one case against the oracle, element by element.
#include "check_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "check_number.hpp"
#include "check_oracle.hpp"
#include "parallel.hpp"

namespace csajit::tool {
namespace {

// What one thread works with; results are merged at the end, so that nothing is shared meanwhile.
struct Worker {
  std::vector<double> kv, x, ape, grad_out, y;
  WindowResult window;
  std::vector<double> grad_ape, grad_ape_terms;  // (ratio, W)
  CompareResult result;
  double worst_miss = 0;
};

class Comparison {
 public:
  Comparison(const CheckCase& check, const Windows& windows, const CompareInput& input, unsigned threads)
      : check_(check), windows_(windows), input_(input), threads_(threads), workers_(std::max(threads, 1U)) {}

  CompareResult run() {
    parallel_for(check_.num_rows, 8, threads_, [&](unsigned worker, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) compare_row(workers_[worker], i);
    });
    const std::int64_t tokens = input_.grad_kv || input_.grad_score ? check_.num_tokens : 0;
    parallel_for(tokens, 64, threads_, [&](unsigned worker, std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) compare_unconsumed(workers_[worker], t);
    });
    if (input_.grad_ape) compare_grad_ape(workers_.front());
    return merged();
  }

 private:
  void compare_row(Worker& w, std::int64_t i) {
    const std::int64_t d = check_.head_dim;
    const std::int64_t window = check_.window();
    const RowWindow& row = windows_.row(i);
    w.kv.assign(static_cast<std::size_t>(window * d), 0.0);
    w.x.assign(static_cast<std::size_t>(window * d), -std::numeric_limits<double>::infinity());
    w.ape.resize(static_cast<std::size_t>(d));
    for (std::int64_t k = 0; k < window; ++k) {
      const std::int64_t token = windows_.token(i, k);
      if (token == no_token) continue;
      const std::int64_t column = windows_.column(k);
      double* x = w.x.data() + k * d;
      decode_elements(check_.kv_dtype, input_.kv.element(token, column), d, w.kv.data() + k * d);
      decode_elements(check_.score_dtype, input_.score.element(token, column), d, x);
      if (!input_.ape) continue;
      decode_elements(CSAJIT_DTYPE_FP32, input_.ape.element(windows_.ape_row(k), column), d, w.ape.data());
      for (std::int64_t j = 0; j < d; ++j) x[j] += w.ape[static_cast<std::size_t>(j)];
    }
    const bool backward = !row.capacity && (input_.grad_kv || input_.grad_score || input_.grad_ape);
    if (backward) {
      w.grad_out.resize(static_cast<std::size_t>(d));
      decode_elements(check_.out_dtype, input_.grad_out.row(i), d, w.grad_out.data());
    }
    evaluate_window(window, d, w.kv.data(), w.x.data(), backward ? w.grad_out.data() : nullptr, w.window);
    compare(w, Output::out, input_.out, i, 0, w.window.out.data(), w.window.out_terms.data());
    if (!backward) return;
    for (std::int64_t k = 0; k < window; ++k) {
      const std::int64_t token = windows_.token(i, k);
      if (token == no_token) continue;
      const std::int64_t column = windows_.column(k);
      compare(w, Output::grad_kv, input_.grad_kv, token, column, w.window.grad_kv.data() + k * d,
              w.window.grad_kv_terms.data() + k * d);
      compare(w, Output::grad_score, input_.grad_score, token, column, w.window.grad_score.data() + k * d,
              w.window.grad_score_terms.data() + k * d);
      if (input_.grad_ape) add_grad_ape(w, k, column);
    }
  }

  void add_grad_ape(Worker& w, std::int64_t k, std::int64_t column) {
    const auto area = static_cast<std::size_t>(check_.ratio * check_.columns());
    w.grad_ape.resize(area);
    w.grad_ape_terms.resize(area);
    const auto to = static_cast<std::size_t>(windows_.ape_row(k) * check_.columns() + column);
    const auto from = static_cast<std::size_t>(k * check_.head_dim);
    for (std::size_t j = 0; j < static_cast<std::size_t>(check_.head_dim); ++j) {
      w.grad_ape[to + j] += w.window.grad_score[from + j];
      w.grad_ape_terms[to + j] += w.window.grad_score_terms[from + j];
    }
  }

  // d adjacent elements from (row, column) on.
  void compare(Worker& w, Output output, const TensorBytes& tensor, std::int64_t row, std::int64_t column,
               const double* oracle, const double* terms) {
    if (!tensor) return;
    const std::int64_t d = check_.head_dim;
    w.y.resize(static_cast<std::size_t>(d));
    decode_elements(tensor.at.type, tensor.element(row, column), d, w.y.data());
    for (std::int64_t j = 0; j < d; ++j) {
      const double y = w.y[static_cast<std::size_t>(j)];
      double error = error_in_bounds(tensor.at.type, y, oracle[j], terms[j], check_.is_short());
      const bool unwritten =
          std::isnan(y) && is_unwritten(tensor.at.type, input_.unwritten_variant, tensor.element(row, column + j));
      if (unwritten) error = std::numeric_limits<double>::infinity();
      w.result.note(output, error);
      if (error > 1) {
        miss(w, error, [&] {
          return fmt::format("{}[{}, {}] is {}, not {:.9g} within {:.3g}", name_of(output), row, column + j,
                             unwritten ? "not written" : fmt::format("{:.9g}", y), oracle[j],
                             error_bound(tensor.at.type, oracle[j], terms[j], check_.is_short()));
        });
      }
    }
  }

  // Slots that no row consumes hold +0 to the bit.
  void compare_unconsumed(Worker& w, std::int64_t token) {
    for (std::int64_t half = 0; half < check_.coff; ++half) {
      if (windows_.consumed(token, half)) continue;
      for (const Output output : {Output::grad_kv, Output::grad_score}) {
        const TensorBytes& tensor = output == Output::grad_kv ? input_.grad_kv : input_.grad_score;
        if (!tensor) continue;
        const std::byte* bits = tensor.element(token, half * check_.head_dim);
        const auto bytes = static_cast<std::size_t>(check_.head_dim) * element_bytes(tensor.at.type);
        w.result.note(output, 0);
        if (std::all_of(bits, bits + bytes, [](std::byte b) { return b == std::byte{0}; })) continue;
        w.result.note(output, std::numeric_limits<double>::infinity());
        miss(w, std::numeric_limits<double>::infinity(), [&] {
          return fmt::format("{}[{}, {}:{}] belongs to no row and is not all +0", name_of(output), token,
                             half * check_.head_dim, (half + 1) * check_.head_dim);
        });
      }
    }
  }

  void compare_grad_ape(Worker& w) {
    const std::int64_t columns = check_.columns();
    const auto area = static_cast<std::size_t>(check_.ratio * columns);
    std::vector<double> sum(area);
    std::vector<double> terms(area);
    for (const Worker& other : workers_) {
      for (std::size_t e = 0; e < other.grad_ape.size(); ++e) {
        sum[e] += other.grad_ape[e];
        terms[e] += other.grad_ape_terms[e];
      }
    }
    for (std::int64_t row = 0; row < check_.ratio; ++row) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto e = static_cast<std::size_t>(row * columns + j);
        const double y = decode_element(CSAJIT_DTYPE_FP32, input_.grad_ape.element(row, j));
        double oracle = sum[e];
        bool exact = terms[e] == 0;  // nothing was summed: +0, or what was there before
        if (input_.initial_grad_ape) {
          const double before = decode_element(CSAJIT_DTYPE_FP32, input_.initial_grad_ape.element(row, j));
          oracle += before;
          terms[e] += std::abs(before);
        }
        double error = error_in_bounds(CSAJIT_DTYPE_FP32, y, oracle, terms[e], check_.is_short());
        if (exact && (y != oracle || std::signbit(y) != std::signbit(oracle))) {
          error = std::numeric_limits<double>::infinity();
        }
        w.result.note(Output::grad_ape, error);
        if (error > 1) {
          miss(w, error, [&] {
            return fmt::format("grad_ape[{}, {}] is {:.9g}, not {:.9g} within {:.3g}", row, j, y, oracle,
                               exact ? 0.0 : error_bound(CSAJIT_DTYPE_FP32, oracle, terms[e], check_.is_short()));
          });
        }
      }
    }
  }

  template <class Say>
  static void miss(Worker& w, double error, Say say) {
    ++w.result.misses;
    if (error > w.worst_miss) {
      w.worst_miss = error;
      w.result.message = say();
    }
  }

  CompareResult merged() {
    CompareResult all;
    all.worst = {input_.out ? 0.0 : -1.0, input_.grad_kv ? 0.0 : -1.0, input_.grad_score ? 0.0 : -1.0,
                 input_.grad_ape ? 0.0 : -1.0};
    double worst_miss = 0;
    for (const Worker& w : workers_) {
      all.misses += w.result.misses;
      for (std::size_t o = 0; o < num_outputs; ++o) all.worst[o] = std::max(all.worst[o], w.result.worst[o]);
      if (w.worst_miss > worst_miss) {
        worst_miss = w.worst_miss;
        all.message = w.result.message;
      }
    }
    return all;
  }

  const CheckCase& check_;
  const Windows& windows_;
  const CompareInput& input_;
  unsigned threads_;
  std::vector<Worker> workers_;
};

}  // namespace

const char* name_of(Output output) {
  switch (output) {
    case Output::out:
      return "out";
    case Output::grad_kv:
      return "grad_kv";
    case Output::grad_score:
      return "grad_score";
    default:
      return "grad_ape";
  }
}

const std::byte* TensorBytes::element(std::int64_t i, std::int64_t j) const {
  return row(i) + j * static_cast<std::int64_t>(element_bytes(at.type));
}

void CompareResult::note(Output output, double error) {
  double& value = worst[static_cast<std::size_t>(output)];
  value = std::max(value, error);
}

CompareResult compare_outputs(const CheckCase& check, const Windows& windows, const CompareInput& input,
                              unsigned threads) {
  return Comparison(check, windows, input, threads).run();
}

}  // namespace csajit::tool
