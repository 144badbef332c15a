// The tensors of one case, host image and device memory together.
#include "check_memory.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "check_number.hpp"
#include "check_plant.hpp"
#include "parallel.hpp"

namespace csajit::tool {
namespace {

Placement shape_of(csajit_dtype type, std::int64_t rows, std::int64_t columns, std::int64_t rows_per_segment = 0) {
  Placement shape;
  shape.type = type;
  shape.rows = rows;
  shape.columns = columns;
  shape.rows_per_segment = rows_per_segment;
  return shape;
}

}  // namespace

CaseMemory::CaseMemory(CheckDevice& device, const CheckCase& check, const Windows* windows,
                       std::uint64_t workspace_bytes, unsigned threads)
    : device_(device), check_(check), threads_(threads), workspace_bytes_(workspace_bytes) {
  const std::int64_t gap = check.row_gap;
  // Every tensor gets a gap of its own, so that a kernel that takes the wrong stride is seen.
  add_token_tensors("kv", "score", kv_, score_, 0, false);
  if (check.ape) ape_ = add_tensor("ape", shape_of(CSAJIT_DTYPE_FP32, check.ratio, check.columns()), gap * 2, false);
  grad_out_ = add_tensor("grad_out", shape_of(check.out_dtype, check.num_rows, check.head_dim), gap * 3, false);
  cu_ = add_table("cu_seqlens", check.cu);
  comp_ = add_table("cu_seqlens_comp", check.comp);
  fill(kv_, 1.0, 1);
  fill(score_, check.score_sigma, 2);
  fill(ape_, 0.25, 3);
  // Beside the largest floats no product and no sum may overflow by the gradient's own size.
  fill(grad_out_, check.plant == Plant::largest ? 0x1p-12 : 1.0, 4);
  if (windows != nullptr) plant(*windows);
  if (windows != nullptr) set_traps(*windows);

  out_ = add_tensor("out", shape_of(check.out_dtype, check.num_rows, check.head_dim), gap, true);
  add_token_tensors("grad_kv", "grad_score", grad_kv_, grad_score_, gap, true);
  if (check.wants_grad_ape()) {
    grad_ape_ = add_tensor("grad_ape", shape_of(CSAJIT_DTYPE_FP32, check.ratio, check.columns()), gap, true);
    if (workspace_bytes > 0) {
      workspace_ = &add_buffer("workspace");
      workspace_->output = true;
      workspace_->scratch_bytes = static_cast<std::int64_t>(workspace_bytes);
      workspace_->scratch_begin = workspace_->host.lay_out_bytes(workspace_bytes);
    }
  }
}

CaseMemory::~CaseMemory() {
  for (const auto& buffer : buffers_) {
    if (buffer->address != 0) device_.release(buffer->address);
  }
}

CaseMemory::Buffer& CaseMemory::add_buffer(std::string name) {
  buffers_.push_back(std::make_unique<Buffer>(std::move(name)));
  return *buffers_.back();
}

CaseMemory::Tensor CaseMemory::add_tensor(const std::string& name, const Placement& shape, std::int64_t row_gap,
                                          bool output) {
  Buffer& buffer = add_buffer(name);
  Tensor tensor;
  tensor.buffer = &buffer;
  tensor.at = buffer.host.lay_out(shape, 1, row_gap, check_.segment_gap, check_.shift).front();
  buffer.output = output;
  if (output) buffer.written.push_back(tensor.at);
  return tensor;
}

void CaseMemory::add_token_tensors(const std::string& first_name, const std::string& second_name, Tensor& first,
                                   Tensor& second, std::int64_t more_gap, bool output) {
  const bool want_first = !output || check_.grad_kv;
  const bool want_second = !output || check_.grad_score;
  auto shape = [&](csajit_dtype type) {
    return shape_of(type, check_.num_tokens, check_.columns(), check_.tokens_per_segment);
  };
  const std::int64_t gap = check_.row_gap + more_gap;
  if (check_.interleaved && want_first && want_second) {
    Buffer& buffer = add_buffer(first_name + " and " + second_name);
    const auto halves = buffer.host.lay_out(shape(check_.kv_dtype), 2, gap, check_.segment_gap, check_.shift);
    first.buffer = second.buffer = &buffer;
    first.at = halves[0];
    second.at = halves[1];
    buffer.output = output;
    if (output) buffer.written = halves;
    return;
  }
  if (want_first) first = add_tensor(first_name, shape(check_.kv_dtype), gap, output);
  if (want_second) second = add_tensor(second_name, shape(check_.score_dtype), gap + check_.row_gap, output);
}

CaseMemory::Tensor CaseMemory::add_table(const std::string& name, const std::vector<std::int32_t>& values) {
  Buffer& buffer = add_buffer(name);
  Tensor tensor;
  tensor.buffer = &buffer;
  const Placement shape = shape_of(CSAJIT_DTYPE_FP32, 1, static_cast<std::int64_t>(values.size()));  // 4 bytes each
  tensor.at = buffer.host.lay_out(shape, 1, 0, 0, 0).front();
  std::memcpy(buffer.host.row(tensor.at, 0), values.data(), values.size() * sizeof values[0]);
  return tensor;
}

void CaseMemory::fill(const Tensor& tensor, double scale, std::uint64_t stream) {
  if (!tensor) return;
  const Placement& at = tensor.at;
  parallel_for(at.rows, 16, threads_, [&](unsigned, std::int64_t begin, std::int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(at.columns));
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t j = 0; j < at.columns; ++j) {
        const auto index = static_cast<std::uint64_t>(row * at.columns + j);
        values[static_cast<std::size_t>(j)] = scale * normal(check_.seed * 16 + stream, index);
      }
      encode_elements(at.type, values.data(), at.columns, tensor.buffer->host.row(at, row));
    }
  });
}

