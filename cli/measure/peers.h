// Other compilers, each measured by a process of its own that speaks the lines of docs/peers.md:
// torch.compile (tools/peers/inductor.py), JAX (tools/peers/jax_peer.py).
#pragma once

#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/frame/usage.h"
#include "lab/run.h"

namespace graft::cli {

struct PeerScript {
  std::string name;     ///< of the variant: "torch.compile"
  std::string path;     ///< absolute, or within Graft's checkout
  std::string install;  ///< what `python -m pip install` is to be given
};
/// Those that come with Graft.
const std::vector<PeerScript>& peer_scripts();

struct PeerOptions {
  std::string python = "python3";
  int threads = 1;
  double min_time = 1;  ///< seconds of samples a case
  PeerScript script = peer_scripts().front();
  double timeout = 600;  ///< seconds for an answer, compiling included, and for the imports
};

/// The peer cannot run here. The text says what is missing and how to install it.
class PeerAbsent : public UsageError {
 public:
  using UsageError::UsageError;
};

/// The process waits between cases, so that each is measured next to the same case here. One that
/// crashed, hung or spoke nonsense is ended, and started anew for the next case. Not thread-safe.
class Peer {
 public:
  /// Starts Python and waits for its imports. Throws PeerAbsent.
  explicit Peer(PeerOptions options);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Measures one workload, compiling included: that takes seconds, and minutes for gptq_block.
  /// `config` is axis → value, where it differs from the workload's own. What went wrong stands in
  /// the row's error.
  lab::Row measure(const std::string& workload,
                   const std::map<std::string, std::string>& config = {});
  const std::string& name() const { return options_.script.name; }
  const std::string& version() const { return version_; }

 private:
  class Process;
  void start();

  PeerOptions options_;
  std::unique_ptr<Process> process_;  // null: to be started
  std::string version_;
};

/// Those of `scripts` that can run here, with `options` but for the script; a line on `notes` for
/// each that cannot.
std::vector<std::unique_ptr<Peer>> start_peers(const PeerOptions& options,
                                               const std::vector<PeerScript>& scripts,
                                               std::ostream& notes);

}  // namespace graft::cli
