// The real templates on the host: the contract's packs and layouts against the fp64 oracle, with every access
// checked and every write counted.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <climits>
#include <utility>

#include "check_case.hpp"
#include "check_run.hpp"
#include "common/offset_check.h"
#include "emulator/device_memory.hpp"
#include "emulator/emulated_device.hpp"
#include "emulator/grid.hpp"
#include "emulator/packed_case.hpp"

using namespace csajit;
using emulator::EmulatedDevice;
using emulator::EmulatedSpec;
using emulator::for_each_spec;
using emulator::Lengths;
using emulator::packed;

namespace {

// A first segment shorter than r, an empty one, whole blocks, tails.
Lengths ragged(std::int64_t r) { return {r - 1, 3 * r + 1, 0, 2 * r, r, r + r / 2, 5 * r + r / 2}; }

void expect_pass(const tool::CheckCase& check, EmulatedDevice& device) {
  const tool::CaseOutcome outcome = tool::run_case(device, check, 1);
  CHECK_MESSAGE(outcome.verdict == tool::Verdict::pass,
                fmt::format("{}, {}: {}", check.name, tool::describe_spec(check), outcome.message));
}

}  // namespace

TEST_CASE("a ragged pack meets the oracle, and every gradient element is written once") {
  for_each_spec([](const EmulatedSpec& spec) {
    EmulatedDevice device;
    tool::CheckCase check = packed(spec, "ragged", ragged(spec.ratio));
    expect_pass(check, device);
    check.name = "ragged, few CTAs";
    device.limit_grid(3);
    expect_pass(check, device);
    check.name = "ragged, scalar";
    device.limit_grid(0);
    device.only_scalar(true);
    expect_pass(check, device);
  });
}

TEST_CASE("padding tokens, capacity rows and missing rows are right") {
  for_each_spec([](const EmulatedSpec& spec) {
    EmulatedDevice device;
    tool::CheckCase check = packed(spec, "padded tokens", ragged(spec.ratio));
    check.num_tokens += 3 * spec.ratio + 2;
    expect_pass(check, device);
    check.name = "capacity rows";
    check.num_rows += 5;
    expect_pass(check, device);
    check.name = "fewer rows than there are";
    check.num_rows -= 8;
    expect_pass(check, device);
    check.name = "no row asked for";
    check.num_rows = 0;
    expect_pass(check, device);
  });
}

TEST_CASE("offsets that begin past zero leave the tokens before them zero") {
  for_each_spec([](const EmulatedSpec& spec) {
    EmulatedDevice device;
    tool::CheckCase check = packed(spec, "cu and comp begin past zero", ragged(spec.ratio));
    for (auto& offset : check.cu) offset += spec.ratio + 1;
    for (auto& offset : check.comp) offset += 2;
    check.num_tokens = check.cu.back() + 1;
    check.num_rows = check.comp.back() + 1;
    expect_pass(check, device);
  });
}

TEST_CASE("segments shorter than the ratio, and packs without tokens or segments, give zeros") {
  for_each_spec([](const EmulatedSpec& spec) {
    EmulatedDevice device;
    tool::CheckCase check = packed(spec, "no row", {spec.ratio - 1, spec.ratio - 1, spec.ratio - 1});
    expect_pass(check, device);
    if (check.num_tokens >= spec.ratio) {
      check.name = "only capacity rows";
      check.num_rows = 3;
      expect_pass(check, device);
    }
    check = packed(spec, "no segment", {});
    expect_pass(check, device);
    check.name = "no segment, tokens and capacity rows";
    check.num_tokens = spec.ratio + 3;
    check.num_rows = 2;
    expect_pass(check, device);
  });
}

TEST_CASE("more segments than a warp looks up at once") {
  for (const std::size_t count : {31, 32, 33, 100, 1100}) {
    const EmulatedSpec spec = emulator::emulated_specs().front();
    Lengths lengths;
    for (std::size_t s = 0; s < count; ++s) lengths.push_back(static_cast<std::int64_t>((s * 7) % 13));
    EmulatedDevice device;
    expect_pass(packed(spec, "many segments", lengths), device);
  }
}

