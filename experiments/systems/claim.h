// A claim of the write-ups about an optimisation, put to the test on this machine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/frame/experiment.h"
#include "lab/timer.h"

namespace graft::experiments {

/// What a row says beside its times.
struct Facts {
  /// Of ours against the baseline: "largest difference 3e-4".
  std::string accuracy = {};
  /// Bytes that the baseline and ours hold or move; 0: not measured.
  double baseline_bytes = 0, bytes = 0;
  /// Ours, as a share of a bound that was measured here, and which: 0.83, "of memory bandwidth".
  std::optional<double> share = {};
  std::string share_of = {};
};

/// Where a claim's test puts what it measures. Not thread-safe.
class Trial {
 public:
  Trial(const Settings& settings, const Say& say) : settings(settings), say_(say) {}

  /// Times both in turns, prints nothing, and adds a row. Returns the speed-up of ours.
  lab::Ratio compare(const std::string& configuration, const lab::TimedVariant& baseline,
                     const lab::TimedVariant& ours, const Facts& facts = {});
  /// The same of samples in ms that were taken elsewhere in turns, as by several processes.
  lab::Ratio compare(const std::string& configuration, const std::string& baseline,
                     const std::vector<double>& baseline_ms, const std::string& ours,
                     const std::vector<double>& ours_ms, const Facts& facts = {});
  /// A row without times: something that was computed or counted.
  void row(const std::string& configuration, const std::string& baseline, const std::string& ours,
           const Facts& facts);
  /// Median ms of one function.
  double time(const std::string& name, const std::function<void()>& run);
  void note(std::string text) { notes_.push_back(std::move(text)); }
  void figure(lab::Figure figure) { figures_.push_back(std::move(figure)); }
  /// What became of the claim, in a few words, where speed-ups do not say it: "holds: 94 % kept".
  void verdict(std::string text) { verdict_ = std::move(text); }
  /// Progress of a long part, 0 to 1.
  void at(double part, const std::string& what) const { say_(part, what); }

  const Settings& settings;
  /// Small sizes, that tests may try the command.
  bool small() const { return settings.small; }
  bool quick() const { return settings.quick || settings.small; }

 private:
  friend struct Claim;
  struct Row {
    std::string configuration, baseline, ours;
    double baseline_ms = 0, ms = 0;  // 0: without times
    std::optional<lab::Ratio> speedup;
    Facts facts;
  };
  std::vector<lab::Samples> measure(const std::vector<lab::TimedVariant>& variants) const;

  const Say& say_;
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
  std::vector<lab::Figure> figures_;
  std::string verdict_;
};

struct Claim {
  std::string id;      ///< "int4_decode": for --only, and in files
  std::string system;  ///< "small numbers"
  std::string says;    ///< the write-up's words and figures
  /// The speed-up that the write-up names; 0: it is not about speed.
  double speedup = 0;
  std::function<void(Trial&)> test;

  /// Tests it. The summary, for the page of all claims, goes to `facts`.
  lab::Section run(const Settings& settings, const Say& say, nlohmann::json& facts) const;
};

/// One line per claim that was tested: claim, measured here, verdict.
lab::Section claims_section(const std::vector<Claim>& claims, const lab::Run& run);

// One list per system, in a file of its own.
std::vector<Claim> process_claims();
std::vector<Claim> sequence_claims();
std::vector<Claim> state_claims();
std::vector<Claim> checkpoint_claims();
std::vector<Claim> compression_claims();
std::vector<Claim> sparse_claims();
std::vector<Claim> number_claims();
std::vector<Claim> fusion_claims();
std::vector<Claim> target_claims();

}  // namespace graft::experiments
