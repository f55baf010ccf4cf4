// Precompiled for the tests; no test may rely on it for an include.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../src/pch.h"
