// Reads a program's text, as the printer writes it and people write it in tests (see text.h).
//
//     Program p = parse(R"(
//       argument 0 = %0 f32[4,6]:(6,1)
//       %0: argument 0, 96 bytes
//       %1: output, 96 bytes
//       [a:4,b:6] %1[a*6+b] f32 = (%0[a*6+b] * 2)
//       result 0 = %1 f32[4,6]:(6,1)
//     )");
//
// print(parse(print(p))) is print(p), for every program. What the text does not hold: storages that
// nothing mentions, the recorded operator of an item, and values without a text form (`opaque`).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace graft::ir {

/// "line 3, column 17: expected a number, but found "]"". Both count from 1.
class ParseError : public std::runtime_error {
 public:
  ParseError(int line, int column, const std::string& what);
  const int line, column;
};

/// Throws ParseError. Checks names and types of the text; verify() checks what it means.
Program parse(std::string_view text);

}  // namespace graft::ir
