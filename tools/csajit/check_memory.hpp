// The tensors of one case, host image and device memory together: fills inputs, arms outputs, finds damage.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check_buffer.hpp"
#include "check_case.hpp"
#include "check_compare.hpp"
#include "check_device.hpp"
#include "check_window.hpp"

namespace csajit::tool {

class CaseMemory {
 public:
  // Lays everything out and fills the inputs; `windows` is nullptr for garbage tables (then no slot is a trap).
  CaseMemory(CheckDevice& device, const CheckCase& check, const Windows* windows, std::uint64_t workspace_bytes,
             unsigned threads);
  CaseMemory(const CaseMemory&) = delete;
  CaseMemory& operator=(const CaseMemory&) = delete;
  ~CaseMemory();

  // Fills outputs and workspace with the leftovers of `variant` (0 or 1) and uploads all.
  Result<void> arm(int variant);
  csajit_forward_args forward_args() const;
  csajit_backward_args backward_args() const;
  // Brings everything back; damage() and compare_input() then speak of it.
  Result<void> fetch();
  std::optional<std::string> damage() const;
  CompareInput compare_input(int variant) const;
  // The bytes of all output buffers, for a comparison of two runs.
  std::vector<std::vector<std::byte>> outputs() const;

 private:
  struct Buffer {
    explicit Buffer(std::string name) : host(std::move(name)) {}
    GuardedBuffer host;
    std::vector<std::byte> fetched;
    std::uint64_t address = 0;
    std::vector<Placement> written;  // elements that the launches may write
    std::int64_t scratch_begin = 0;  // likewise, bytes
    std::int64_t scratch_bytes = 0;
    bool output = false;
  };
  struct Tensor {
    Buffer* buffer = nullptr;
    Placement at;
    explicit operator bool() const noexcept { return buffer != nullptr; }
  };

  Buffer& add_buffer(std::string name);
  Tensor add_tensor(const std::string& name, const Placement& shape, std::int64_t row_gap, bool output);
  void add_token_tensors(const std::string& first_name, const std::string& second_name, Tensor& first, Tensor& second,
                         std::int64_t more_gap, bool output);
  Tensor add_table(const std::string& name, const std::vector<std::int32_t>& values);
  void fill(const Tensor& tensor, double scale, std::uint64_t stream);
  void plant(const Windows& windows);
  void set_traps(const Windows& windows);
  csajit_tensor argument(const Tensor& tensor) const;
  std::uint64_t address(const Tensor& tensor) const;
  TensorBytes bytes_of(const Tensor& tensor, bool as_uploaded) const;

  CheckDevice& device_;
  const CheckCase& check_;
  unsigned threads_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Tensor kv_, score_, ape_, grad_out_, cu_, comp_;
  Tensor out_, grad_kv_, grad_score_, grad_ape_;
  Buffer* workspace_ = nullptr;
  std::uint64_t workspace_bytes_ = 0;
};

}  // namespace csajit::tool
