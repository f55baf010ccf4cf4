// Plans that outlive the process that compiled them.
//
// A plan that was compiled is kept in a folder, with how it was proven. Another process that
// records the same program on the same machine takes it from there: it records the first call as
// ever and compares the next one with eager, but compiles nothing, does not load LLVM, and does not
// race again what won on as many threads.
//
// The folder is GRAFT_CACHE_DIR, or else XDG_CACHE_HOME/graft/plans or ~/.cache/graft/plans; "off"
// keeps nothing. When it holds more than GRAFT_CACHE_SIZE bytes ("512M"; 1 GiB), plans used longest
// ago go: a process looks at its first and at every 16th plan that it keeps. It must belong to the
// user and be writable by nobody else, since its files are code. Any number of processes may share
// it. What is damaged, or of another machine or build, is not used.
//
// graft::save writes the plans of one function into a file that an application ships, and
// graft::load makes them found without a folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/export.h"

namespace graft {

/// Lets this process find the plans in a file that graft::save wrote: for any function that records
/// the same program, unless its Options::cache is off. Gives how many there are. Throws
/// graft::Error for a file that is none of these, is damaged, or holds plans of another machine or
/// build, naming what differs. Thread-safe; for calls recorded afterwards.
GRAFT_API int64_t load(const std::string& path);

}  // namespace graft

namespace graft::cache {

/// A kept plan.
struct Plan {
  std::string name;      ///< of its file, without the ending
  std::string function;  ///< Options::name of the function that was compiled first
  std::string made;      ///< "2026-11-25 15:24:41 UTC"
  std::string proof;     ///< "bitwise eager's; 1.2 ms eager, 0.4 ms compiled, on 2 threads"
  int64_t kernels = 0;
  int64_t bytes = 0;
  double used = 0;        ///< when a process took it last: seconds since 1970
  std::string machine;    ///< what it was compiled by and for, a fact per line
  std::string operators;  ///< what became of each recorded operator, one per line
  /// Why this process would not use it: it is of another machine or build, or damaged. Empty: it
  /// would.
  std::string refused;
};

/// Empty: nothing is kept.
GRAFT_API std::string folder();
/// The bound, in bytes. Throws graft::Error where GRAFT_CACHE_SIZE is no size.
GRAFT_API int64_t most_bytes();
/// "512M", "2G", "4096": as bytes. Throws graft::Error for other text.
GRAFT_API int64_t parse_size(const std::string& text);
/// The one used last first. All of each file is read and checked. Throws graft::Error where the
/// folder cannot be trusted or read.
GRAFT_API std::vector<Plan> list();
/// The schedule of a plan that is not refused, as text: its kernels' loops, and calls. Throws
/// graft::Error.
GRAFT_API std::string schedule(const std::string& name);
/// Removes plans, those used longest ago first, until `most` bytes are left. Gives the bytes
/// removed.
GRAFT_API int64_t trim(int64_t most);
/// Removes the plans that no process with this build and machine would use. Gives the bytes
/// removed.
GRAFT_API int64_t remove_refused();

}  // namespace graft::cache
