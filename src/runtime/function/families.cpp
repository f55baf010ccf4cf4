#include "runtime/function/families.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/function/stored.h"
#include "runtime/process/worker.h"

namespace graft::runtime {

namespace {

class Compiler final : public Maker {
 public:
  explicit Compiler(const Family& family) : family_(family) {}

  ir::Schedule schedule(ir::Program program,
                        const std::map<std::string, std::string>& decisions) override {
    CompileSettings settings = family_.newest.settings;
    for (const auto& [id, way] : decisions) settings.decisions.emplace(id, way);
    return runtime::schedule(lowered(std::move(program)), settings);
  }
  std::map<std::string, std::string> decide(ir::Program program) override {
    std::vector<passes::PassRecord> records;
    runtime::schedule(lowered(std::move(program)), family_.newest.settings, &records);
    std::map<std::string, std::string> taken;
    for (const passes::PassRecord& record : records)
      for (const Decision& decision : record.decisions)
        taken.emplace(decision.id(), decision.ways[decision.taken].name);
    return taken;
  }
  std::unique_ptr<Plan> generate(const ir::Schedule& schedule) override {
    const CompileSettings& settings = family_.newest.settings;
    Generated made = settings.cache ? generate_kept(schedule, settings.target, settings.name)
                                    : runtime::generate(schedule, settings.target, settings.name);
    kernels_compiled_ += made.kernels_compiled;
    return std::move(made.plan);
  }
  bool stopping() const override {
    return Worker::instance().stopping() || family_.retired.load(std::memory_order_relaxed);
  }
  int64_t kernels_compiled() const { return kernels_compiled_; }

 private:
  ops::Lowered lowered(ir::Program program) const {
    ops::Lowered made = family_.lowered;
    made.program = std::move(program);
    return made;
  }

  const Family& family_;
  int64_t kernels_compiled_ = 0;
};

}  // namespace

std::shared_ptr<FamilyBox> Family::box_of(const Box& sizes) {
  for (auto found = boxes.begin(); found != boxes.end(); ++found)
    if (found->first == sizes) {
      std::rotate(boxes.begin(), found, found + 1);
      return boxes.front().second;
    }
  return nullptr;
}

Families::Found Families::find(KeyWords words) const {
  for (const auto& family : families_)
    if (!family->retired.load(std::memory_order_relaxed))
      if (auto point = family->pattern.match(words); point && family->regimes->hold(*point)) {
        auto box = family->box_of(runtime::box_of(*point));
        return {family, std::move(*point), std::move(box)};
      }
  return {};
}

std::vector<Families::Kind>::const_iterator Families::kind_of(KeyWords words) const {
  return std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return same_kind(kind.examples.front().entry->key.words, words);
  });
}

std::vector<FamilyExample> Families::add(FamilyExample example) {
  const KeyWords words = example.entry->key.words;
  auto found = kinds_.begin() + (kind_of(words) - kinds_.cbegin());
  if (found == kinds_.end()) {
    if (kinds_.size() == kMostKinds) kinds_.erase(kinds_.begin());
    found = kinds_.insert(kinds_.end(), Kind{});
  }
  // A layout that is recorded again, since captured tensors changed, replaces its earlier record.
  std::erase_if(found->examples, [&](const FamilyExample& other) {
    return same_words(other.entry->key.words, words);
  });
  if (found->examples.size() == kMostExamples) found->examples.erase(found->examples.begin());
  found->examples.push_back(std::move(example));
  if (found->for_good) return {};
  if (!found->refused.empty() && found->examples.size() < kMostExamples) return {};
  if (find(words).family != nullptr) return {};
  // The newest ones that are enough: an earlier one may be of another sort (a first call's).
  const auto& all = found->examples;
  for (size_t count = kFewestExamples; count <= all.size(); ++count) {
    const std::vector<FamilyExample> newest(all.end() - static_cast<std::ptrdiff_t>(count),
                                            all.end());
    std::vector<KeyWords> keys;
    for (const FamilyExample& one : newest) keys.push_back(one.entry->key.words);
    if (Pattern::of(keys)) return newest;
  }
  return {};
}

bool Families::may_become(KeyWords words, size_t more) const {
  for (const auto& family : families_)
    if (family->retired.load() && family->pattern.match(words)) return false;
  const auto kind = kind_of(words);
  if (kind == kinds_.end()) return more >= kFewestExamples;
  return kind->refused.empty() && kind->examples.size() + more >= kFewestExamples;
}

void Families::add(std::shared_ptr<Family> family) {
  if (families_.size() == kMostFamilies) families_.erase(families_.begin());
  families_.push_back(std::move(family));
}

