#include "emulator/emulated_device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "check_number.hpp"
#include "compressor/problem.hpp"
#include "emulator/device_memory.hpp"
#include "emulator/grid.hpp"

namespace csajit::emulator {

namespace {

// The tensors of one call at other addresses, with their rows far apart.
class Spread {
 public:
  template <class Args>
  Spread(const csajit_spec& spec, const Args& args)
      : spec_(spec), tokens_(args.num_tokens), segments_(args.num_segments), rows_(args.total_comp) {}
  Spread(const Spread&) = delete;
  Spread& operator=(const Spread&) = delete;
  ~Spread() { DeviceMemory::instance().drop_views(); }

  csajit_tensor tokens(const csajit_tensor& tensor, std::uint32_t type) const {
    return apart(tensor, tokens_, columns(), type);
  }
  csajit_tensor rows(const csajit_tensor& tensor) const {
    return apart(tensor, rows_, spec_.head_dim, spec_.out_dtype);
  }
  csajit_tensor ape(const csajit_tensor& tensor) const {
    return apart(tensor, spec_.ratio, columns(), CSAJIT_DTYPE_FP32);
  }

 private:
  std::int64_t columns() const { return static_cast<std::int64_t>(spec_.coff) * spec_.head_dim; }

  csajit_tensor apart(const csajit_tensor& tensor, std::int64_t rows, std::int64_t columns, std::uint32_t type) const {
    if (tensor.data == nullptr) return tensor;
    constexpr std::int64_t more = std::int64_t{1} << 31;
    const bool batched = tensor.segment_stride != 0;
    const auto element = static_cast<std::int64_t>(tool::element_bytes(static_cast<csajit_dtype>(type)));
    const std::int64_t row_stride = tensor.row_stride == 0 ? columns : tensor.row_stride;
    const std::int64_t rows_per_segment = batched ? rows / segments_ : rows;
    csajit_tensor far = tensor;
    far.row_stride = row_stride + more;
    if (batched) far.segment_stride = tensor.segment_stride + (rows_per_segment + 1) * more;
    RowView view;
    view.address = reinterpret_cast<std::uint64_t>(tensor.data);
    view.row_bytes = static_cast<std::uint64_t>(columns * element);
    view.row_stride = static_cast<std::uint64_t>(row_stride * element);
    view.segment_stride = static_cast<std::uint64_t>(tensor.segment_stride * element);
    view.far_row_stride = static_cast<std::uint64_t>(far.row_stride * element);
    view.far_segment_stride = batched ? static_cast<std::uint64_t>(far.segment_stride * element)
                                      : static_cast<std::uint64_t>(rows) * view.far_row_stride;
    view.segments = batched ? static_cast<std::uint64_t>(segments_) : 1;
    view.rows_per_segment = static_cast<std::uint64_t>(rows_per_segment);
    far.data = reinterpret_cast<void*>(DeviceMemory::instance().view(view));
    return far;
  }

  const csajit_spec& spec_;
  std::int64_t tokens_, segments_, rows_;
};

}  // namespace

EmulatedDevice::EmulatedDevice() = default;

Result<std::uint64_t> EmulatedDevice::allocate(std::size_t bytes) { return DeviceMemory::instance().allocate(bytes); }
void EmulatedDevice::release(std::uint64_t address) { DeviceMemory::instance().release(address); }

Result<void> EmulatedDevice::upload(std::uint64_t address, const std::vector<std::byte>& bytes) {
  DeviceMemory::instance().copy_in(address, bytes);
  return {};
}

Result<void> EmulatedDevice::download(std::uint64_t address, std::vector<std::byte>& bytes) {
  DeviceMemory::instance().copy_out(address, bytes);
  return {};
}

Result<void> EmulatedDevice::prepare(const csajit_spec& spec) {
  const auto parsed = parse_spec(spec);
  if (!parsed) return parsed.error();
  for (const KernelRecipe& recipe : kernels_of(*parsed, 99 << 10)) {
    if (!emulated_kernels().contains(recipe.name_expression)) {
      return Error{CSAJIT_E_UNSUPPORTED, fmt::format("not instantiated for the host: {}", recipe.name_expression)};
    }
  }
  return {};
}

Result<std::uint64_t> EmulatedDevice::workspace_bytes(const csajit_spec& spec, std::int64_t num_rows) {
  return csajit::workspace_bytes(*parse_spec(spec), num_rows);
}

template <class Args, class Plan>
Result<void> EmulatedDevice::launch(const csajit_spec& spec, const Args& args, Plan plan) {
  const Spec parsed = *parse_spec(spec);
  std::vector<KernelRecipe> recipes = kernels_of(parsed, 99 << 10);
  if (only_scalar_) std::erase_if(recipes, [](const KernelRecipe& recipe) { return recipe.vector > 1; });
  std::vector<KernelShape> shapes;
  for (const KernelRecipe& recipe : recipes) shapes.push_back(shape_of(recipe));
  LaunchArgs launch_args{};
  const Result<LaunchPlan> planned = plan(parsed, args, shapes, launch_args);
  if (!planned) return planned.error();
  if (launch_args.zero != 0) return Error{CSAJIT_E_INTERNAL, "zero is not 0: loads would be tied into values"};
  DeviceMemory& memory = DeviceMemory::instance();
  memory.begin_kernels();
  for (std::uint32_t i = 0; i < planned->count; ++i) {
    const KernelLaunch& launch = planned->launches[i];
    const Kernel& kernel = emulated_kernels().at(recipes[launch.kernel].name_expression);
    const unsigned int ctas = max_ctas_ == 0 ? launch.grid : std::min(launch.grid, max_ctas_);
    Grid::run(
        ctas, shapes[launch.kernel].block_threads, [&] { kernel(launch_args); }, schedule_);
  }
  if (!memory.violation().empty()) return Error{CSAJIT_E_DRIVER, memory.violation()};
  return {};
}

Result<void> EmulatedDevice::forward(const csajit_spec& spec, const csajit_forward_args& args) {
  if (!spread_rows_) return launch(spec, args, plan_forward);
  const Spread spread(spec, args);
  csajit_forward_args far = args;
  far.kv = spread.tokens(args.kv, spec.kv_dtype);
  far.score = spread.tokens(args.score, spec.score_dtype);
  far.ape = spread.ape(args.ape);
  far.out = spread.rows(args.out);
  return launch(spec, far, plan_forward);
}

Result<void> EmulatedDevice::backward(const csajit_spec& spec, const csajit_backward_args& args) {
  if (!spread_rows_) return launch(spec, args, plan_backward);
  const Spread spread(spec, args);
  csajit_backward_args far = args;
  far.kv = spread.tokens(args.kv, spec.kv_dtype);
  far.score = spread.tokens(args.score, spec.score_dtype);
  far.ape = spread.ape(args.ape);
  far.grad_out = spread.rows(args.grad_out);
  far.grad_kv = spread.tokens(args.grad_kv, spec.kv_dtype);
  far.grad_score = spread.tokens(args.grad_score, spec.score_dtype);
  far.grad_ape = spread.ape(args.grad_ape);
  return launch(spec, far, plan_backward);
}

}  // namespace csajit::emulator
