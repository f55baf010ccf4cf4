#include "cli/measure/attention_sweep.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <graft/graft.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <regex>
#include <set>
#include <utility>

#include "cli/frame/context.h"
#include "cli/frame/usage.h"
#include "formats/files.h"
#include "lab/memory/available.h"
#include "lab/memory/memory.h"
#include "lab/progress.h"
#include "lab/run.h"
#include "lab/stats.h"
#include "lab/table.h"
#include "lab/timer.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;
using Attention = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>;

constexpr double kScores = 6;       ///< of the formula: scores and their copies, both ways
constexpr double kHeadTensors = 9;  ///< q, k, v, the result, and their gradients

struct SweepOptions {
  bool sweep = false, flash = false, quick = false, inference = false;
  std::vector<int64_t> sequences{1024}, head_sizes{64};
  std::vector<std::string> dtypes{"f32"}, masks{"causal"};
  int64_t batch = 1, heads = 8, passes = 100;
  std::string json;
};

struct Sizes {
  std::string dtype, mask;
  int64_t batch, heads, sequence, head_size;
  at::ScalarType type() const { return dtype == "bf16" ? at::kBFloat16 : at::kFloat; }
  bool causal() const { return mask == "causal"; }
  std::map<std::string, std::string> config() const {
    return {{"dtype", dtype},
            {"mask", mask},
            {"sequence", std::to_string(sequence)},
            {"head_size", std::to_string(head_size)}};
  }
  double bytes(double each) const {
    return each * static_cast<double>(batch * heads) * static_cast<double>(sequence) *
           static_cast<double>(c10::elementSize(type()));
  }
  double fused_bytes() const { return bytes(kHeadTensors * static_cast<double>(head_size)); }
  double formula_bytes() const {
    return fused_bytes() + bytes(kScores * static_cast<double>(sequence));
  }
  Tensor draw() const { return at::randn({batch, heads, sequence, head_size}).to(type()); }
};