TEST_CASE("strides, batches, interleaved buffers and odd addresses change nothing") {
  for_each_spec([](const EmulatedSpec& spec) {
    EmulatedDevice device;
    for (const std::int64_t gap : {3, 8}) {
      tool::CheckCase check = packed(spec, "row gap", ragged(spec.ratio));
      check.row_gap = gap;
      expect_pass(check, device);
      check.name = "interleaved";
      check.interleaved = true;
      if (spec.kv == spec.score) expect_pass(check, device);
    }
    for (const std::int64_t shift : {1, 2, 3}) {
      tool::CheckCase check = packed(spec, "shift", ragged(spec.ratio));
      check.shift = shift;
      expect_pass(check, device);
    }
    const std::int64_t r = spec.ratio;
    tool::CheckCase check = packed(spec, "batched", {3 * r + 1, 0, r - 1, 2 * r});
    check.tokens_per_segment = 3 * r + 2;
    check.num_tokens = 4 * check.tokens_per_segment;
    expect_pass(check, device);
    check.name = "batched, gaps and capacity rows";
    check.row_gap = 3;
    check.segment_gap = 5;
    check.num_rows += 2;
    expect_pass(check, device);
  });
}

TEST_CASE("rows and segments more than 2^31 elements apart change nothing") {
  for_each_spec([](const EmulatedSpec& spec) {
    EmulatedDevice device;
    device.spread_rows(true);
    const std::int64_t r = spec.ratio;
    expect_pass(packed(spec, "far rows", ragged(r)), device);
    tool::CheckCase check = packed(spec, "batched, far rows and segments", {3 * r + 1, 0, r - 1, 2 * r});
    check.tokens_per_segment = 3 * r + 2;
    check.num_tokens = 4 * check.tokens_per_segment;
    check.accumulate = check.wants_grad_ape();
    device.only_scalar(true);
    expect_pass(check, device);
  });
}

TEST_CASE("gradients that are not wanted, and an accumulated grad_ape") {
  for_each_spec([](const EmulatedSpec& spec) {
    EmulatedDevice device;
    for (int wanted = 0; wanted < 8; ++wanted) {
      tool::CheckCase check = packed(spec, "some gradients", {2 * spec.ratio + 1, spec.ratio});
      check.grad_kv = (wanted & 1) != 0;
      check.grad_score = (wanted & 2) != 0;
      check.grad_ape = (wanted & 4) != 0;
      expect_pass(check, device);
      check.name = "some gradients, accumulated";
      check.accumulate = true;
      if (check.wants_grad_ape()) expect_pass(check, device);
    }
  });
}

TEST_CASE("tables without sense reach nothing outside the tensors") {
  for_each_spec([](const EmulatedSpec& spec) {
    const std::int32_t r = spec.ratio;
    const std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>> tables{
        {{0, 5 * r, 99999}, {0, 5, 9}},
        {{0, 5 * r, 2 * r}, {0, 5, 2}},
        {{-7, 3 * r, INT_MAX}, {-3, 1, INT_MAX}},
        {{INT_MIN, INT_MAX, INT_MIN}, {0, INT_MAX, 12}},
        {{4 * r, 2 * r, 0}, {9, 4, 12}},
        {{0, 2 * r, 4 * r}, {0, 40, 50}},
        {{INT_MAX, INT_MAX, INT_MAX}, {0, 6, 12}},
    };
    for (const auto& [cu, comp] : tables) {
      for (const bool batched : {false, true}) {
        EmulatedDevice device;
        tool::CheckCase check = packed(spec, batched ? "garbage, batched" : "garbage", {});
        check.cu = cu;
        check.comp = comp;
        check.num_tokens = 6 * r;
        check.num_rows = 12;
        check.tokens_per_segment = batched ? 3 * r : 0;
        check.garbage = true;
        const tool::CaseOutcome outcome = tool::run_case(device, check, 1);
        // Rows that claim the same tokens write them twice: that is allowed here, leaving the tensors is not.
        const bool ok =
            outcome.verdict == tool::Verdict::pass || outcome.message.find("is written twice") != std::string::npos;
        CHECK_MESSAGE(ok, fmt::format("{}: {}", tool::describe_spec(check), outcome.message));
      }
    }
  });
}

