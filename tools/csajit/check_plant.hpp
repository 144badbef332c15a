// What a case plants into its windows: NaN, infinities and the largest floats, at every position. Knows positions,
// not memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "check_case.hpp"
#include "check_window.hpp"

namespace csajit::tool {

enum class Place : std::uint8_t { kv, score, grad_out, ape };

struct PlantedValue {
  Place place;
  std::int64_t k;  // window entry; of no meaning for grad_out
  double value;
};
// What one column of one window gets.
using WindowPlan = std::vector<PlantedValue>;

// NaN, +inf and -inf at every position of kv and of score, alone and beside another one (every pair of positions in
// windows of up to 16 entries, the ends and the sides of leaves in longer ones), whole columns, grad_out.
std::vector<WindowPlan> non_finite_plans(std::int64_t window);
// Those of them that leave every result finite: scores of -inf beside others.
std::vector<WindowPlan> finite_plans(std::int64_t window);
// kv as large as its type holds, of one sign or both, at one position or all.
std::vector<WindowPlan> largest_plans(std::int64_t window, csajit_dtype kv_dtype);

// Calls put(place, row, column, value) for each value of the case's plant: rows and columns of the named tensor.
// Entries that do not exist are left out. In every fourth column there is nothing, so that its neighbours are seen not
// to matter; of the non-finite plans another fourth gets those with finite results only, so that grad_ape stays finite.
//
// Returns by how many windows the plans were passed over: at least 0 if every plan came to lie in a window with all
// its entries.
std::int64_t plant_windows(const CheckCase& check, const Windows& windows,
                           const std::function<void(Place, std::int64_t, std::int64_t, double)>& put);

}  // namespace csajit::tool