Tensor formula(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (causal) {
    const Tensor later = at::ones({q.size(-2), k.size(-2)}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  return at::matmul(at::softmax(scores, -1), v);
}

/// One way to compute it, and what was measured of it.
struct Side {
  std::string name;
  Attention attention;
  std::vector<double> forward_ms = {}, backward_ms = {};
  int64_t held = -1;  ///< bytes between forward and backward
  std::string skipped = {};
  std::string block = {};  ///< of the compiled one: rows of a block
};

class Measurement {
 public:
  Measurement(const Sizes& sizes, const SweepOptions& options) : sizes_(sizes), options_(options) {
    for (Tensor& t : inputs_) t = sizes.draw().requires_grad_();
    direction_ = sizes.draw();
    const bool causal = sizes.causal();
    const Attention plain = [causal](const Tensor& q, const Tensor& k, const Tensor& v) {
      return formula(q, k, v, causal);
    };
    Options compile_options;
    compile_options.name = "attention";
    compile_options.cache = false;
    compiled_ = std::make_unique<decltype(compile(plain))>(compile(plain, compile_options));
    sides_ = {{"eager", plain},
              {"graft", [this](const Tensor& q, const Tensor& k,
                               const Tensor& v) { return (*compiled_)(q, k, v); }},
              {"aten_fused", [causal](const Tensor& q, const Tensor& k, const Tensor& v) {
                 return at::scaled_dot_product_attention(q, k, v, {}, 0, causal);
               }}};
  }

  std::vector<Side> run() {
    const c10::AutoGradMode grad(!options_.inference);
    const auto free = static_cast<double>(lab::available_memory());
    for (Side& side : sides_) {
      const double need = side.name == "aten_fused" ? sizes_.fused_bytes() : sizes_.formula_bytes();
      if (free > 0 && need > 0.9 * free)
        side.skipped = "needs about " + lab::bytes_text(need) + ", " + lab::bytes_text(free) +
                       " are free" +
                       (side.name == "graft" ? ": it is recorded by running eagerly once" : "");
      else
        prepare(side);
    }
    const auto end = Clock::now() + std::chrono::milliseconds(options_.quick ? 600 : 6000);
    for (int64_t pass = 0; pass < options_.passes && (pass < 3 || Clock::now() < end); ++pass)
      for (Side& side : sides_)
        if (side.skipped.empty()) measure(side);
    return std::move(sides_);
  }

 private:
  Tensor forward(const Side& side) const {
    return side.attention(inputs_[0], inputs_[1], inputs_[2]);
  }
  void backward(const Tensor& out) const {
    if (options_.inference) return;
    torch::autograd::grad({out}, {inputs_[0], inputs_[1], inputs_[2]}, {direction_});
  }

  void prepare(Side& side) const {
    const bool compiles = side.name == "graft";
    const auto both = [&] { backward(forward(side)); };
    if (compiles) {
      workloads::CompiledCall call;
      call.run = both;
      call.report = [this] { return compiled_->report(); };
      call.wait = [this] { compiled_->wait(); };
      settle(call);
    } else {
      both();
    }
    {
      const lab::MemoryTracker tracker;
      const int64_t before = tracker.live_bytes();
      const Tensor out = forward(side);
      side.held = tracker.live_bytes() - before;
    }
    if (compiles && compiled_->report().verdict == Verdict::Faster)
      side.block = block_of(compiled_->explain());
  }

  void measure(Side& side) const {
    Tensor out;
    side.forward_ms.push_back(lab::time_once_ms([&] { out = forward(side); }));
    if (!options_.inference) side.backward_ms.push_back(lab::time_once_ms([&] { backward(out); }));
  }

  /// Rows of a block in the forward's kernel: of the first loop in the first kernel with a product.
  static std::string block_of(const std::string& explained) {
    static const std::regex kernel(R"(kernel [a-z_]*product[a-z_]* [^\n]*\n(?:  scratch [^\n]*\n)*)"
                                   R"((?:  (?:serial|vector) v\d+:\d+\n(?:    [^\n]*\n)*)*?)"
                                   R"(  (?:serial|step) v\d+:(\d+)\n    serial)");
    std::smatch found;
    return std::regex_search(explained, found, kernel) ? found[1].str() : "-";
  }

  const Sizes sizes_;
  const SweepOptions& options_;
  Tensor inputs_[3];
  Tensor direction_;
  std::unique_ptr<decltype(compile(std::declval<Attention>()))> compiled_;
  std::vector<Side> sides_;
};

void add_rows(const Sizes& sizes, const std::vector<Side>& sides, lab::Run& run) {
  for (const bool is_forward : {true, false})
    for (const Side& side : sides) {
      lab::Row row;
      row.name = is_forward ? "attention_forward" : "attention_backward";
      row.config = sizes.config();
      row.variant = side.name;
      row.threads = at::get_num_threads();
      row.samples_ms = is_forward ? side.forward_ms : side.backward_ms;
      if (!side.skipped.empty()) row.status = lab::Status::Skipped, row.error = side.skipped;
      if (is_forward && side.held >= 0)
        run.context["held_between_bytes"][row.case_name()][side.name] = side.held;
      run.rows.push_back(std::move(row));
    }
}

std::vector<lab::Cell> cells(const Sizes& sizes, const std::vector<Side>& sides) {
  std::vector<lab::Cell> row{sizes.dtype, sizes.mask, std::to_string(sizes.head_size),
                             std::to_string(sizes.sequence)};
  for (const auto samples : {&Side::forward_ms, &Side::backward_ms}) {
    for (const Side& side : sides)
      row.emplace_back((side.*samples).empty() ? "-" : lab::number(lab::median(side.*samples)));
    const std::vector<double>&fused = sides[2].*samples, &own = sides[1].*samples;
    if (fused.empty() || own.empty()) {
      row.emplace_back("-");
      continue;
    }
    const double times = lab::median(fused) / lab::median(own);
    row.emplace_back(lab::number(times) + "x", times >= 1 ? lab::Style::Good : lab::Style::Bad);
  }
  for (const Side& side : sides)
    row.emplace_back(side.held < 0 ? "-" : lab::bytes_text(static_cast<double>(side.held)));
  row.emplace_back(sides[1].block);
  return row;
}

std::vector<Sizes> all_sizes(const SweepOptions& o) {
  std::vector<Sizes> all;
  for (const std::string& dtype : o.dtypes)
    for (const std::string& mask : o.masks)
      for (int64_t head_size : o.head_sizes)
        for (int64_t sequence : o.sequences)
          all.push_back({dtype, mask, o.batch, o.heads, sequence, head_size});
  return all;
}

void run(const SweepOptions& options) {
  std::vector<lab::Column> columns{{"dtype"}, {"mask"}};
  for (const char* header :
       {"d", "length", "forward ms: eager", "graft", "fused", "fused/graft", "backward ms: eager",
        "graft", "fused", "fused/graft", "held between: eager", "graft", "fused", "rows"})
    columns.push_back({header, lab::Align::Right});
  lab::Table table(std::move(columns));
  lab::Run result;
  result.context = run_context();
  warn_if_busy(result.context);
  std::set<std::string> notes;
  const std::vector<Sizes> all = all_sizes(options);
  {
    lab::Progress progress(std::cerr, isatty(STDERR_FILENO) == 1, all.size());
    for (const Sizes& sizes : all) {
      progress.begin(sizes.dtype + ", " + sizes.mask + ", d " + std::to_string(sizes.head_size) +
                     ", length " + std::to_string(sizes.sequence));
      at::manual_seed(0);
      const std::vector<Side> sides = Measurement(sizes, options).run();
      pool_trim();
      table.row(cells(sizes, sides));
      for (const Side& side : sides)
        if (!side.skipped.empty())
          notes.insert("length " + std::to_string(sizes.sequence) + ", " + sizes.dtype + ", " +
                       side.name + ": " + side.skipped);
      add_rows(sizes, sides, result);
      if (!options.json.empty())
        formats::write_file(options.json, lab::to_json(result).dump(1) + '\n');
    }
  }
  table.print(std::cout, lab::colour_wanted(STDOUT_FILENO));
  for (const std::string& note : notes) std::cout << note << '\n';
  std::cout << "medians; " << options.batch << " x " << options.heads
            << " heads; held between: memory after the forward that the backward needs, the result "
               "included; rows: of a block in the compiled forward\n";
}

void choose_sizes(const CLI::App& command, SweepOptions& o) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  if (o.sweep || o.flash) {
    if (!given("--head-size")) o.head_sizes = {16, 32, 64, 128};
    if (!given("--sequence"))
      o.sequences = o.flash ? std::vector<int64_t>{128, 512, 2048, 8192, 16384, 32768, 65536}
                            : std::vector<int64_t>{256, 1024, 4096, 8192, 16384};
    if (!given("--heads")) o.heads = 1;
    if (!given("--batch")) o.batch = o.flash ? 1 : 8;
    if (o.flash && !given("--dtype")) o.dtypes = {"f32", "bf16"};
    if (o.flash && !given("--mask")) o.masks = {"causal", "none"};
  }
}

}  // namespace

