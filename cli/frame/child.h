// Runs this program again as a child process that does one thing and answers with one text.
#pragma once

#include <string>

namespace graft::cli {

/// How such a process ended.
struct ChildEnd {
  std::string answer;    ///< what it gave to answer_parent(), perhaps incomplete
  bool timeout = false;  ///< it was killed
  int signal = 0;        ///< the signal that ended it; 0: none
  int code = 0;          ///< its exit code, if no signal ended it

  std::string signal_text() const;  ///< "signal 11 (Segmentation fault)"
};

/// Starts this program with the hidden subcommand and its one argument, and waits until it ends.
/// `timeout`: seconds until it is killed; 0: never. Throws std::runtime_error if no process can be
/// started.
ChildEnd run_child_process(const char* subcommand, const std::string& argument, double timeout = 0);

/// Called first by the subcommand: makes the process end when its parent does.
void end_with_parent();
/// Called once by the subcommand. Throws std::runtime_error if the parent is gone.
void answer_parent(const std::string& answer);

}  // namespace graft::cli
