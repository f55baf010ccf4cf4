// An experiment: cases that are measured as `graft bench` measures them, and parts of its own. Each
// is on disk as soon as it is done, so that an interrupted experiment goes on; all of it makes one
// report.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/measure/measure_case.h"
#include "cli/measure/peers.h"
#include "experiments/frame/config.h"
#include "experiments/frame/settings.h"
#include "lab/progress.h"
#include "lab/report/section.h"
#include "lab/run.h"

namespace graft::experiments {

using cli::Say;

/// Not thread-safe.
class Experiment {
 public:
  /// `choice`: what results depend on beside the settings. Both must outlive it.
  Experiment(std::string name, const Settings& settings, nlohmann::json choice);
  ~Experiment();

  /// A case of a workload: its variants in turns, then the peer's. A workload that needs more
  /// memory than there is is a row that says so.
  void measure(const std::string& workload, const Config& config,
               const std::vector<std::string>& variants, bool with_peer = true);
  /// A part that makes one section. `id` names it in the file and on the page. `needs`: a case
  /// whose memory it needs; where there is less, the section says so.
  void part(const std::string& id, const std::string& label,
            std::function<lab::Section(const Say&)> make, const cli::Case& needs = {});
  /// A section that follows from the rows; it stands where it is added, and is left out where its
  /// table is empty.
  void view(std::function<lab::Section(const lab::Run&)> make);

  /// Does what is not done yet, writes the files and prints the sections. Throws cli::UsageError
  /// where --resume names a file of another experiment.
  void run();

  /// Facts for views, kept in the file: a part may write them, by its id.
  nlohmann::json& facts(const std::string& id) { return run_.context["facts"][id]; }

 private:
  struct Step;
  struct Measured {
    cli::Case c;
    std::vector<std::string> variants;
    bool with_peer = true;
  };

  void start();
  void measure(const Measured& step);
  void make(const Step& step);
  void keep(std::vector<lab::Row> rows);
  bool is_done(const cli::Case& c, const std::string& variant) const;
  std::vector<lab::Section> sections() const;
  void write(bool last);

  const std::string name_;
  const Settings& settings_;
  const nlohmann::json choice_;
  std::vector<Step> steps_;
  std::map<std::string, lab::Section> made_;  ///< by the part's id
  lab::Run run_;
  std::unique_ptr<cli::Peer> peer_;
  std::unique_ptr<lab::Progress> progress_;
};

}  // namespace graft::experiments