void add_attention_sweep(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand(
      "attention", "The formula, the same compiled, and ATen's fused kernel, both ways, by size");
  const auto o = std::make_shared<SweepOptions>();
  command->add_flag("--sweep", o->sweep, "Widths 16 to 128, lengths 256 to 16384, batch 8");
  command->add_flag("--flash", o->flash,
                    "Lengths 128 to 65536, fp32 and bf16, with a causal mask and without");
  command->add_option("--sequence", o->sequences, "Lengths, joined by commas")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command->add_option("--head-size", o->head_sizes, "Widths of a head")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  command->add_option("--dtype", o->dtypes, "Of f32, bf16")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--mask", o->masks, "Of causal, none")
      ->delimiter(',')
      ->check(CLI::IsMember({"causal", "none"}));
  command->add_option("--batch", o->batch)->check(CLI::Range(1, 1 << 16));
  command->add_option("--heads", o->heads)->check(CLI::Range(1, 1 << 16));
  command->add_option("--passes", o->passes, "Of each side, at most")->check(CLI::Range(1, 100000));
  command->add_flag("--inference", o->inference, "Without gradients: the forward alone");
  command->add_flag("--quick", o->quick, "0.6 s a size instead of 6");
  command->add_option("--json", o->json, "Every sample, as a file of 'graft bench' has them");
  command->callback([command, o] {
    choose_sizes(*command, *o);
    run(*o);
  });
}

}  // namespace graft::cli
