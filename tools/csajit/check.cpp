// `csajit check`: every case on this machine's GPU against double precision on the CPU, as a table.
#include <csajit/csajit.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "build_pool.hpp"
#include "check_case.hpp"
#include "check_gpu.hpp"
#include "check_run.hpp"
#include "command.hpp"
#include "parallel.hpp"
#include "progress.hpp"

namespace csajit::tool {
namespace {

struct CheckOptions {
  bool quick = false;
  std::string filter;
  int device = 0;
  bool json = false;
};

std::string full_name(const CheckCase& check) { return describe_spec(check) + ": " + check.name; }

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "PASS";
    case Verdict::fail:
      return "FAIL";
    default:
      return "SKIP";
  }
}

std::string error_text(double worst) { return worst < 0 ? "-" : fmt::format("{:.3f}", worst); }

class Check {
 public:
  explicit Check(const CheckOptions& options) : options_(options) {}

  int run() {
    for (CheckCase& check : check_cases()) {
      const bool chosen =
          (!options_.quick || check.quick) && full_name(check).find(options_.filter) != std::string::npos;
      if (chosen) cases_.push_back(std::move(check));
    }
    if (cases_.empty()) return report_usage(fmt::format("--filter: no case has \"{}\" in its name", options_.filter));
    Result<GpuDevice> gpu = open_gpu(options_.device);
    if (!gpu) return report(gpu.error());
    if (!options_.json) fmt::print("{} ({}), {} cases\n", gpu->name, gpu->arch, cases_.size());
    std::fflush(stdout);
    const auto start = std::chrono::steady_clock::now();
    compile_all(*gpu);
    print_header();
    run_cases(*gpu->device);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    print_end(*gpu);
    return failed_ == 0 && lost_ == 0 && passed_ > 0 ? exit_ok : exit_failure;
  }

 private:
  // All specs at once on all cores; what cannot be built says so in its case.
  void compile_all(const GpuDevice& gpu) const {
    std::vector<BuildJob> jobs;
    for (const CheckCase& check : cases_) {
      const BuildJob job{spec_of(check), gpu.arch};
      const bool known = std::any_of(jobs.begin(), jobs.end(),
                                     [&](const BuildJob& other) { return describe_job(other) == describe_job(job); });
      if (!known) jobs.push_back(job);
    }
    Progress progress(jobs.size(), "specs compiled or found", options_.json);
    BuildPoolOptions pool;
    pool.jobs = default_threads();
    pool.on_job = [&](std::size_t done) { progress.advance(done); };
    static_cast<void>(build_all(gpu.service, jobs, pool));
  }

  void run_cases(CheckDevice& device) {
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const CaseOutcome outcome = run_case(device, cases_[i], default_threads());
      switch (outcome.verdict) {
        case Verdict::pass:
          ++passed_;
          break;
        case Verdict::fail:
          ++failed_;
          break;
        default:
          ++skipped_;
      }
      print_case(cases_[i], outcome);
      if (outcome.verdict == Verdict::fail && !device.alive()) {
        lost_ = cases_.size() - i - 1;
        return;
      }
    }
  }

  void print_header() const {
    if (options_.json) return;
    fmt::print("\nLargest error of each output in units of the contract's bound (1.000 is the bound):\n");
    fmt::print("{:<26} {:<42} {:>7} {:>8} {:>11} {:>9} {:>7}\n", "spec", "case", "out", "grad_kv", "grad_score",
               "grad_ape", "ms");
  }

  void print_case(const CheckCase& check, const CaseOutcome& outcome) {
    if (options_.json) {
      nlohmann::json json{{"spec", describe_spec(check)},
                          {"case", check.name},
                          {"verdict", verdict_name(outcome.verdict)},
                          {"seconds", outcome.seconds}};
      for (std::size_t o = 0; o < num_outputs; ++o) {
        nlohmann::json worst;
        if (outcome.worst[o] >= 0) worst = outcome.worst[o];
        json["error_in_bounds"][name_of(static_cast<Output>(o))] = worst;
      }
      if (!outcome.message.empty()) json["message"] = outcome.message;
      json_cases_.push_back(json);
      return;
    }
    fmt::print("{:<26} {:<42} {:>7} {:>8} {:>11} {:>9} {:>7.0f}  {}\n", describe_spec(check), check.name,
               error_text(outcome.worst[0]), error_text(outcome.worst[1]), error_text(outcome.worst[2]),
               error_text(outcome.worst[3]), outcome.seconds * 1e3, verdict_name(outcome.verdict));
    if (!outcome.message.empty()) fmt::print("    {}\n", outcome.message);
    std::fflush(stdout);
  }

  void print_end(const GpuDevice& gpu) const {
    if (options_.json) {
      const nlohmann::json json{{"device", gpu.name},  {"arch", gpu.arch},    {"passed", passed_},
                                {"failed", failed_},   {"skipped", skipped_}, {"not_run", lost_},
                                {"seconds", seconds_}, {"cases", json_cases_}};
      fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
      return;
    }
    fmt::print("{} passed, {} failed, {} skipped in {:.1f} s\n", passed_, failed_, skipped_, seconds_);
    if (lost_ > 0) fmt::print("The GPU context was lost: {} cases were not run.\n", lost_);
  }

  const CheckOptions& options_;
  std::vector<CheckCase> cases_;
  std::size_t passed_ = 0;
  std::size_t failed_ = 0;
  std::size_t skipped_ = 0;
  std::size_t lost_ = 0;
  double seconds_ = 0;
  nlohmann::json json_cases_ = nlohmann::json::array();
};

}  // namespace

void add_check_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* const check =
      app.add_subcommand("check", "Run forward and backward on this GPU against double precision on the CPU");
  check->add_flag("--quick", options->quick, "A selection that takes some seconds once the kernels are in the cache");
  check->add_option("--filter", options->filter, "Only cases whose spec and name contain TEXT, as in \"r4 d128\"")
      ->type_name("TEXT");
  check->add_option("--device", options->device, "Number of the GPU")->check(CLI::NonNegativeNumber)->type_name("N");
  check->add_flag("--json", options->json, "Print JSON");
  check->footer(
      "\nEvery element y of every output must lie within\n"
      "  |y - oracle| <= 0.5 ulp of its type + 2^-20 * (sum of the absolute terms)      windows of up to 16 entries\n"
      "  |y - oracle| <= 0.5 ulp of its type + 2^-18 * (sum of the absolute terms)      longer ones, and head_dim 1\n"
      "where the terms of out are kv_k p_k; of grad_kv, g p_k; of grad_score, p_k g kv_k and p_k (g kv_i p_i) for\n"
      "every i of the window; of grad_ape, those of every row that adds to it. Where fp32 rounds a large exponent, "
      "p_k\n"
      "counts 1/2 + (|x_k| + |max x| + |x_k - max x|) / 16 times in them, if that is more than once. The table shows\n"
      "the largest error in units of that bound. Besides: every element is written, slots that no row consumes get\n"
      "+0 to the bit, NaN in slots that nobody may read stays there, no byte outside the outputs changes, and a\n"
      "second run gives the same bits. Cases named \"bad tables\" check only that the memory around the tensors\n"
      "survives.\n"
      "\nExit status 1 if a case fails or if there is no GPU. SKIP: a type that this build does not serve.");
  check->callback([&action, options] { action = [options] { return Check(*options).run(); }; });
}

}  // namespace csajit::tool
