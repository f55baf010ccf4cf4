// The words and numbers of a program's text, which the printer writes and the parser reads.
//
// A type is written where the text around does not tell it: bare operands have the type of the
// operator's other operand, of the store, or of the reduction.
//
//     argument 0 = %0 f32[4,6]:(6,1)              dtype[sizes]:(strides)@byte offset
//     captured 0 = %1 bf16[6]:(1)  bumped         the run raises its version
//     %0: argument 0, 96 bytes                    a storage: role, source, size
//     %3: temporary, 48 bytes, made by extern
//     [a:4,b:6] %2[a*6+b] f32 = ((%0[a*6+b] * t1) + $0.5); t1 = f32(%1.bf16[b])
//     [a:4,b:6] %4[a] f32 = f32(reduced)  reduced = sum.f64{b} f64(%0.f32[a*6+b])
//     %3 f32[4,3]:(3,1) = aten::mm(%0 f32[4,6]:(6,1), %5 f32[6,3]:(3,1)) writes %3
//     abort if %6                                 a check
//     repeat 4                                    its statements are indented; axis a is the step
//       [a:4,b:6-a] %2[a+b] f32 = …               an extent that shrinks by one per step
//     repeat 4 in order                           likewise: one operator, never unrolled
//     result 0 = %2 f32[4,6]:(6,1)
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/expr.h"
#include "ir/program.h"

namespace graft::ir {

/// The dtype of that short name.
std::optional<ScalarType> type_named(std::string_view name);

const char* name_of(ReduceOp op);
std::optional<ReduceOp> reduce_op_named(std::string_view name);
const char* name_of(Role role);
std::optional<Role> role_named(std::string_view name);

/// Axes are a, b, c …, and a26 from the 27th on.
std::string axis_name(size_t axis);
std::optional<size_t> axis_named(std::string_view name);

/// A Const's payload of that type in the fewest digits that give it back: 0.1, -3, true, inf,
/// nan(0xfff8000000000000).
std::string number_text(int64_t payload, ScalarType type);
/// Empty where the text is no number of that type.
std::optional<int64_t> number_of(std::string_view text, ScalarType type);

/// "-2a" after an extent that shrinks by two at each step; empty where it does not grow.
std::string growth_text(int64_t growth, const std::string& step);
/// In quotes, with backslashes before quotes and backslashes, and \n for a new line.
std::string quoted(std::string_view text);

/// One line. `vars`: inside a kernel, the variable of each axis, v0, v1 …
std::string statement_text(const Statement& statement, const std::vector<int>* vars = nullptr);

}  // namespace graft::ir
