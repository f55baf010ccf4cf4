#include "cli/inspect/profile.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/frame/context.h"
#include "cli/frame/usage.h"
#include "cli/inspect/profile_subject.h"
#include "formats/files.h"
#include "lab/profile/picture.h"
#include "lab/profile/profile.h"
#include "lab/profile/table.h"
#include "lab/profile/worth.h"
#include "lab/progress.h"
#include "lab/run.h"
#include "lab/stats.h"
#include "lab/table.h"
#include "lab/timer.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

const std::string kEager = "eager", kCompiled = "compiled";

struct ProfileChoice {
  SubjectOptions subject;
  int calls = 10;
  size_t top = 15;
  int threads = 0;  // 0: ATen's choice
  std::string ranges, trace, flame, json;
  bool quick = false, no_color = false, quiet = false;
};

struct Findings {
  std::vector<double> eager_ms, compiled_ms;  // of the whole, without the profiler
  lab::Profile profile;
  std::vector<lab::RegionGain> gains;  // what saves most first

  double measured_saving() const { return 1 - lab::median(compiled_ms) / lab::median(eager_ms); }
};

lab::RegionGain gain_of(const SubjectRegion& region, const lab::Profile& profile,
                        const lab::MeasureOptions& options) {
  lab::RegionGain gain;
  gain.name = region.name;
  gain.calls = region.calls;
  // By medians: one call that the system interrupted must not decide what is worth compiling.
  const auto rows = lab::range_rows(profile, kEager);
  for (const lab::RangeRow& row : rows)
    if (row.range == kEager + '/' + region.name)
      gain.share = std::min(1.0, region.calls * row.median_us / rows[0].median_us);
  const auto timed = lab::measure(
      {{kEager, region.instance.eager.run}, {kCompiled, region.compiled.run}}, options);
  gain.eager_ms = lab::median(timed[0].ms);
  gain.compiled_ms = lab::median(timed[1].ms);
  const Report report = region.compiled.report();
  gain.compile_ms = report.compile_ms;
  gain.stays_eager = report.verdict != Verdict::Faster;
  if (gain.stays_eager) gain.note = std::string("stays eager: ") + to_string(report.verdict);
  return gain;
}

Findings examine(const Subject& subject, const ProfileChoice& choice, lab::Progress* progress) {
  const auto begin = [&](const std::string& what) {
    if (progress != nullptr) progress->begin(what);
  };
  lab::MeasureOptions options;
  options.min_time = choice.quick ? 0.05 : 0.5;
  options.min_samples = choice.quick ? 3 : 10;
  if (progress != nullptr)
    options.progress = [&](double done, const std::string& what) { progress->at(done, what); };

  Findings out;
  begin("timing eager and compiled");
  auto timed = lab::measure({{kEager, subject.eager}, {kCompiled, subject.compiled}}, options);
  out.eager_ms = std::move(timed[0].ms);
  out.compiled_ms = std::move(timed[1].ms);
  begin("profiling");
  out.profile = lab::profile(
      [&] {
        {
          const lab::ProfileRange range(kEager);
          subject.eager();
        }
        const lab::ProfileRange range(kCompiled);
        subject.compiled();
      },
      {.calls = choice.calls});
  begin("timing each region");
  for (const SubjectRegion& region : subject.regions) {
    if (progress != nullptr) {
      options.progress = [&](double done, const std::string& what) {
        const double before = static_cast<double>(out.gains.size());
        progress->at((before + done) / static_cast<double>(subject.regions.size()),
                     region.name + ", " + what);
      };
    }
    out.gains.push_back(gain_of(region, out.profile, options));
  }
  lab::order_by_saving(out.gains);
  return out;
}

/// The whole programs, and what a workload names within itself, as a training step its parts.
std::string default_ranges() {
  return "^(" + kEager + '|' + kCompiled + ")(/[^/]+/[^/]+)?$";
}

