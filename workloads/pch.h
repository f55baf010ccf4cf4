// Precompiled for the workloads; no unit may rely on it for an include.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>
