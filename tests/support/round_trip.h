// A program's text read back.
#pragma once

#include <exception>
#include <string>

#include "ir/parse.h"

namespace graft::test {

/// Empty when the program's text reads back as the same text; otherwise both, or the parser's
/// error.
inline std::string round_trip(const ir::Program& program) {
  std::string text = ir::print(program);
  try {
    std::string again = ir::print(ir::parse(text));
    return again == text ? "" : "printed\n" + text + "reads back as\n" + again;
  } catch (const std::exception& error) {
    return "printed\n" + text + "cannot be read: " + error.what();
  }
}

}  // namespace graft::test
