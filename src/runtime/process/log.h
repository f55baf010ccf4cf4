// GRAFT_LOGS=topic,topic: lines on stderr about what Graft does.
#pragma once

#include <cstdint>
#include <string>

namespace graft::runtime {

/// graph_breaks, recompiles, fusion, codegen, cache; "all" is every one of them.
enum class Topic : uint8_t { GraphBreaks, Recompiles, Fusion, Codegen, Cache };

bool logs(Topic topic);
/// Prints "graft: graph_breaks: <text>", a line in one write.
void log(Topic topic, const std::string& text);
/// Prints a warning, whatever topics are on.
void warn(const std::string& text);
/// Warns only the first time that this `why` comes: a missing code generator fails every function
/// alike.
void warn_once(const std::string& who, const std::string& why);

/// Reads GRAFT_LOGS again, as tests do after setenv. Unknown topics are named in a warning.
void reload_logs();

/// GRAFT_DISABLE=1: every compiled function runs eagerly. Read once.
bool disabled();
/// GRAFT_TRACE, or empty.
std::string trace_directory();

}  // namespace graft::runtime