void print_findings(std::ostream& out, const Subject& subject, const Findings& found,
                    const ProfileChoice& choice, bool colour) {
  const auto heading = [&](const std::string& text) {
    out << '\n' << lab::styled(text, lab::Style::Bold, colour) << '\n';
  };
  const double eager = lab::median(found.eager_ms), compiled = lab::median(found.compiled_ms);
  const int threads = at::get_num_threads();
  out << subject.title << ", " << threads << (threads == 1 ? " thread: eager " : " threads: eager ")
      << lab::number(eager) << " ms, compiled " << lab::number(compiled) << " ms, "
      << lab::number(eager / compiled) << "x\n"
      << found.profile.calls << " calls of each were profiled; the profiler added "
      << lab::percent_text(std::max(
             0.0, lab::median(found.profile.call_ms) / lab::median(found.profile.plain_ms) - 1))
      << " to a call\n";
  std::vector<std::string> ranges;
  for (const std::string& program : {kEager, kCompiled}) {
    const auto rows = lab::range_rows(found.profile, program);
    heading("Ranges of " + program + ", over all calls");
    lab::table_of(rows).print(out, colour);
    for (const lab::RangeRow& row : rows) ranges.push_back(row.range);
  }
  const std::regex pattern(choice.ranges.empty() ? default_ranges() : choice.ranges);
  for (const std::string& range : ranges) {
    if (!std::regex_search(range, pattern)) continue;
    heading("Operators in " + range + ", by self time over all calls");
    lab::table_of(lab::operator_rows(found.profile, range), choice.top).print(out, colour);
  }
  heading("Kinds of work");
  lab::kind_table(found.profile, {kEager, kCompiled}).print(out, colour);
  // Each program and the workload in it are the same.
  if (ranges.size() > 4) {
    heading("Kinds of work by range");
    lab::kinds_by_range(found.profile, ranges).print(out, colour);
  }
  heading("Regions worth compiling, by what that saves of the eager program");
  lab::table_of(found.gains).print(out, colour);
  out << "\nTogether they should save " << lab::percent_text(lab::total_saving(found.gains))
      << "; the whole program, compiled, was measured to save "
      << lab::percent_text(found.measured_saving()) << ".\n";
}

nlohmann::json to_json(const Subject& subject, const Findings& found, const ProfileChoice& choice,
                       nlohmann::json context) {
  return {{"schema_version", lab::kSchemaVersion},
          {"context", std::move(context)},
          {"workload", choice.subject.name},
          {"title", subject.title},
          {"eager_ms", found.eager_ms},
          {"compiled_ms", found.compiled_ms},
          {"predicted_saving", lab::total_saving(found.gains)},
          {"measured_saving", found.measured_saving()},
          {"regions", lab::to_json(found.gains)},
          {"profile", lab::to_json(found.profile)}};
}

void run_profile(const ProfileChoice& choice) {
  pattern_of("--ranges", choice.ranges, "'eager/.*gelu'.");
  check_writable("--trace", choice.trace);
  check_writable("--flame", choice.flame);
  check_writable("--json", choice.json);
  if (choice.threads > 0) at::set_num_threads(choice.threads);
  const c10::NoGradGuard no_grad;  // as bench
  std::unique_ptr<lab::Progress> progress;
  if (!choice.quiet)
    progress = std::make_unique<lab::Progress>(std::cerr, isatty(STDERR_FILENO) == 1,
                                               subject_steps(choice.subject) + 3);
  nlohmann::json context = run_context();
  if (!choice.quiet) warn_if_busy(context);
  const Subject subject = make_subject(choice.subject, progress.get());
  const Findings found = examine(subject, choice, progress.get());
  progress.reset();
  print_findings(std::cout, subject, found, choice,
                 !choice.no_color && lab::colour_wanted(STDOUT_FILENO));
  if (!choice.trace.empty()) formats::write_file(choice.trace, lab::trace_json(found.profile));
  if (!choice.flame.empty())
    formats::write_file(choice.flame, lab::flame_graph(found.profile, subject.title));
  if (!choice.json.empty())
    formats::write_file(choice.json,
                        to_json(subject, found, choice, std::move(context)).dump(1) + '\n');
}

}  // namespace

void add_profile(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("profile", "Show where the time goes, and what is worth compiling");
  const auto o = std::make_shared<ProfileChoice>();
  command
      ->add_option("workload", o->subject.name, "One of 'graft list', or minilm: the demo's model")
      ->required();
  command->add_option("--calls", o->calls, "Profiled calls (10)")->check(CLI::Range(1, 100000));
  command->add_option("--top", o->top, "Rows of an operator table (15)");
  command->add_option("--ranges", o->ranges,
                      "Operator tables of the ranges with a match of this regular expression "
                      "(eager, compiled, and the parts that a workload names)");
  command->add_option("--trace", o->trace, "Write a timeline for ui.perfetto.dev to this file");
  command->add_option("--flame", o->flame, "Write a flame graph (SVG) to this file");
  command->add_option("--json", o->json, "Write all tables to this file");
  command->add_option("--batch", o->subject.batch, "Texts that minilm encodes at once (8)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--length", o->subject.length, "Tokens of each (64)")
      ->check(CLI::Range(2, 256));
  command->add_option("--model", o->subject.model, "MiniLM's folder");
  command->add_option("--threads", o->threads, "ATen's threads")->check(CLI::Range(1, 1024));
  command->add_option("--seed", o->subject.seed, "Of a workload's inputs (0)");
  add_axis_flag(*command, o->subject.axes);
  command->add_flag("--small", o->subject.small, "Tiny inputs: to try the command");
  command->add_flag("--quick", o->quick, "A first look: shorter timings");
  command->add_flag("--no-color", o->no_color,
                    "Plain text on a terminal too; NO_COLOR does the same");
  command->add_flag("--quiet", o->quiet, "No progress");
  add_compile_flags(*command, o->subject.compile);
  command->callback([o] { run_profile(*o); });
}

}  // namespace graft::cli
