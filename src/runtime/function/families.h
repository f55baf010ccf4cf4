// The families of one function: its records by kind, and plans for sizes that were never recorded.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/family/family.h"
#include "runtime/family/regimes.h"
#include "runtime/function/entry.h"
#include "runtime/proof/odds.h"

namespace graft::runtime {

/// A record that a family may be made of.
struct FamilyExample {
  std::shared_ptr<Entry> entry;
  std::shared_ptr<const record::Trace> trace;
  CompileSettings settings;  ///< with its tuning
};

/// One box of a family, and what is known of its plans.
struct FamilyBox {
  enum class State : uint8_t {
    Compiling,  ///< eager
    Proving,    ///< both sides run, and are compared and timed
    Compiled,
    Slower,     ///< eager
    PerLayout,  ///< layouts are recorded, since a difference may be rounding
  };
  std::atomic<State> state{State::Compiling};
  std::atomic<bool> busy{false};          ///< somebody proves
  std::atomic<int64_t> calls{0};          ///< of the plans
  std::atomic<int64_t> until_proof{0};    ///< calls until the next proof; 0: none is planned
  std::atomic<bool> settled{false};       ///< the plans are faster for good
  std::unique_ptr<const BoxPlans> plans;  ///< written before it leaves Compiling
  Odds odds;                              ///< by whoever is busy
  /// For sizes that come once, as a growing cache's: their plans get other numbers at each call.
  static constexpr size_t kMostSpares = 16;
  std::atomic<bool> spare_busy{false};
  // By whoever is busy with them.
  std::vector<Refill> spares;    ///< the last used at the end
  std::shared_ptr<Entry> spare;  ///< with the last call's plan
};

struct Family {
  static constexpr int64_t kGrowing = 8;  ///< sizes in a row, each above the one before
  Pattern pattern;
  std::unique_ptr<const Regimes> regimes;
  std::unique_ptr<const FreeProgram> program;
  FamilyExample newest;
  ops::Lowered lowered;       ///< of `newest`, without its program
  Tolerance tolerance;        ///< of plans for any sizes
  Point largest;              ///< that was recorded
  bool records_grew = false;  ///< did the records come as a growing cache's?
  std::atomic<bool> retired{false};
  std::atomic<int64_t> served{0};
  Misses misses;
  /// Hashes of keys that came lately, each in its place.
  std::array<std::atomic<uint64_t>, 256> came = {};
  /// Did it come lately? From now on it did.
  bool comes_again(uint64_t hash) {
    return came[hash % came.size()].exchange(hash, std::memory_order_relaxed) == hash;
  }
  /// Of its one size: plans up to there are made, or will be before they are asked for.
  std::atomic<int64_t> ahead{0};
  std::atomic<int64_t> last{0}, ascents{0};
  /// Do calls come as a growing cache's, each of a larger size? (Several may be of one size.)
  bool calls_grow(int64_t size) {
    const int64_t before = last.exchange(size, std::memory_order_relaxed);
    if (size < before) ascents.store(0, std::memory_order_relaxed);
    if (size > before) ascents.fetch_add(1, std::memory_order_relaxed);
    return ascents.load(std::memory_order_relaxed) > kGrowing;
  }
  // Under runtime_mutex().
  static constexpr size_t kMostBoxes = 256;
  std::vector<std::pair<Box, std::shared_ptr<FamilyBox>>> boxes;  ///< the last asked for first
  /// Null where there is none yet. Moves it to the front.
  std::shared_ptr<FamilyBox> box_of(const Box& sizes);
  std::string why_retired;
};

/// Under runtime_mutex(), all of it.
class Families {
 public:
  static constexpr size_t kFewestExamples = 3;
  struct Found {
    std::shared_ptr<Family> family;
    Point point;
    std::shared_ptr<FamilyBox> box;  ///< null where there is none yet
  };
  /// The narrowest family that the key fits, and its box, which it moves to the front; null if
  /// none.
  Found find(KeyWords words) const;
  /// Adds a record. Gives the records of its kind, if with it they are enough for a new family.
  std::vector<FamilyExample> add(FamilyExample example);
  void add(std::shared_ptr<Family> family);
  /// Would so many more records of the key's kind be enough for a family?
  bool may_become(KeyWords words, size_t more) const;
  /// No family of this kind: why. `for_good`: nor of later records.
  void refuse(KeyWords words, const std::string& why, bool for_good = false);
  std::vector<std::string> text() const;
  int64_t served() const;
  bool empty() const { return families_.empty(); }
  void clear();

 private:
  static constexpr size_t kMostKinds = 8, kMostExamples = 6, kMostFamilies = 16;
  struct Kind {
    std::vector<FamilyExample> examples;
    std::string refused;
    bool for_good = false;
  };
  std::vector<Kind>::const_iterator kind_of(KeyWords words) const;

  std::vector<Kind> kinds_;
  std::vector<std::shared_ptr<Family>> families_;
};

/// Throws std::runtime_error that says why these records are no family.
std::shared_ptr<Family> make_family(const std::vector<FamilyExample>& examples);

/// Compiles the plans of a box. Never throws.
std::unique_ptr<const BoxPlans> compile_box(const Family& family, const Box& box,
                                            int64_t& kernels_compiled);

}  // namespace graft::runtime
