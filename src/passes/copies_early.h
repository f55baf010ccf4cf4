// Copies early: a stack or cat of the results of unrolled steps copies all of them at the end (or,
// after inlining, computes them there). This moves each copy right behind the step that makes its
// source, so that it becomes part of the step and the steps can be rerolled.
//
//     [a:8] %1[a] = …                       [a:8] %1[a] = …
//     [a:8] %2[a] = … %1[a] …        →      [a:8] %9[a] = %1[a]
//     … [a:8] %9[a] = %1[a]                 [a:8] %2[a] = … %1[a] …
//     [a:8] %9[a+8] = %2[a] …               [a:8] %9[a+8] = %2[a] …
#pragma once

#include "ir/program.h"
#include "passes/settings.h"

namespace graft::passes {

/// The program as it is where too few copies can move, or reroll gains nothing by it.
ir::Program copies_early(ir::Program program, const Settings& settings = {});

}  // namespace graft::passes
