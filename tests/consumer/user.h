// Read before each unit of the example projects: their code is their own, whatever Graft is built
// with.
#pragma once

#if defined(USE_DISTRIBUTED) || defined(USE_C10D_GLOO) || defined(FMT_HEADER_ONLY)
#error "Graft's package defines macros in programs that use it"
#endif
