// This program once more, as a process that does one thing and answers with one text.
#pragma once

#include <string>

namespace graft::cli {

/// How such a process ended.
struct ChildEnd {
  std::string answer;    ///< what it handed to answer_parent(), whole or not
  bool timeout = false;  ///< it was killed
  int signal = 0;        ///< that ended it; 0: none
  int code = 0;          ///< its exit code, if no signal ended it

  std::string signal_text() const;  ///< "signal 11 (Segmentation fault)"
};

/// Starts this program with the hidden subcommand and its one argument, and waits for its end.
/// `timeout`: seconds until it is killed; 0: never. Throws std::runtime_error if no process can be
/// started.
ChildEnd run_child_process(const char* subcommand, const std::string& argument, double timeout = 0);

/// For the subcommand, first of all: the process ends when its parent does.
void end_with_parent();
/// For the subcommand, once. Throws std::runtime_error if the parent has gone.
void answer_parent(const std::string& answer);

}  // namespace graft::cli
