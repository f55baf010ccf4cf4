// Is a random generator given a seed or a state during the run?
//
// Nothing of that passes the dispatcher, and a plan draws on from where its generator stands. So
// the state of each CPU generator is compared between the operators that draw from it: what other
// threads drew meanwhile moves it forward, a seed or a state from elsewhere does not.
//
// A generator that was seeded just before the run and is seeded the same in it would look
// unchanged. Until its first number is drawn, the place that ATen's engine counts in its block of
// numbers means nothing; a watched generator has 1 there instead of 0, and whoever seeds it sets it
// back.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/MT19937RNGEngine.h>

#include <optional>
#include <string>
#include <vector>

namespace graft::record {

class Generators {
 public:
  /// Watches ATen's default generator, and those that earlier records of this thread drew from.
  Generators();
  ~Generators();
  Generators(const Generators&) = delete;
  Generators& operator=(const Generators&) = delete;

  /// Before an operator draws from it (an undefined one stands for ATen's default): why a plan
  /// cannot do the same.
  std::optional<std::string> before_draw(const at::Generator& generator);
  void after_draw(const at::Generator& generator);
  /// After the run. `held`: the generators that the trace holds, once per reference.
  std::optional<std::string> finish(const std::vector<const c10::GeneratorImpl*>& held);

 private:
  struct Watched {
    at::Generator generator;
    at::mt19937_data_pod state;
    bool marked = false;  ///< by this watch, when it began
  };
  Watched* find(const at::Generator& generator);
  void watch(const at::Generator& generator, bool known);

  std::vector<Watched> watched_;
};

}  // namespace graft::record
