#include "workloads/wild/cases.h"

#include <ATen/ATen.h>

#include "workloads/region_cases.h"

namespace graft::workloads {
namespace wild {

Instance bounded(Instance instance, int64_t bytes, int64_t flops) {
  instance.bytes = static_cast<double>(bytes);
  instance.flops = static_cast<double>(flops);
  return instance;
}

int64_t distinct(const at::Tensor& index) {
  return std::get<0>(at::_unique2(index)).numel();
}

at::Tensor wide(const at::Tensor& x) {
  return x.to(at::promote_types(x.scalar_type(), at::kFloat));
}

}  // namespace wild

std::vector<Workload> wild_cases() {
  std::vector<Workload> all;
  for (const auto cases : {wild::vision_cases,      wild::norm_cases,       wild::image_cases,
                           wild::colour_cases,      wild::audio_cases,      wild::graph_cases,
                           wild::recommender_cases, wild::physics_cases,    wild::finance_cases,
                           wild::optimizer_cases,   wild::sampler_cases,    wild::quantizer_cases,
                           wild::loss_cases,        wild::gradient_cases,   wild::mixing_cases,
                           wild::sequence_cases,    wild::perception_cases, wild::science_cases,
                           wild::model_cases,       wild::robotics_cases,   wild::speech_cases,
                           wild::diffusion_cases,   wild::molecule_cases,   wild::decoding_cases,
                           wild::backward_cases,    wild::geospatial_cases, wild::control_cases,
                           wild::learner_cases,     wild::mixture_cases,    wild::stranger_cases,
                           wild::wanderer_cases,    wild::passerby_cases,   wild::newcomer_cases,
                           wild::sojourner_cases,   wild::drifter_cases,    wild::arrival_cases,
                           wild::visitor_cases,     wild::lodger_cases}) {
    for (Workload& workload : cases()) {
      workload.set = "wild";
      all.push_back(std::move(workload));
    }
  }
  return all;
}

}  // namespace graft::workloads