void CaseMemory::plant(const Windows& windows) {
  plant_windows(check_, windows, [this](Place place, std::int64_t row, std::int64_t column, double value) {
    const Tensor& tensor = place == Place::kv      ? kv_
                           : place == Place::score ? score_
                           : place == Place::ape   ? ape_
                                                   : grad_out_;
    std::byte* bits = tensor.buffer->host.row(tensor.at, row);
    bits += column * static_cast<std::int64_t>(element_bytes(tensor.at.type));
    encode_elements(tensor.at.type, &value, 1, bits);
  });
}

void CaseMemory::set_traps(const Windows& windows) {
  auto trap = [&](const Tensor& tensor, std::int64_t row, std::int64_t column, std::int64_t columns) {
    const std::vector<double> values(static_cast<std::size_t>(columns), std::numeric_limits<double>::quiet_NaN());
    std::byte* bits = tensor.buffer->host.row(tensor.at, row);
    bits += column * static_cast<std::int64_t>(element_bytes(tensor.at.type));
    encode_elements(tensor.at.type, values.data(), columns, bits);
  };
  for (std::int64_t token = 0; token < check_.num_tokens; ++token) {
    for (std::int64_t half = 0; half < check_.coff; ++half) {
      if (windows.read(token, half)) continue;
      trap(kv_, token, half * check_.head_dim, check_.head_dim);
      trap(score_, token, half * check_.head_dim, check_.head_dim);
    }
  }
  bool overlap_used = false;
  for (std::int64_t i = 0; i < check_.num_rows; ++i) {
    if (windows.row(i).capacity) trap(grad_out_, i, 0, check_.head_dim);
    overlap_used = overlap_used || windows.row(i).previous != no_token;
  }
  // A first block does not add the APE of its missing half, so without later blocks nobody reads it.
  if (check_.coff == 2 && ape_ && !overlap_used) {
    for (std::int64_t row = 0; row < check_.ratio; ++row) trap(ape_, row, 0, check_.head_dim);
  }
}

Result<void> CaseMemory::arm(int variant) {
  for (const auto& buffer : buffers_) {
    for (const Placement& at : buffer->written) {
      for (std::int64_t row = 0; row < at.rows; ++row) {
        fill_unwritten(at.type, variant, at.columns, buffer->host.row(at, row));
      }
    }
    std::memset(buffer->host.image().data() + buffer->scratch_begin, variant == 0 ? 0xff : 0x7f,
                static_cast<std::size_t>(buffer->scratch_bytes));
  }
  if (check_.accumulate) fill(grad_ape_, 1.0, 5);
  for (const auto& buffer : buffers_) {
    if (buffer->address == 0) {
      Result<std::uint64_t> address = device_.allocate(buffer->host.image().size());
      if (!address) return std::move(address).error();
      buffer->address = *address;
    }
    if (Result<void> done = device_.upload(buffer->address, buffer->host.image()); !done) return done;
  }
  return {};
}