namespace {

// The verdict of the check kernel itself on a packed call (or a batched one: tokens_per_segment).
unsigned long long check_offsets(int ratio, const std::vector<std::int32_t>& cu, const std::vector<std::int32_t>& comp,
                                 std::int64_t num_tokens, std::int64_t tokens_per_segment = 0,
                                 emulator::Schedule schedule = {}) {
  emulator::DeviceMemory& memory = emulator::DeviceMemory::instance();
  const auto upload = [&](const std::vector<std::int32_t>& values) {
    const std::uint64_t address = memory.allocate(values.size() * sizeof(std::int32_t));
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    memory.copy_in(address, {bytes, bytes + values.size() * sizeof(std::int32_t)});
    return address;
  };
  LaunchArgs args{};
  args.cu_seqlens = upload(cu);
  args.cu_seqlens_comp = upload(comp);
  args.workspace = memory.allocate(sizeof(unsigned long long));
  args.num_segments = static_cast<long long>(cu.size()) - 1;
  args.num_tokens = num_tokens;
  args.tokens_per_segment = tokens_per_segment;
  const auto& kernel = emulator::emulated_kernels().at(fmt::format("csajit::compressor_validate_offsets<{}>", ratio));
  memory.begin_kernels();
  emulator::Grid::run(
      1, kOffsetCheckThreads, [&] { kernel(args); }, schedule);
  CHECK(memory.violation().empty());
  const auto verdict = memory.load<unsigned long long>(args.workspace);
  for (const std::uint64_t address : {args.cu_seqlens, args.cu_seqlens_comp, args.workspace}) memory.release(address);
  return verdict;
}

}  // namespace

TEST_CASE("the check of the segment arrays accepts what is well-formed and finds the first entry that is not") {
  constexpr std::int32_t r = 4;
  CHECK(check_offsets(r, {0}, {0}, 0) == kOffsetsAreGood);
  CHECK(check_offsets(r, {0, 5, 5, 16}, {0, 1, 1, 3}, 16) == kOffsetsAreGood);
  CHECK(check_offsets(r, {3, 8, 8, 19}, {2, 3, 3, 5}, 40) == kOffsetsAreGood);  // padding at both ends
  CHECK(check_offsets(r, {0, 16, 32}, {0, 4, 8}, 32, 16) == kOffsetsAreGood);   // batched
  CHECK(check_offsets(r, {0, 16, 32}, {0, 4, 8}, 20, 16) == kOffsetsAreGood);   // ... where T does not bound cu

  CHECK(check_offsets(r, {-1, 8}, {0, 2}, 16) == offset_verdict(0, OffsetDefect::cu_negative));
  CHECK(check_offsets(r, {0, 8}, {-1, 1}, 16) == offset_verdict(0, OffsetDefect::comp_negative));
  CHECK(check_offsets(r, {0, 20, 17, 4}, {0, 5, 4, 1}, 32) == offset_verdict(2, OffsetDefect::cu_descends));
  CHECK(check_offsets(r, {0, 8, 17}, {0, 2, 4}, 16) == offset_verdict(2, OffsetDefect::cu_past_tokens));
  CHECK(check_offsets(r, {0, 8, 25}, {0, 2, 6}, 32, 16) == offset_verdict(2, OffsetDefect::segment_too_long));
  CHECK(check_offsets(r, {0, 8, 16}, {0, 2, 3}, 16) == offset_verdict(2, OffsetDefect::comp_step));
  CHECK(check_offsets(r, {0, INT_MAX}, {0, INT_MIN}, INT_MAX) == offset_verdict(1, OffsetDefect::comp_step));
  CHECK(check_offsets(r, {0, INT_MAX, INT_MIN}, {0, INT_MAX / r, 0}, INT_MAX) ==
        offset_verdict(2, OffsetDefect::cu_descends));
}

TEST_CASE("the check of the segment arrays finds a bad entry wherever it stands, and the least of two") {
  constexpr std::int32_t r = 4;
  constexpr int segments = 2 * kOffsetCheckThreads + 7;
  std::vector<std::int32_t> cu;
  std::vector<std::int32_t> comp;
  for (std::int32_t i = 0; i <= segments; ++i) {
    cu.push_back(i * 6);
    comp.push_back(i);
  }
  CHECK(check_offsets(r, cu, comp, cu.back()) == kOffsetsAreGood);
  for (const int bad : {1, 31, 32, kOffsetCheckThreads - 1, kOffsetCheckThreads, kOffsetCheckThreads + 1, segments}) {
    std::vector<std::int32_t> wrong = comp;
    ++wrong[static_cast<std::size_t>(bad)];  // and with it, the step of the entry after
    for (const emulator::Schedule& schedule : emulator::uneven_schedules()) {
      CAPTURE(emulator::describe(schedule));
      CHECK(check_offsets(r, cu, wrong, cu.back(), 0, schedule) == offset_verdict(bad, OffsetDefect::comp_step));
    }
  }
}
