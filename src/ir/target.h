// The machine that programs are compiled for, as a value. Passes and code generators decide from it
// and ask nothing else, so that a program can be compiled for a machine that a test made up.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace graft::ir {

/// How far ahead of where it reads, in bytes, a loop asks for memory that it reads in order.
constexpr int64_t kStreamAhead = 2048;

/// What work takes on a small machine, of two cores, with both at it: the cost model's numbers
/// (passes/cost.h). In nanoseconds.
struct Times {
  double instruction = 0.15;  ///< one instruction on a vector, on average over a loop's
  double cache_byte = 0.005;  ///< a byte moved between the first cache and the second
  double memory_byte = 0.05;  ///< a byte moved between memory and the caches
  /// A factor on memory_byte for a walk across rows that leaves the caches and the TLB before it
  /// comes back for the next elements of the same rows.
  double far_line = 3;
  /// A factor on the time of a loop that computes what it reads from memory in order and does not
  /// ask for it ahead.
  double unasked_stream = 1;
  /// One operation of a matrix product, by a kernel's own routine (in fp32), and by ATen's, in fp32
  /// and in 16 bits.
  double product_flop = 0.004, call_flop = 0.004, short_call_flop = 0.004;
  double kernel = 500;      ///< the start of a kernel on the calling thread
  double threads = 3000;    ///< the start of a kernel on several threads
  double inner_loop = 1.8;  ///< the start of a loop within a tile
  /// A factor on a step's time where its scratch lies in the second cache instead of the first.
  double second_cache = 1.5;
};

/// As it stands: a machine with AVX-512, for which golden tests hold.
struct Target {
  /// Lanes of 32 bits in the vectors that ATen's own kernels use: 16 (AVX-512), 8 (AVX2), 4
  /// (neither). Other widths compute some functions with other bits.
  int lanes = 16;
  bool fma = true;  ///< has fused multiply-add, and ATen's kernels use it
  /// Has AVX512_FP16 or AVX_NE_CONVERT, for which ATen gives fp16 tensors to oneDNN, too.
  bool half_instructions = false;
  /// Has AVX-512 or AVX_NE_CONVERT, for which ATen gives bf16 tensors to oneDNN.
  bool bfloat16_instructions = true;
  /// Has AVX512_BF16: products of bf16 numbers two at a time, as oneDNN's for ATen (denormals count
  /// as 0).
  bool short_products = false;
  /// … and AMX, which multiplies tiles of them; the system lets this process use it.
  bool matrix_tiles = false;
  /// Dtypes that its code cannot load, store and convert though dtype.h has loops for them.
  /// Operators on them are extern.
  std::vector<ScalarType> lacks = {};
  /// libtorch has MKL's vector functions (VML), which want arrays.
  bool vml = true;
  /// MKL lets a thread say how many threads its calls use: MKL_Set_Num_Threads_Local.
  bool vml_threads = true;
  /// Do results stay subnormal numbers, or do threads flush them to 0?
  bool keeps_subnormals = true;
  /// How VML computes functions of Float on a processor, where it is known.
  enum class VmlFormula : uint8_t {
    Root,       ///< Routine::FormulaSqrt
    FusedRoot,  ///< Routine::FormulaFusedSqrt
    Exp,        ///< Routine::FormulaExp
    Log,        ///< Routine::FormulaLog
    Sine,       ///< Routine::FormulaSin, FormulaCos
    Tanh,       ///< Routine::FormulaTanh
  };
  static constexpr std::array kVmlFormulas = {VmlFormula::Root, VmlFormula::FusedRoot,
                                              VmlFormula::Exp,  VmlFormula::Log,
                                              VmlFormula::Sine, VmlFormula::Tanh};
  /// Does VML compute so? (A lowering may ask; no code depends on it.) Null: no, as where subnormal
  /// numbers are flushed, which VML keeps. The first answer takes time.
  bool (*vml_computes)(VmlFormula) = nullptr;
  bool vml_has(VmlFormula formula) const {
    return vml_computes != nullptr && vml_computes(formula);
  }
  /// That share a kernel's range. No pass decides from it: schedules, and so results, are the same
  /// for any number of threads.
  int threads = 1;

  // Bytes of the data caches that one core sees.
  int64_t first_cache_bytes = 32 << 10;
  int64_t second_cache_bytes = 1 << 20;
  int64_t last_cache_bytes = 32 << 20;
  int64_t line_bytes = 64;    ///< of a cache: what memory moves at least
  int64_t page_bytes = 4096;  ///< of memory: what an entry of the TLB reaches
  Times times;

  /// Maker, family, model, stepping and feature words of the processor, as CPUID gives them.
  std::string cpu;

  bool avx2() const { return lanes >= 8; }
  bool avx512() const { return lanes >= 16; }
  /// One operation of a product of numbers of this dtype, by a kernel's own routine and by ATen's.
  double product_flop(ScalarType type) const {
    return times.product_flop * (tiles(type) ? 0.45 : pairs(type) ? 0.5 : 1);
  }
  double call_flop(ScalarType type) const {
    if (type == ScalarType::Half && !half_instructions) return kByLoops * times.call_flop;
    const bool is_short = type == ScalarType::BFloat16 || type == ScalarType::Half;
    return is_short ? times.short_call_flop : times.call_flop;
  }
  /// ATen's own loops, for numbers of a type that no library takes: 5 to 40 times.
  static constexpr double kByLoops = 5;
  /// Does the routine multiply numbers of this dtype two at a time?
  bool pairs(ScalarType type) const {
    return type == ScalarType::BFloat16 && short_products && avx512();
  }
  /// … or in tiles, which has the same operands?
  bool tiles(ScalarType type) const { return pairs(type) && matrix_tiles; }
  /// Has loops over tensors of this dtype.
  bool loops(ScalarType type) const {
    return has_loops(type) && std::find(lacks.begin(), lacks.end(), type) == lacks.end();
  }
  /// ATen gives tensors of this dtype to oneDNN where that has the operator.
  bool one_dnn(ScalarType type) const {
    return type == ScalarType::Float || (type == ScalarType::BFloat16 && bfloat16_instructions) ||
           (type == ScalarType::Half && half_instructions);
  }

  /// All that machine code depends on beside the kernel: equal text, equal code. Threads and caches
  /// are not in it, as what passes decide from them is in the kernel.
  std::string code_key() const {
    return std::to_string(lanes) + (fma ? " fma" : "") + (short_products ? " bf16" : "") +
           (matrix_tiles ? " amx" : "") + (vml ? " vml" : "") +
           (vml_threads ? " vml-threads " : " ") + (keeps_subnormals ? "" : "flushes ") + cpu;
  }
};

}  // namespace graft::ir
