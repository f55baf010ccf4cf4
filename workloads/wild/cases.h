// The set `wild`: programs as people bring them, written down from memory of public models, papers
// and users' questions without a look at how Graft compiles them. It measures what the compiler
// does for programs that it was not tuned for; so a program is not changed to suit the compiler.
//
// A file has one field's programs: each a plain function of tensors, the maker of its inputs, and a
// row of the table at the end. tools/peers/wild has the same programs in Python, file by file.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "graft/workload.h"
#include "workloads/region_cases.h"

namespace graft::workloads::wild {

std::vector<Workload> arrival_cases();
std::vector<Workload> audio_cases();
std::vector<Workload> backward_cases();
std::vector<Workload> colour_cases();
std::vector<Workload> control_cases();
std::vector<Workload> decoding_cases();
std::vector<Workload> diffusion_cases();
std::vector<Workload> drifter_cases();
std::vector<Workload> finance_cases();
std::vector<Workload> geospatial_cases();
std::vector<Workload> gradient_cases();
std::vector<Workload> graph_cases();
std::vector<Workload> image_cases();
std::vector<Workload> learner_cases();
std::vector<Workload> lodger_cases();
std::vector<Workload> loss_cases();
std::vector<Workload> mixing_cases();
std::vector<Workload> mixture_cases();
std::vector<Workload> model_cases();
std::vector<Workload> molecule_cases();
std::vector<Workload> newcomer_cases();
std::vector<Workload> norm_cases();
std::vector<Workload> optimizer_cases();
std::vector<Workload> passerby_cases();
std::vector<Workload> perception_cases();
std::vector<Workload> physics_cases();
std::vector<Workload> quantizer_cases();
std::vector<Workload> recommender_cases();
std::vector<Workload> robotics_cases();
std::vector<Workload> sampler_cases();
std::vector<Workload> science_cases();
std::vector<Workload> sequence_cases();
std::vector<Workload> sojourner_cases();
std::vector<Workload> speech_cases();
std::vector<Workload> stranger_cases();
std::vector<Workload> vision_cases();
std::vector<Workload> visitor_cases();
std::vector<Workload> wanderer_cases();

/// How far sums of fp32 may be from eager's, which adds in another order; relative to the largest.
constexpr double kSums = 1e-5;
/// Of functions that eager's vector body and its tail compute with other bits (docs/numerics.md).
constexpr double kTails = 1e-6;

/// How far a result in bf16 may be from eager's where a sum came before its rounding: one unit in
/// the last place of the largest.
constexpr double kRounded = 0x1p-7;

/// Bytes that memory moves at least, for gathers of less.
constexpr int64_t kLine = 64;

/// The instance with its lower bound: the bytes that a call must read and write (Instance::bytes),
/// whatever it stores between its operators, and the FLOPs of its formulas as written.
Instance bounded(Instance instance, int64_t bytes, int64_t flops);

/// How many different numbers an index has: the rows that a gather touches.
int64_t distinct(const at::Tensor& index);

/// x in fp32 at least.
at::Tensor wide(const at::Tensor& x);

}  // namespace graft::workloads::wild
