// GRAFT_API marks what programs use of libgraft.so and libgraft_command.so.
#pragma once

/// The build reads the marks (cmake/GraftExports.cmake) and exports nothing else. In a program, a
/// marked class keeps one type information for both sides, so that an exception of Graft's can be
/// caught where symbols are hidden by default.
#define GRAFT_API __attribute__((visibility("default")))
