#include "quantizer/command/quantize_summary.h"

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "lab/memory/resident.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using lab::Align;
using lab::number;
using quantizer::LayerReport;
using quantizer::LinearReport;
using quantizer::QuantizeReport;
using quantizer::Settings;

std::string bytes(int64_t n) {
  return lab::bytes_text(static_cast<double>(n));
}

void print_linears(std::ostream& out, const QuantizeReport& report, bool color) {
  // Linear layers of one kind together: their names less the layer's number.
  struct Kind {
    std::string name;
    int64_t count = 0, rows = 0, columns = 0, dead = 0;
    double loss = 0, total = 0, factor = 0, process = 0, update = 0;
  };
  std::vector<Kind> kinds;
  for (const LayerReport& layer : report.layers) {
    for (const LinearReport& linear : layer.linears) {
      const std::string index = '.' + std::to_string(layer.layer) + '.';
      std::string name = linear.module;
      if (const size_t at = name.find(index); at != name.npos) name.erase(0, at + index.size());
      auto kind =
          std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.name == name; });
      if (kind == kinds.end())
        kind = kinds.insert(kind, {.name = name, .rows = linear.rows, .columns = linear.columns});
      ++kind->count;
      kind->dead += linear.dead_columns;
      kind->loss += linear.loss;
      kind->total += linear.times.total;
      kind->factor += linear.times.factor;
      kind->process += linear.times.process;
      kind->update += linear.times.update;
    }
  }
  lab::Table table({{"linear layer"},
                    {"count", Align::Right},
                    {"shape", Align::Right},
                    {"loss", Align::Right},
                    {"dead inputs", Align::Right},
                    {"ms each", Align::Right},
                    {"Cholesky", Align::Right},
                    {"blocks", Align::Right},
                    {"update", Align::Right}});
  for (const Kind& kind : kinds) {
    const auto count = static_cast<double>(kind.count);
    table.row({kind.name, std::to_string(kind.count),
               std::to_string(kind.rows) + " x " + std::to_string(kind.columns),
               number(kind.loss / count), std::to_string(kind.dead), number(kind.total / count),
               kind.factor > 0 ? number(kind.factor / count) : "shared",
               number(kind.process / count), number(kind.update / count)});
  }
  table.print(out, color);
}

void print_facts(std::ostream& out, const QuantizeReport& report, const Settings& settings,
                 bool color) {
  int64_t linears = 0, resumed = 0, raised = 0;
  double dampening = 0;
  for (const LayerReport& layer : report.layers) {
    linears += static_cast<int64_t>(layer.linears.size());
    resumed += layer.resumed ? 1 : 0;
    for (const LinearReport& linear : layer.linears) {
      raised += linear.dampening > settings.dampening ? 1 : 0;
      dampening = std::max(dampening, linear.dampening);
    }
  }
  const auto ratio = [](int64_t before, int64_t after) {
    const auto a = static_cast<double>(before), b = static_cast<double>(after);
    if (after > before) return number(b / std::max(a, 1.0)) + "x larger";
    return number(a / std::max(b, 1.0)) + "x smaller";
  };
  lab::Table table({{"fact"}, {"value"}});
  table.row({"model", report.architecture + ", " +
                          lab::count_text(static_cast<int64_t>(report.layers.size()), "layer") +
                          ", " + lab::count_text(linears, "linear layer") + " quantised"});
  table.row({"codes", std::to_string(settings.bits) + " bits, " +
                          (settings.symmetric ? "symmetric" : "asymmetric") + ", " +
                          (settings.group > 0 ? "groups of " + std::to_string(settings.group)
                                              : std::string("one scale per row")) +
                          (settings.act_order ? ", by activation" : "")});
  table.row({"calibration", report.calibration + ", " + lab::count_text(report.samples, "sample") +
                                ", " + lab::count_text(report.tokens, "token")});
  if (raised > 0) {
    table.row({"dampening", "raised for " + lab::count_text(raised, "linear layer") +
                                ", with singular Hessians, to " + number(dampening) + " at most"});
  }
  table.row({"linear layers", bytes(report.linears_source_bytes) + " -> " +
                                  bytes(report.linears_bytes) + ", " +
                                  ratio(report.linears_source_bytes, report.linears_bytes)});
  table.row({"whole model", bytes(report.source_bytes) + " -> " + bytes(report.bytes) + ", " +
                                ratio(report.source_bytes, report.bytes)});
  table.row({"loss", number(report.loss())});
  table.row({"results", "cosine to the original's " + number(report.similarity.mean, 5) +
                            " on average, " + number(report.similarity.least, 5) +
                            " at least, of " + std::to_string(report.similarity.vectors) +
                            " vectors"});
  table.row({"time", lab::duration_text(report.seconds) +
                         (resumed > 0 ? ", without " + lab::count_text(resumed, "layer") +
                                            " that earlier runs did"
                                      : "")});
  table.row({"memory", bytes(lab::read_resident().peak) + " at most, mapped files included"});
  if (report.compiled) {
    const Report& compiled = *report.compiled;
    table.row({"compiled", lab::count_text(compiled.calls, "call") + ", " +
                               lab::count_text(compiled.records, "record") + ", " +
                               lab::count_text(compiled.kernels_compiled, "compiled kernel") +
                               ", " + lab::count_text(compiled.plan_hits, "plan hit") + ", " +
                               lab::count_text(compiled.breaks, "break") +
                               "; newest plan: " + to_string(compiled.verdict)});
  }
  table.print(out, color);
}

}  // namespace

void print(std::ostream& out, const QuantizeReport& report, const Settings& settings, bool color) {
  print_linears(out, report, color);
  out << '\n';
  print_facts(out, report, settings, color);
}

}  // namespace graft::cli