void Families::refuse(KeyWords words, const std::string& why, bool for_good) {
  const auto kind = kind_of(words);
  if (kind == kinds_.end()) return;
  Kind& refused = kinds_[static_cast<size_t>(kind - kinds_.begin())];
  refused.refused = why;
  refused.for_good = refused.for_good || for_good;
}

std::vector<std::string> Families::text() const {
  std::vector<std::string> lines;
  for (const auto& family : families_) {
    std::string line = family->pattern.text();
    if (family->retired.load()) {
      lines.push_back(line + ": given up: " + family->why_retired);
      continue;
    }
    size_t ready = 0, slower = 0, plans = 0;
    std::string lacks;
    for (const auto& [box, state] : family->boxes) {
      if (state->state.load() == FamilyBox::State::Compiling) continue;
      ++ready;
      plans += state->plans->templates();
      slower += state->state.load() == FamilyBox::State::Slower;
      if (lacks.empty()) lacks = state->plans->why();
    }
    lines.push_back(line + ": " + std::to_string(family->served.load()) + " calls served, by " +
                    std::to_string(plans) + " plans for " + std::to_string(ready) +
                    " ranges of sizes" +
                    (slower > 0 ? " (" + std::to_string(slower) + " of them slower than eager)"
                                : std::string()));
    lines.push_back("numbers of the program that follow: " + family->program->text());
    if (!lacks.empty()) lines.push_back("each layout has a plan of its own for " + lacks);
  }
  for (const Kind& kind : kinds_)
    if (!kind.refused.empty())
      lines.push_back("each layout has a plan of its own: " + kind.refused);
  return lines;
}

int64_t Families::served() const {
  int64_t sum = 0;
  for (const auto& family : families_) sum += family->served.load();
  return sum;
}

void Families::clear() {
  // Their plans are still being made.
  for (const auto& family : families_) family->retired.store(true);
  kinds_.clear();
  families_.clear();
}

std::shared_ptr<Family> make_family(const std::vector<FamilyExample>& examples) {
  std::vector<KeyWords> keys;
  for (const FamilyExample& one : examples) keys.push_back(one.entry->key.words);
  auto pattern = Pattern::of(keys);
  if (!pattern) throw std::runtime_error("too few layouts for its free sizes");
  const FamilyExample& newest = examples.back();
  std::vector<Point> points;
  std::vector<ops::Lowered> lowered;
  std::vector<const ir::Program*> programs;
  std::vector<const record::Trace*> traces;
  CompileSettings settings = newest.settings;
  settings.most_folded_bytes = 0;
  settings.any_size = true;
  for (const FamilyExample& one : examples) {
    auto point = pattern->match(one.entry->key.words);
    if (!point) throw std::runtime_error("its layouts do not fit one another");
    if (one.trace->backward) throw std::runtime_error("its results take part in autograd");
    if (!one.entry->captured.same_apart(newest.entry->captured))
      throw std::runtime_error(
          "at other sizes it uses other captured tensors, or their gradients, or arguments that "
          "share memory with them");
    if (one.entry->constants != newest.entry->constants)
      throw std::runtime_error("a number in its result depends on the sizes");
    points.push_back(std::move(*point));
    traces.push_back(one.trace.get());
    lowered.push_back(lower_as_tuned(*one.trace, settings));
    if (lowered.back().broken) throw std::runtime_error(*lowered.back().broken);
  }
  for (const ops::Lowered& one : lowered) programs.push_back(&one.program);
  auto made = std::make_shared<Family>();
  made->pattern = std::move(*pattern);
  made->newest = newest;
  made->program = std::make_unique<const FreeProgram>(made->pattern.names(), points, programs);
  made->regimes = std::make_unique<const Regimes>(points, traces);
  settings.constants = std::make_shared<const std::set<int64_t>>(made->program->constants());
  made->tolerance = tolerance_at_any_size(*traces.back(), lowered.back(), settings);
  made->newest.settings = std::move(settings);
  made->newest.trace.reset();
  made->lowered = std::move(lowered.back());
  made->lowered.program = {};
  made->largest = *std::max_element(points.begin(), points.end());
  made->records_grew =
      std::adjacent_find(points.begin(), points.end(), [](const Point& a, const Point& b) {
        return b[0] <= a[0] || b[0] > a[0] + std::max<int64_t>(a[0] / 8, 1);
      }) == points.end();
  return made;
}

std::unique_ptr<const BoxPlans> compile_box(const Family& family, const Box& box,
                                            int64_t& kernels_compiled) {
  Compiler compiler(family);
  auto made = std::make_unique<const BoxPlans>(*family.program, box, compiler);
  kernels_compiled = compiler.kernels_compiled();
  return made;
}

}  // namespace graft::runtime
