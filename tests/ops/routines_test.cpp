// The routines that the pointwise rows name give the bits of ATen's vectorised kernels.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
int placeholder_for_routines_test;
