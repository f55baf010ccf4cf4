// What is the host's own: its code generator, and itself as a target.
#include <ATen/Version.h>
#include <ATen/cpu/Utils.h>
#include <cpuid.h>
#include <dlfcn.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <vector>

#include "codegen/array_formulas.h"
#include "codegen/backend.h"
#include "codegen/routine.h"
#include "tensor/denormals.h"

namespace graft::codegen {

namespace {

using MakeBackend = Backend* (*)();

MakeBackend load_module() {
  const std::string path = module_path();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error("graft: no code generator: looked for " + path + " (" + dlerror() +
                             "); build the target graft_llvm, or install it beside libgraft.so");
  void* made = dlsym(handle, "graft_make_backend");
  if (!made)
    throw std::runtime_error("graft: " + path +
                             " has no graft_make_backend: it is not of this version");
  return reinterpret_cast<MakeBackend>(made);
}

/// "GenuineIntel 00050657 7ffefbbf-…": the maker, the signature, the feature words.
std::string cpu_identity() {
  std::array<unsigned, 4> r{};
  auto leaf = [&](unsigned number, unsigned sub) {
    r = {};
    __get_cpuid_count(number, sub, &r[0], &r[1], &r[2], &r[3]);
  };
  std::string text;
  leaf(0, 0);
  for (unsigned word : {r[1], r[3], r[2]})
    for (int k = 0; k < 4; ++k) text += static_cast<char>(word >> (8 * k) & 0xff);
  auto hex = [&](char before, unsigned word) {
    char digits[10];
    std::snprintf(digits, sizeof digits, "%c%08x", before, word);
    text += digits;
  };
  leaf(1, 0);
  hex(' ', r[0]);
  hex(' ', r[2] & ~(1u << 27));  // without OSXSAVE, which is the system's
  hex('-', r[3]);
  leaf(7, 0);
  for (unsigned word : {r[1], r[2], r[3]}) hex('-', word);
  leaf(7, 1);
  for (unsigned word : {r[0], r[3]}) hex('-', word);
  leaf(0x80000001, 0);
  hex('-', r[2]);
  return text;
}

bool has(const char* instructions) {
  const auto capabilities = at::cpu::get_cpu_capabilities();
  auto found = capabilities.find(instructions);
  return found != capabilities.end() && found->second.isBool() && found->second.toBool();
}

int64_t cache_bytes(int name, int64_t otherwise) {
  long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

/// Does VML's function have the formula's bits? Which kernel MKL takes follows from the processor,
/// so some numbers tell.
template <class Formula>
bool vml_has(const char* symbol, std::vector<uint32_t> asked, Formula formula) {
  using Function = void(const int32_t*, const float*, float*, const int64_t*);
  auto* function = reinterpret_cast<Function*>(find_symbol(symbol));
  if (function == nullptr) return false;
  constexpr int32_t kFew = 96;  // of more, MKL considers threads
  asked.resize((asked.size() + kFew - 1) / kFew * kFew);
  std::vector<float> x(asked.size()), y(asked.size());
  std::memcpy(x.data(), asked.data(), asked.size() * sizeof(float));
  for (size_t first = 0; first < x.size(); first += kFew)
    function(&kFew, &x[first], &y[first], &kVmlMode);
  return std::equal(x.begin(), x.end(), y.begin(), [&](float number, float expected) {
    return std::bit_cast<uint32_t>(formula(number)) == std::bit_cast<uint32_t>(expected);
  });
}

/// The floats next to one, of both signs.
void ask_around(std::vector<uint32_t>& asked, float edge) {
  for (uint32_t sign : {0u, 0x80000000u})
    for (uint32_t k = 0; k < 64; ++k)
      asked.push_back((std::bit_cast<uint32_t>(edge) | sign) + k - 32);
}

/// Of each size of mantissa, next to powers of four, where a step more or less shows soonest, of
/// each exponent, and where the formula changes. (tests/runtime/vml_formulas_test.cpp asks for
/// more.)
std::vector<uint32_t> roots_to_ask_for() {
  std::vector<uint32_t> asked;
  for (uint32_t k = 0; k < 8 << 10; ++k) asked.push_back(0x3f800000 + k * 2039);
  for (uint32_t k = 0; k < 4 << 10; ++k) asked.push_back(0x40800000 - k);
  for (uint32_t k = 0; k < 1 << 9; ++k) asked.push_back(k * 0x800000 + k * k);  // of both signs
  for (float edge : {0.0f, RootFormula::kLeast, RootFormula::kMost, FusedRootFormula::kLeast,
                     std::numeric_limits<float>::infinity()})
    ask_around(asked, edge);
  return asked;
}
bool ask_for_roots() {
  return vml_has("VMSSQRT_", roots_to_ask_for(), array_sqrt);
}
bool ask_for_fused_roots() {
  return __builtin_cpu_supports("avx512f") &&
         vml_has("VMSSQRT_", roots_to_ask_for(), array_fused_sqrt);
}

/// Of each entry of the table and each power of two, of each exponent, and where the formula
/// changes.
bool ask_for_exps() {
  std::vector<uint32_t> asked;
  for (int k = -(2 << 10); k < 2 << 10; ++k)
    asked.push_back(std::bit_cast<uint32_t>(static_cast<float>(k) * 0.042652f));
  for (uint32_t k = 0; k < 2 << 10; ++k) asked.push_back(k * 0x200000 + k * k);  // of both signs
  for (float edge : {0.0f, ExpFormula::kLimit, 88.7228f, 103.9721f, ExpFormula::kBeyond,
                     std::numeric_limits<float>::infinity()})
    ask_around(asked, edge);
  return vml_has("VMSEXP_", std::move(asked), array_exp);
}

/// Of each size of mantissa, next to 2/3 and 4/3, of each exponent, and where the formula changes.
bool ask_for_logs() {
  std::vector<uint32_t> asked;
  for (uint32_t k = 0; k < 4 << 10; ++k)
    asked.push_back(LogFormula::kTwoThirds + k * ((LogFormula::kMantissa + 1) >> 12) + k % 2039);
  for (uint32_t k = 0; k < 2 << 10; ++k) asked.push_back(k * 0x200000 + k * k);  // of both signs
  for (float edge : {0.0f, LogFormula::kLeast, 1.0f, std::numeric_limits<float>::infinity()})
    ask_around(asked, edge);
  return vml_has("VMSLN_", std::move(asked), array_log);
}

/// Of each size of r and each number of half turns' sizes, of each exponent up to the limit, and
/// next to quarter turns.
bool ask_for_sines() {
  std::vector<uint32_t> asked;
  for (uint32_t k = 0; k < 4 << 10; ++k) {
    const float most = SineFormula::kLimit / static_cast<float>(4 << 10);
    asked.push_back(std::bit_cast<uint32_t>(static_cast<float>(k) * (k % 2 == 0 ? most : -most)));
    asked.push_back(std::bit_cast<uint32_t>(static_cast<float>(k) * 0.00155f));
  }
  const uint32_t limit = std::bit_cast<uint32_t>(SineFormula::kLimit);
  for (uint32_t k = 0; k < 2 << 10; ++k) asked.push_back(limit / (2 << 10) * k + k);
  for (float turns : {1.0f, 2.0f, 3.0f, 4095.0f}) ask_around(asked, turns * 1.57079633f);
  for (uint32_t k = 0; k < 32; ++k) {
    asked.push_back(k);
    asked.push_back(0x80000000u + k);
    asked.push_back(limit - k);
  }
  return vml_has("VMSSIN_", asked, array_sin) && vml_has("VMSCOS_", asked, array_cos);
}

/// Of each size, but for numbers near the middle between two; there of those that mark the kernel.
bool ask_for_tanhs() {
  std::vector<uint32_t> asked;
  const uint32_t most = std::bit_cast<uint32_t>(static_cast<float>(TanhFormula::kMost));
  for (uint32_t k = 0; k < 4 << 10; ++k)
    asked.push_back(most / (4 << 10) * k + k % 2039 + (k % 2 == 0 ? 0x80000000u : 0));
  for (uint32_t k = 0; k < 4 << 10; ++k)
    asked.push_back(std::bit_cast<uint32_t>(static_cast<float>(k) * 0.00231f));
  for (uint32_t k = 0; k < 1 << 9; ++k) asked.push_back(k * 0x800000 + k * k);  // of both signs
  std::erase_if(asked, [](uint32_t x) { return !array_tanh(std::bit_cast<float>(x)); });
  for (const auto& [x, y] : TanhFormula::kMarks) asked.push_back(std::bit_cast<uint32_t>(x));
  return vml_has("VMSTANH_", asked, [](float x) {
    for (const auto& [mark, y] : TanhFormula::kMarks)
      if (x == mark) return y;
    return *array_tanh(x);
  });
}

bool vml_computes(ir::Target::VmlFormula formula) {
  static const bool roots = ask_for_roots(), fused_roots = !roots && ask_for_fused_roots(),
                    exps = ask_for_exps(), logs = ask_for_logs(), sines = ask_for_sines(),
                    tanhs = ask_for_tanhs();
  switch (formula) {
    case ir::Target::VmlFormula::Root:
      return roots;
    case ir::Target::VmlFormula::FusedRoot:
      return fused_roots;
    case ir::Target::VmlFormula::Exp:
      return exps;
    case ir::Target::VmlFormula::Log:
      return logs;
    case ir::Target::VmlFormula::Sine:
      return sines;
    case ir::Target::VmlFormula::Tanh:
      return tanhs;
  }
  return false;
}

ir::Target read_host() {
  ir::Target target;
  const std::string capability = at::get_cpu_capability();
  target.lanes = capability == "AVX512" ? 16 : capability == "AVX2" ? 8 : 4;
  target.fma = target.avx2() && __builtin_cpu_supports("fma");
  target.bfloat16_instructions = has("avx_ne_convert") || (__builtin_cpu_supports("avx512bw") &&
                                                           __builtin_cpu_supports("avx512dq") &&
                                                           __builtin_cpu_supports("avx512vl"));
  target.half_instructions = has("avx512_fp16") || has("avx_ne_convert");
  target.short_products = has("avx512_bf16");
  // A process asks Linux once whether its threads may use tiles.
  target.matrix_tiles =
      target.short_products && has("amx_tile") && has("amx_bf16") && at::cpu::init_amx();
  target.vml = find_symbol("VMSEXP_") != nullptr;
  target.vml_threads = find_symbol("MKL_Set_Num_Threads_Local") != nullptr;
  target.first_cache_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, target.first_cache_bytes);
  target.second_cache_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, target.second_cache_bytes);
  // Of many cores that share several caches, sysconf gives the sum: 384 MiB where each has 32.
  target.last_cache_bytes = std::min(cache_bytes(_SC_LEVEL3_CACHE_SIZE, target.last_cache_bytes),
                                     target.last_cache_bytes);
  target.cpu = cpu_identity();
  return target;
}

}  // namespace

