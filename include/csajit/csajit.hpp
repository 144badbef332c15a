// csajit for C++17: owners and exceptions over the C API of csajit.h, and nothing else. Header-only; adds no
// symbol to the library.
//
//   csajit::Service service;                             // CSAJIT_* environment, default cache
//   const csajit::Spec spec = csajit::Spec().ratio(4).head_dim(512).coff(2);
//   service.prepare(spec, stream);
//   service.forward(spec, args, stream);                 // throws csajit::Error
//
// What each call does, its bounds, threads and lifetimes are said in csajit.h.
#ifndef CSAJIT_CSAJIT_HPP
#define CSAJIT_CSAJIT_HPP

#include <csajit/csajit.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace csajit {
// Keeps these names apart, in every symbol, from those inside the library.
inline namespace host_v1 {

// A status other than CSAJIT_OK, with the message of csajit_last_error.
class Error : public std::exception {
 public:
  Error(csajit_status status, std::string message)
      : status_(status), text_(std::string(csajit_status_string(status)) + ": " + std::move(message)) {}

  csajit_status status() const noexcept { return status_; }
  // "CSAJIT_E_COMPILE: ..."
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  csajit_status status_;
  std::string text_;
};

// The calling thread's last error message, whole.
inline std::string last_error() {
  std::string message(csajit_last_error(nullptr, 0), '\0');
  csajit_last_error(&message[0], message.size());
  message.pop_back();  // the terminator
  return message;
}

// Throws Error unless status is CSAJIT_OK.
inline void check(csajit_status status) {
  if (status != CSAJIT_OK) throw Error(status, last_error());
}

// A struct of the C API with every field at its default and struct_size set.
template <class T>
T make() {
  T value{};
  value.struct_size = static_cast<std::uint32_t>(sizeof(T));
  return value;
}

// What a kernel is specialised for; see csajit_spec. Converts to the C struct.
class Spec {
 public:
  Spec& ratio(std::uint32_t value) { return set(spec_.ratio, value); }
  Spec& head_dim(std::uint32_t value) { return set(spec_.head_dim, value); }
  Spec& coff(std::uint32_t value) { return set(spec_.coff, value); }
  Spec& kv_dtype(csajit_dtype value) { return set(spec_.kv_dtype, value); }
  Spec& score_dtype(csajit_dtype value) { return set(spec_.score_dtype, value); }
  Spec& out_dtype(csajit_dtype value) { return set(spec_.out_dtype, value); }
  Spec& ape(csajit_ape value) { return set(spec_.ape, value); }

  const csajit_spec* get() const noexcept { return &spec_; }

 private:
  Spec& set(std::uint32_t& field, std::uint32_t value) {
    field = value;
    return *this;
  }

  csajit_spec spec_ = make<csajit_spec>();
};

// Bytes of workspace for a backward with total_comp rows.
inline std::uint64_t workspace_size(const Spec& spec, std::int64_t total_comp) {
  std::uint64_t bytes = 0;
  check(csajit_workspace_size(spec.get(), total_comp, &bytes));
  return bytes;
}

// Unloads what csajit loaded into a context (nullptr: the current one); mind the precondition in csajit.h.
inline void unload_context(CUctx_st* context = nullptr) { check(csajit_unload_context(context)); }

// Owns a csajit_service. Movable; a moved-from one may only be destroyed or assigned to.
class Service {
 public:
  Service() { check(csajit_service_create(nullptr, &service_)); }
  explicit Service(const csajit_service_options& options) { check(csajit_service_create(&options, &service_)); }
  Service(Service&& other) noexcept : service_(std::exchange(other.service_, nullptr)) {}
  Service& operator=(Service&& other) noexcept {
    std::swap(service_, other.service_);
    return *this;
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() { csajit_service_destroy(service_); }

  csajit_service* get() const noexcept { return service_; }

  // The architecture that kernels of `spec` would be compiled for: on `arch`, or on the current context's device.
  // Throws where the spec cannot be served.
  std::string check_spec(const Spec& spec, const char* arch = nullptr) const {
    char name[32] = {};
    check(csajit_check_spec(service_, spec.get(), arch, name, sizeof(name)));
    return name;
  }

  // Compiles into the cache; needs no GPU.
  void build(const Spec& spec, const csajit_build_options& options) const {
    check(csajit_build(service_, spec.get(), &options));
  }
  void build(const Spec& spec, const char* arch) const {
    auto options = make<csajit_build_options>();
    options.arch = arch;
    build(spec, options);
  }

  // Compiles or loads all that launches of `spec` in the stream's context will need.
  void prepare(const Spec& spec, CUstream_st* stream) const { check(csajit_prepare(service_, spec.get(), stream)); }

  void forward(const Spec& spec, const csajit_forward_args& args, CUstream_st* stream) const {
    check(csajit_forward(service_, spec.get(), &args, stream));
  }
  void backward(const Spec& spec, const csajit_backward_args& args, CUstream_st* stream) const {
    check(csajit_backward(service_, spec.get(), &args, stream));
  }

  csajit_statistics statistics() const {
    auto statistics = make<csajit_statistics>();
    check(csajit_get_statistics(service_, &statistics));
    return statistics;
  }

 private:
  csajit_service* service_ = nullptr;
};

}  // namespace host_v1
}  // namespace csajit

#endif  // CSAJIT_CSAJIT_HPP
