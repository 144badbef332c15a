#include "compressor/spec.hpp"

#include <doctest/doctest.h>

using namespace csajit;

namespace {

csajit_spec spec_of(std::uint32_t ratio, std::uint32_t head_dim, std::uint32_t coff) {
  csajit_spec spec{};
  spec.struct_size = sizeof spec;
  spec.ratio = ratio;
  spec.head_dim = head_dim;
  spec.coff = coff;
  return spec;
}

void check_refused(const csajit_spec& spec, const char* field) {
  const auto parsed = parse_spec(spec);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.error().status == CSAJIT_E_INVALID_ARGUMENT);
  CHECK(parsed.error().message.find(field) == 0);
}

}  // namespace

TEST_CASE("a spec of zeros but for its sizes is bf16 with APE") {
  const auto parsed = parse_spec(spec_of(4, 512, 2));
  REQUIRE(parsed.ok());
  CHECK(parsed->kv == DType::bf16);
  CHECK(parsed->score == DType::bf16);
  CHECK(parsed->out == DType::bf16);
  CHECK(parsed->ape);
  CHECK(parsed->columns() == 1024);
  CHECK(parsed->window() == 8);
}

TEST_CASE("out takes kv's dtype unless it is given") {
  csajit_spec spec = spec_of(4, 128, 1);
  spec.kv_dtype = CSAJIT_DTYPE_FP32;
  CHECK(parse_spec(spec)->out == DType::fp32);
  CHECK(parse_spec(spec)->score == DType::bf16);
  spec.out_dtype = CSAJIT_DTYPE_FP16;
  CHECK(parse_spec(spec)->out == DType::fp16);
}

TEST_CASE("each field out of its range is refused by name") {
  check_refused(spec_of(0, 128, 1), "spec.ratio");
  check_refused(spec_of(257, 128, 1), "spec.ratio");
  check_refused(spec_of(4, 0, 1), "spec.head_dim");
  check_refused(spec_of(4, 65537, 1), "spec.head_dim");
  check_refused(spec_of(4, 128, 0), "spec.coff");
  check_refused(spec_of(4, 128, 3), "spec.coff");
  csajit_spec spec = spec_of(4, 128, 1);
  spec.kv_dtype = 4;
  check_refused(spec, "spec.kv_dtype");
  spec = spec_of(4, 128, 1);
  spec.score_dtype = 9;
  check_refused(spec, "spec.score_dtype");
  spec = spec_of(4, 128, 1);
  spec.out_dtype = 4;
  check_refused(spec, "spec.out_dtype");
  spec = spec_of(4, 128, 1);
  spec.ape = 2;
  check_refused(spec, "spec.ape");
}

TEST_CASE("windows up to 16 entries are short, but head_dim 1 never is") {
  CHECK(parse_spec(spec_of(8, 128, 2))->is_short());
  CHECK(parse_spec(spec_of(16, 128, 1))->is_short());
  CHECK_FALSE(parse_spec(spec_of(17, 128, 1))->is_short());
  CHECK_FALSE(parse_spec(spec_of(9, 128, 2))->is_short());
  CHECK_FALSE(parse_spec(spec_of(4, 1, 2))->is_short());
}

TEST_CASE("the text of a spec is what the warmup command takes") {
  csajit_spec spec = spec_of(4, 512, 2);
  CHECK(warmup_flags(*parse_spec(spec)) == "--ratio 4 --head-dim 512 --coff 2 --dtype bf16");
  spec.score_dtype = CSAJIT_DTYPE_FP32;
  spec.ape = CSAJIT_APE_ABSENT;
  CHECK(warmup_flags(*parse_spec(spec)) == "--ratio 4 --head-dim 512 --coff 2 --dtype bf16:fp32:bf16 --no-ape");
  CHECK(describe(*parse_spec(spec)) == "ratio=4 head_dim=512 coff=2 kv=bf16 score=fp32 out=bf16 ape=absent");
}
