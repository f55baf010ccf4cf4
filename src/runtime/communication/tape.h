// What a thread's collectives do while plans are tried: they must not be heard by other processes,
// which know nothing of a proof.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace graft::runtime {

/// The sums that eager got in one call, for plans to get the same.
class Tape {
 public:
  enum class Mode : uint8_t {
    Keep,  ///< collectives run, and are kept
    Play,  ///< none runs: each gives what was kept, and what this thread's tensor has more
    Mute,  ///< none runs, tensors stay as they are
  };

  /// While it lives, this thread's collectives go through `tape`; null: as before.
  class Scope {
   public:
    Scope(Tape* tape, Mode mode);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Tape* const outer_;
  };

  /// The tape of this thread; null: collectives run.
  static Tape* current();

  void start(const at::Tensor& tensor, const std::string& name);
  void wait(const at::Tensor& tensor, const std::string& name);
  /// Were as many started and awaited as were kept, with equal names and sizes?
  bool is_at_end() const { return !differs_ && next_ == kept_.size() && under_way_.empty(); }

 private:
  struct Kept {
    std::string name;
    at::Tensor given, sum;
  };
  struct UnderWay {
    const void* memory;
    size_t place;
  };
  size_t end(const at::Tensor& tensor);

  Mode mode_ = Mode::Mute;
  std::vector<Kept> kept_;
  std::vector<UnderWay> under_way_;
  size_t next_ = 0;
  bool differs_ = false;
};

}  // namespace graft::runtime
