#pragma once
#include <graft/workload.h>