std::uint64_t CaseMemory::address(const Tensor& tensor) const {
  if (!tensor || tensor.at.rows == 0) return 0;  // pointers of empty tensors may be null, so they are
  return tensor.buffer->address + static_cast<std::uint64_t>(tensor.at.first_byte);
}

csajit_tensor CaseMemory::argument(const Tensor& tensor) const {
  csajit_tensor result{};
  result.data = reinterpret_cast<void*>(address(tensor));
  if (result.data == nullptr) return result;
  // The default is as good as the explicit stride; both are used.
  result.row_stride = tensor.at.row_stride == tensor.at.columns && check_.seed % 2 == 0 ? 0 : tensor.at.row_stride;
  result.segment_stride = tensor.at.segment_stride;
  return result;
}

csajit_forward_args CaseMemory::forward_args() const {
  csajit_forward_args args{};
  args.struct_size = sizeof args;
  args.num_tokens = check_.num_tokens;
  args.num_segments = check_.num_segments();
  args.total_comp = check_.num_rows;
  args.cu_seqlens = reinterpret_cast<const std::int32_t*>(address(cu_));
  args.cu_seqlens_comp = reinterpret_cast<const std::int32_t*>(address(comp_));
  args.kv = argument(kv_);
  args.score = argument(score_);
  args.ape = argument(ape_);
  args.out = argument(out_);
  return args;
}

csajit_backward_args CaseMemory::backward_args() const {
  csajit_backward_args args{};
  args.struct_size = sizeof args;
  if (check_.accumulate) args.flags |= CSAJIT_ACCUMULATE_GRAD_APE;
  args.num_tokens = check_.num_tokens;
  args.num_segments = check_.num_segments();
  args.total_comp = check_.num_rows;
  args.cu_seqlens = reinterpret_cast<const std::int32_t*>(address(cu_));
  args.cu_seqlens_comp = reinterpret_cast<const std::int32_t*>(address(comp_));
  args.kv = argument(kv_);
  args.score = argument(score_);
  args.ape = argument(ape_);
  args.grad_out = argument(grad_out_);
  args.grad_kv = argument(grad_kv_);
  args.grad_score = argument(grad_score_);
  args.grad_ape = argument(grad_ape_);
  if (workspace_ != nullptr) {
    args.workspace =
        reinterpret_cast<void*>(workspace_->address + static_cast<std::uint64_t>(workspace_->scratch_begin));
    args.workspace_bytes = workspace_bytes_;
  }
  return args;
}

Result<void> CaseMemory::fetch() {
  for (const auto& buffer : buffers_) {
    buffer->fetched.resize(buffer->host.image().size());
    if (Result<void> done = device_.download(buffer->address, buffer->fetched); !done) return done;
  }
  return {};
}

std::optional<std::string> CaseMemory::damage() const {
  for (const auto& buffer : buffers_) {
    auto found =
        buffer->host.first_damage(buffer->fetched, buffer->written, buffer->scratch_begin, buffer->scratch_bytes);
    if (found) return found;
  }
  return std::nullopt;
}

TensorBytes CaseMemory::bytes_of(const Tensor& tensor, bool as_uploaded) const {
  TensorBytes bytes;
  if (!tensor) return bytes;
  bytes.image = (as_uploaded ? tensor.buffer->host.image() : tensor.buffer->fetched).data();
  bytes.at = tensor.at;
  return bytes;
}

CompareInput CaseMemory::compare_input(int variant) const {
  CompareInput input;
  input.kv = bytes_of(kv_, true);
  input.score = bytes_of(score_, true);
  input.ape = bytes_of(ape_, true);
  input.grad_out = bytes_of(grad_out_, true);
  input.out = bytes_of(out_, false);
  input.grad_kv = bytes_of(grad_kv_, false);
  input.grad_score = bytes_of(grad_score_, false);
  input.grad_ape = bytes_of(grad_ape_, false);
  if (check_.accumulate) input.initial_grad_ape = bytes_of(grad_ape_, true);
  input.unwritten_variant = variant;
  return input;
}

std::vector<std::vector<std::byte>> CaseMemory::outputs() const {
  std::vector<std::vector<std::byte>> all;
  for (const auto& buffer : buffers_) {
    if (buffer->output && buffer->scratch_bytes == 0) all.push_back(buffer->fetched);
  }
  return all;
}

}  // namespace csajit::tool