Backend& host_backend() {
  // Never destroyed: a background thread may still compile while the process exits.
  static Backend* backend = load_module()();
  return *backend;
}

ir::Target host_target(int threads) {
  static const auto* host = new ir::Target(read_host());  // a background thread may outlive statics
  ir::Target target = *host;
  target.threads = threads;
  target.keeps_subnormals = !flushes_denormals();
  if (target.keeps_subnormals) target.vml_computes = vml_computes;
  return target;
}

std::string module_path() {
  constexpr const char* kModule = "libgraft_llvm.so";
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&module_path), &self) == 0 || !self.dli_fname)
    throw std::runtime_error(
        "graft: cannot tell where libgraft.so lies, so libgraft_llvm.so beside it cannot be found");
  // It lies beside the name of ours that was loaded, or beside the file that a link leads to.
  const std::filesystem::path here(self.dli_fname);
  const std::string beside = here.parent_path() / kModule;
  if (access(beside.c_str(), R_OK) == 0) return beside;
  std::error_code ignored;
  return std::filesystem::canonical(here, ignored).parent_path() / kModule;
}

void* find_symbol(const std::string& name) {
  // A host like Python loads libtorch_cpu.so out of sight of plain look-ups; its path leads to its
  // handle.
  static void* const torch = [] {
    Dl_info where{};
    std::string (*in_torch)() = &at::get_cpu_capability;
    bool found = dladdr(reinterpret_cast<void*>(in_torch), &where) != 0 && where.dli_fname;
    return found ? dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  }();
  void* address = torch ? dlsym(torch, name.c_str()) : nullptr;
  return address ? address : dlsym(RTLD_DEFAULT, name.c_str());
}

}  // namespace graft::codegen
