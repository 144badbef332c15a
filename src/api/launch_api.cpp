// Entry points that launch, and the workspace that a backward needs.
#include <csajit/csajit.h>

#include <utility>

#include "api/arguments.hpp"
#include "api/entry.hpp"
#include "api/struct_reader.hpp"
#include "compressor/problem.hpp"
#include "service/launch.hpp"

namespace csajit {
namespace {

template <class Args>
Result<void> launch_call(csajit_service* service, const csajit_spec* spec, const Args* args, CUstream_st* stream) {
  auto user = enabled_service(service);
  if (!user) return std::move(user).error();
  auto parsed = read_spec(spec);
  if (!parsed) return std::move(parsed).error();
  Args storage;
  auto read = read_struct(args, storage, "args");
  if (!read) return std::move(read).error();
  return launch(**user, *parsed, **read, stream);
}

}  // namespace
}  // namespace csajit

extern "C" {

csajit_status csajit_workspace_size(const csajit_spec* spec, int64_t total_comp, uint64_t* bytes) {
  return csajit::enter([&]() -> csajit::Result<void> {
    if (bytes == nullptr) return csajit::detail::null_argument("bytes");
    auto parsed = csajit::read_spec(spec);
    if (!parsed) return std::move(parsed).error();
    auto needed = csajit::workspace_bytes(*parsed, total_comp);
    if (!needed) return std::move(needed).error();
    *bytes = *needed;
    return {};
  });
}

csajit_status csajit_forward(csajit_service* service, const csajit_spec* spec, const csajit_forward_args* args,
                             struct CUstream_st* stream) {
  return csajit::enter([&] { return csajit::launch_call(service, spec, args, stream); });
}

csajit_status csajit_backward(csajit_service* service, const csajit_spec* spec, const csajit_backward_args* args,
                              struct CUstream_st* stream) {
  return csajit::enter([&] { return csajit::launch_call(service, spec, args, stream); });
}

}  // extern "C"
