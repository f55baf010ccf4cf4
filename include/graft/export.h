// GRAFT_API marks what programs use of libgraft.so and libgraft_command.so.
#pragma once

/// The build reads the marks (cmake/GraftExports.cmake) and exports nothing else. In a program that
/// hides its symbols by default, the mark keeps exceptions of Graft's catchable: both sides then
/// share the class's type information.
#define GRAFT_API __attribute__((visibility("default")))
