#include "graft/report.h"

#include <algorithm>
#include <ostream>
#include <sstream>

#include "runtime/process/text.h"

namespace graft {

namespace {

using runtime::count_of;
using runtime::duration;

std::string headline(const Report& report) {
  switch (report.verdict) {
    case Verdict::NotCalled:
      return "not called yet";
    case Verdict::Break:
      return "eager: graph break";
    case Verdict::Compiling:
      return "compiling; calls stay eager meanwhile";
    case Verdict::Proving:
      return report.family_calls > 0
                 ? "compiled, for other sizes; the newest record is being proven against eager"
                 : "being proven against eager";
    case Verdict::Faster:
      return "compiled";
    case Verdict::NotFaster:
      return "eager: compiled is equal, but not faster";
    case Verdict::Mismatch:
      return "eager: compiled gave another result";
    case Verdict::Failed:
      return "eager: compiling or running the plan failed";
  }
  return {};
}

class Page {
 public:
  void line(const std::string& label, const std::string& text) {
    out_ << "  " << label << std::string(label.size() < 10 ? 10 - label.size() : 1, ' ') << text
         << '\n';
  }
  void raw(const std::string& text) { out_ << text << '\n'; }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

void print_times(const Report& report, Page& page) {
  if (report.eager_us > 0 && report.compiled_us > 0) {
    std::ostringstream ratio;
    ratio.precision(3);
    ratio << duration(report.eager_us) << " eager, " << duration(report.compiled_us)
          << " compiled: " << report.eager_us / report.compiled_us << "x";
    page.line("speed", ratio.str());
  }
  if (report.compared) {
    std::ostringstream equal;
    equal.precision(3);
    equal << (report.verdict == Verdict::Mismatch ? "differ from eager's"
              : report.bitwise                    ? "bitwise eager's"
              : report.fp64_decided ? "beyond tolerance of eager's; fp64 decided for them"
                                    : "within tolerance of eager's");
    const bool says_more = report.verdict != Verdict::Mismatch || report.max_abs_diff > 0;
    if (!report.bitwise && says_more) equal << "; largest difference " << report.max_abs_diff;
    page.line("results", equal.str());
  }
}

void print_operators(const Report& report, Page& page) {
  if (report.operators.empty()) return;
  size_t width = 0;
  for (const OperatorReport& row : report.operators) width = std::max(width, row.name.size());
  page.raw("");
  for (const OperatorReport& row : report.operators) {
    std::ostringstream line;
    line << "  " << row.name << std::string(width - row.name.size() + 2, ' ');
    std::string count = row.count > 1 ? "x" + std::to_string(row.count) : "";
    line << count << std::string(count.size() < 6 ? 6 - count.size() : 1, ' ') << row.fate;
    if (!row.why.empty()) line << ": " << row.why;
    page.raw(line.str());
  }
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::NotCalled:
      return "not called";
    case Verdict::Break:
      return "break";
    case Verdict::Compiling:
      return "compiling";
    case Verdict::Proving:
      return "proving";
    case Verdict::Faster:
      return "faster";
    case Verdict::NotFaster:
      return "not faster";
    case Verdict::Mismatch:
      return "mismatch";
    case Verdict::Failed:
      return "failed";
  }
  return "unknown";
}

std::string Report::text() const {
  Page page;
  page.raw(name + ": " + headline(*this));
  if (!reason.empty()) page.line("why", reason);
  print_times(*this, page);
  if (calls > 0)
    page.line("calls", std::to_string(calls) + ", " + std::to_string(plan_hits) +
                           " of them compiled; " + count_of(records, "record") + ", " +
                           count_of(plans, "plan") + ", " + count_of(breaks, "break"));
  if (!recorded_again.empty()) page.line("again", "recorded again: " + recorded_again);
  if (kernels > 0)
    page.line(
        "code",
        count_of(kernels, "kernel") + " in the newest plan; " +
            (found ? "found, linked in " : std::to_string(kernels_compiled) + " compiled, in ") +
            duration(compile_ms * 1e3) + "; recording and planning " + duration(record_ms * 1e3));
  if (folded_bytes > 0)
    page.line("folded", std::to_string(folded_bytes) +
                            " bytes, computed once of captured tensors: again when these change");
  if (backward_kernels > 0)
    page.line("backward", count_of(backward_kernels, "kernel") + "; the forward keeps " +
                              std::to_string(kept_bytes) + " bytes for it");
  for (const std::string& family : families) page.line("sizes", family);
  for (const std::string& way : tuned) page.line("tuned", way);
  print_operators(*this, page);
  return page.text();
}

std::ostream& operator<<(std::ostream& out, const Report& report) {
  return out << report.text();
}

}  // namespace graft
