// Where random generators are, and how they are put back there.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <mutex>
#include <vector>

namespace graft::runtime {

inline std::vector<at::Tensor> states_of(const std::vector<at::Generator>& generators) {
  std::vector<at::Tensor> all;
  for (at::Generator generator : generators) {
    std::lock_guard lock(generator.mutex());
    all.push_back(generator.get_state());
  }
  return all;
}

/// `states`: of each, what states_of() gave.
inline void set_states(const std::vector<at::Generator>& generators,
                       const std::vector<at::Tensor>& states) {
  for (size_t k = 0; k < states.size(); ++k) {
    at::Generator generator = generators[k];
    std::lock_guard lock(generator.mutex());
    generator.set_state(states[k]);
  }
}

}  // namespace graft::runtime
