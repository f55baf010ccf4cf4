// Other compilers, each measured in a process of its own that speaks the protocol of docs/peers.md:
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
  std::string name;     ///< the variant's name: "torch.compile"
  std::string path;     ///< absolute, or relative to Graft's source folder
  std::string install;  ///< the arguments for `python -m pip install`
};
/// The scripts that come with Graft.
const std::vector<PeerScript>& peer_scripts();

struct PeerOptions {
  std::string python = "python3";
  int threads = 1;
  double min_time = 1;  ///< seconds of samples per case
  PeerScript script = peer_scripts().front();
  double timeout = 600;  ///< seconds for an answer, compiling included, and for Python's imports
};

/// The peer cannot run here. The text says what is missing and how to install it.
class PeerAbsent : public UsageError {
 public:
  using UsageError::UsageError;
};

/// The process waits between cases, so that each case is measured right after Graft measures it. A
/// process that crashes, hangs or breaks the protocol is ended, and started again for the next
/// case. Not thread-safe.
class Peer {
 public:
  /// Starts Python and waits for its imports. Throws PeerAbsent.
  explicit Peer(PeerOptions options);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Measures one workload, compiling included, which takes seconds, and minutes for gptq_block.
  /// `config`: axis → value, where it differs from the workload's default. If something goes wrong,
  /// the row's error says so.
  lab::Row measure(const std::string& workload,
                   const std::map<std::string, std::string>& config = {});
  const std::string& name() const { return options_.script.name; }
  const std::string& version() const { return version_; }

 private:
  class Process;
  void start();

  PeerOptions options_;
  std::unique_ptr<Process> process_;  ///< null: it must be started
  std::string version_;
};

/// Starts those of `scripts` that can run here, with `options` except for the script; writes a line
/// to `notes` for each that cannot.
std::vector<std::unique_ptr<Peer>> start_peers(const PeerOptions& options,
                                               const std::vector<PeerScript>& scripts,
                                               std::ostream& notes);

}  // namespace graft::cli
