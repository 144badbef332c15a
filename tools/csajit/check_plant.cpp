// What a case plants into its windows: NaN, infinities and the largest floats, at every position.
#include "check_plant.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace csajit::tool {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::array<double, 3> kinds{std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};
constexpr std::int64_t short_window = 16;

// Where two values are put together: everywhere in a short window, else where the sums of a long one have seams.
std::vector<std::int64_t> seams(std::int64_t window) {
  std::vector<std::int64_t> at;
  for (std::int64_t k = 0; k < window; ++k) {
    const bool edge = k < 2 || k >= window - 2 || k == window / 2 - 1 || k == window / 2;
    const bool leaf = k == 7 || k == 8 || k == 15 || k == 16;
    if (window <= short_window || edge || leaf) at.push_back(k);
  }
  return at;
}

template <class Value>
WindowPlan whole_column(Place place, std::int64_t window, Value value) {
  WindowPlan plan;
  for (std::int64_t k = 0; k < window; ++k) plan.push_back({place, k, value(k)});
  return plan;
}

// One list of plans, dealt to windows one after the other; each round begins one plan later, so that a plan meets
// other lanes. A segment's first window may lack entries, so those are dealt from a count of their own.
class Deal {
 public:
  explicit Deal(std::vector<WindowPlan> plans) : plans_(std::move(plans)) {}

  const WindowPlan& next(bool incomplete) {
    std::size_t& count = incomplete ? incomplete_ : complete_;
    const WindowPlan& plan = plans_[(count + count / plans_.size()) % plans_.size()];
    ++count;
    return plan;
  }
  std::int64_t surplus() const {
    return static_cast<std::int64_t>(complete_) - static_cast<std::int64_t>(plans_.size());
  }

 private:
  std::vector<WindowPlan> plans_;
  std::size_t complete_ = 0;
  std::size_t incomplete_ = 0;
};

}  // namespace

std::vector<WindowPlan> non_finite_plans(std::int64_t window) {
  std::vector<WindowPlan> plans;
  for (const double value : kinds) {
    for (const Place place : {Place::kv, Place::score}) {
      for (std::int64_t k = 0; k < window; ++k) plans.push_back({{place, k, value}});
      plans.push_back(whole_column(place, window, [value](std::int64_t) { return value; }));
    }
    plans.push_back({{Place::grad_out, 0, value}});
    plans.push_back({{Place::grad_out, 0, value}, {Place::score, window - 1, -infinity}});
  }
  std::size_t turn = 0;
  const std::size_t repeats = window <= short_window ? kinds.size() : 1;
  for (const std::int64_t k : seams(window)) {
    for (const std::int64_t other : seams(window)) {
      for (std::size_t i = 0; i < repeats; ++i, ++turn) {
        const double value = kinds[turn % kinds.size()];
        const double second = kinds[turn / kinds.size() % kinds.size()];
        plans.push_back({{Place::score, k, value}, {Place::kv, other, second}});
        if (other != k) plans.push_back({{Place::score, k, value}, {Place::score, other, second}});
        if (other != k) plans.push_back({{Place::kv, k, value}, {Place::kv, other, second}});
      }
    }
  }
  return plans;
}

std::vector<WindowPlan> finite_plans(std::int64_t window) {
  std::vector<WindowPlan> plans{{}};
  for (std::int64_t k = 0; window > 1 && k < window; ++k) {
    plans.push_back({{Place::score, k, -infinity}});
    WindowPlan others = whole_column(Place::score, window, [](std::int64_t) { return -infinity; });
    others.erase(others.begin() + k);
    plans.push_back(std::move(others));
  }
  return plans;
}

std::vector<WindowPlan> largest_plans(std::int64_t window, csajit_dtype kv_dtype) {
  // Of fp32 not the very largest: a weight that is rounded up would carry a product past it.
  const double most = kv_dtype == CSAJIT_DTYPE_FP16 ? 65504.0 : kv_dtype == CSAJIT_DTYPE_FP32 ? 3e38 : 0x1.fep127;
  std::vector<WindowPlan> plans;
  for (const double value : {most, -most}) {
    for (const std::int64_t k : seams(window)) plans.push_back({{Place::kv, k, value}});
    plans.push_back(whole_column(Place::kv, window, [=](std::int64_t) { return value; }));
    plans.push_back(whole_column(Place::kv, window, [=](std::int64_t k) { return k % 2 == 0 ? value : -value; }));
    plans.push_back(whole_column(Place::kv, window, [=](std::int64_t k) { return k < window / 2 ? value : -value; }));
  }
  return plans;
}

namespace {

using Put = std::function<void(Place, std::int64_t, std::int64_t, double)>;

void plant_column(const Windows& windows, std::int64_t row, std::int64_t column, const WindowPlan& plan,
                  const Put& put) {
  for (const PlantedValue& planted : plan) {
    if (planted.place == Place::grad_out) {
      put(Place::grad_out, row, column, planted.value);
      continue;
    }
    const std::int64_t token = windows.token(row, planted.k);
    if (token != no_token) put(planted.place, token, windows.column(planted.k) + column, planted.value);
  }
}

// One of every five columns for each kind, at another row from column to column.
void plant_ape(const CheckCase& check, const Put& put) {
  for (std::int64_t column = 0; column < check.columns(); ++column) {
    const auto kind = static_cast<std::size_t>(column % 5);
    if (kind < kinds.size()) put(Place::ape, column * 3 % check.ratio, column, kinds[kind]);
  }
}

// One of every four columns of a row, another one from row to row, so that its neighbours in a vector have no such
// weight; position after position.
void plant_tiny(const CheckCase& check, const Windows& windows, const Put& put) {
  for (std::int64_t row = 0; row < windows.num_rows(); ++row) {
    if (windows.row(row).capacity) continue;
    const WindowPlan plan{{Place::score, row / 4 % check.window(), -93}};
    for (std::int64_t column = row % 4; column < check.head_dim; column += 4) {
      plant_column(windows, row, column, plan, put);
    }
  }
}

}  // namespace

std::int64_t plant_windows(const CheckCase& check, const Windows& windows, const Put& put) {
  if (check.plant == Plant::none) return 0;
  if (check.plant == Plant::ape) {
    plant_ape(check, put);
    return 0;
  }
  if (check.plant == Plant::tiny) {
    plant_tiny(check, windows, put);
    return 0;
  }
  const bool largest = check.plant == Plant::largest;
  Deal any(largest ? largest_plans(check.window(), check.kv_dtype) : non_finite_plans(check.window()));
  Deal finite(finite_plans(check.window()));
  for (std::int64_t row = 0; row < windows.num_rows(); ++row) {
    if (windows.row(row).capacity) continue;  // its tokens are another row's
    const bool incomplete = check.coff == 2 && windows.row(row).previous == no_token;
    for (std::int64_t column = 0; column < check.head_dim; ++column) {
      const std::int64_t turn = (column + static_cast<std::int64_t>(check.seed)) % 4;
      if (turn == 3 || (turn == 2 && incomplete)) continue;  // -inf in all that there is gives NaN
      Deal& deal = turn == 2 ? finite : any;
      plant_column(windows, row, column, deal.next(incomplete), put);
    }
  }
  return std::min(any.surplus(), finite.surplus());
}

}  // namespace csajit::tool
