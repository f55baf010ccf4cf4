// The machine that programs are compiled for, as a value. Passes and code generators decide from it
// and ask nothing else, so that a program can be compiled for a machine that a test made up.
#pragma once

#include <cstdint>
#include <string>

namespace graft::ir {

/// As it stands: a machine with AVX-512, for which golden tests hold.
struct Target {
  /// Lanes of 32 bits in the vectors that ATen's own kernels use: 16 (AVX-512), 8 (AVX2), 4
  /// (neither). Other widths compute some functions with other bits.
  int lanes = 16;
  bool fma = true;  ///< has fused multiply-add, and ATen's kernels use it
  /// Has AVX512_FP16 or AVX_NE_CONVERT, for which ATen gives fp16 tensors to oneDNN.
  bool half_instructions = false;
  /// libtorch has MKL's vector functions (VML), which want arrays.
  bool vml = true;
  /// MKL lets a thread say how many threads its calls use: MKL_Set_Num_Threads_Local.
  bool vml_threads = true;
  /// That share a kernel's range. No pass decides from it: schedules, and so results, are the same
  /// for any number of threads.
  int threads = 1;

  // Bytes of the data caches that one core sees.
  int64_t first_cache_bytes = 32 << 10;
  int64_t second_cache_bytes = 1 << 20;
  int64_t last_cache_bytes = 32 << 20;
  int64_t line_bytes = 64;    ///< of a cache: what memory moves at least
  int64_t page_bytes = 4096;  ///< of memory: what an entry of the TLB reaches

  /// Maker, family, model, stepping and feature words of the processor, as CPUID gives them.
  std::string cpu;

  bool avx2() const { return lanes >= 8; }
  bool avx512() const { return lanes >= 16; }

  /// All that machine code depends on beside the kernel: equal text, equal code. Threads and caches
  /// are not in it, as what passes decide from them is in the kernel.
  std::string code_key() const {
    return std::to_string(lanes) + (fma ? " fma" : "") + (vml ? " vml" : "") +
           (vml_threads ? " vml-threads " : " ") + cpu;
  }
};

}  // namespace graft::ir
