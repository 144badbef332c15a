// NaN and infinities at every position of a short fp32 window: the real templates on the host give what the serial
// order gives, in every element.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "emulator/emulated_device.hpp"
#include "emulator/serial_window.hpp"

namespace csajit::emulator {
namespace {

constexpr int ratio = 2;
constexpr int head_dim = 4;
constexpr int columns = 2 * head_dim;
constexpr int window = 2 * ratio;

using Floats = std::vector<float>;

struct OnDevice {
  EmulatedDevice& device;
  std::uint64_t address;
  std::size_t bytes;

  template <class T>
  OnDevice(EmulatedDevice& on, const std::vector<T>& values)
      : device(on), address(0), bytes(values.size() * sizeof(T)) {
    std::vector<std::byte> raw(bytes);
    std::memcpy(raw.data(), values.data(), bytes);
    const auto got = device.allocate(bytes);
    REQUIRE(got);
    address = *got;
    REQUIRE(device.upload(address, raw));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { device.release(address); }

  void* data() const { return reinterpret_cast<void*>(address); }
  Floats read() const {
    std::vector<std::byte> raw(bytes);
    REQUIRE(device.download(address, raw));
    Floats values(bytes / sizeof(float));
    std::memcpy(values.data(), raw.data(), bytes);
    return values;
  }
};

bool equal(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

struct Inputs {
  Floats kv, score, ape, grad_out;
  int rows;

  explicit Inputs(int with_rows) : rows(with_rows) {
    unsigned int state = 1;
    const auto next = [&state] {
      state = state * 1664525U + 1013904223U;
      return static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
    };
    const auto fill = [&next](Floats& values, int count) {
      for (int i = 0; i < count; ++i) values.push_back(next());
    };
    fill(kv, rows * ratio * columns);
    fill(score, rows * ratio * columns);
    fill(ape, ratio * columns);
    fill(grad_out, rows * head_dim);
  }
  static int element(int row, int k, int j) {
    return (row * ratio + k - ratio) * columns + (k < ratio ? j : head_dim + j);
  }
  static int ape_element(int k, int j) { return (k % ratio) * columns + (k < ratio ? j : head_dim + j); }
};

// Runs one segment and compares every element of every row with the serial order; counts those not finite.
void expect_serial(const Inputs& in, bool only_scalar, unsigned int max_ctas, int& non_finite) {
  EmulatedDevice device;
  device.only_scalar(only_scalar);
  device.limit_grid(max_ctas);
  const csajit_spec spec{
      sizeof(csajit_spec), ratio, head_dim, 2, CSAJIT_DTYPE_FP32, CSAJIT_DTYPE_FP32, CSAJIT_DTYPE_FP32,
      CSAJIT_APE_PRESENT};
  REQUIRE(device.prepare(spec));
  const int tokens = in.rows * ratio;
  const Floats blank(in.kv.size(), 12345.0F);
  const OnDevice kv(device, in.kv), score(device, in.score), ape(device, in.ape), grad_out(device, in.grad_out);
  const OnDevice out(device, Floats(in.grad_out.size(), 12345.0F)), grad_kv(device, blank), grad_score(device, blank);
  const OnDevice cu(device, std::vector<std::int32_t>{0, tokens}), comp(device, std::vector<std::int32_t>{0, in.rows});

  csajit_forward_args forward{};
  forward.struct_size = sizeof(forward);
  forward.num_tokens = tokens;
  forward.num_segments = 1;
  forward.total_comp = in.rows;
  forward.cu_seqlens = static_cast<const std::int32_t*>(cu.data());
  forward.cu_seqlens_comp = static_cast<const std::int32_t*>(comp.data());
  forward.kv = {kv.data(), columns, 0};
  forward.score = {score.data(), columns, 0};
  forward.ape = {ape.data(), columns, 0};
  forward.out = {out.data(), head_dim, 0};
  REQUIRE(device.forward(spec, forward));
  csajit_backward_args backward{};
  backward.struct_size = sizeof(backward);
  backward.num_tokens = tokens;
  backward.num_segments = 1;
  backward.total_comp = in.rows;
  backward.cu_seqlens = forward.cu_seqlens;
  backward.cu_seqlens_comp = forward.cu_seqlens_comp;
  backward.kv = forward.kv;
  backward.score = forward.score;
  backward.ape = forward.ape;
  backward.grad_out = {grad_out.data(), head_dim, 0};
  backward.grad_kv = {grad_kv.data(), columns, 0};
  backward.grad_score = {grad_score.data(), columns, 0};
  REQUIRE(device.backward(spec, backward));

  const Floats got_out = out.read(), got_kv = grad_kv.read(), got_score = grad_score.read();
  int misses = 0;
  for (int row = 0; row < in.rows; ++row) {
    for (int j = 0; j < head_dim; ++j) {
      Floats values(window, 0.0F), x(window, -std::numeric_limits<float>::infinity());
      for (int k = row == 0 ? ratio : 0; k < window; ++k) {
        const auto at = static_cast<std::size_t>(Inputs::element(row, k, j));
        values[static_cast<std::size_t>(k)] = in.kv[at];
        x[static_cast<std::size_t>(k)] = in.score[at] + in.ape[static_cast<std::size_t>(Inputs::ape_element(k, j))];
      }
      const auto index = static_cast<std::size_t>(row * head_dim + j);
      const SerialWindow want = evaluate_serially(values, x, in.grad_out[index], Exp::kernels);
      misses += equal(got_out[index], want.out) ? 0 : 1;
      non_finite += std::isfinite(want.out) ? 0 : 1;
      for (int k = row == 0 ? ratio : 0; k < window; ++k) {
        const auto at = static_cast<std::size_t>(Inputs::element(row, k, j));
        misses += equal(got_kv[at], want.grad_kv[static_cast<std::size_t>(k)]) ? 0 : 1;
        misses += equal(got_score[at], want.grad_score[static_cast<std::size_t>(k)]) ? 0 : 1;
      }
    }
  }
  CHECK(misses == 0);
}

}  // namespace

TEST_CASE("a NaN or an infinity at any position of a short window gives what the serial order gives") {
  const float inf = std::numeric_limits<float>::infinity();
  const Floats kinds{std::numeric_limits<float>::quiet_NaN(), inf, -inf};
  const int singles = window * 3 * 2;
  Inputs in(1 + singles + singles * window + 6);
  int row = 1;
  const auto put = [&in](int at, int j, int k, bool in_kv, float value) {
    (in_kv ? in.kv : in.score)[static_cast<std::size_t>(Inputs::element(at, k, j))] = value;
  };
  // One value, then one in score beside another in kv or score; in another column from row to row.
  for (int k = 0; k < window; ++k) {
    for (const float value : kinds) {
      for (const bool in_kv : {false, true}) {
        put(row, row % head_dim, k, in_kv, value);
        ++row;
        for (int other = 0; other < window; ++other, ++row) {
          put(row, row % head_dim, k, in_kv, value);
          put(row, row % head_dim, other, !in_kv, kinds[static_cast<std::size_t>((other + k) % 3)]);
        }
      }
    }
  }
  for (const float value : kinds) {  // whole columns, and the gradient
    for (int k = 0; k < window; ++k) put(row, 1, k, false, value);
    ++row;
    in.grad_out[static_cast<std::size_t>(row * head_dim + 2)] = value;
    ++row;
  }
  REQUIRE(row == in.rows);
  for (const bool only_scalar : {false, true}) {
    for (const unsigned int max_ctas : {0U, 3U}) {
      int non_finite = 0;
      expect_serial(in, only_scalar, max_ctas, non_finite);
      CHECK(non_finite > singles);
    }
  }
}

}  // namespace csajit::emulator
