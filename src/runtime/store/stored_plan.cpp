#include "runtime/store/stored_plan.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "runtime/process/text.h"
#include "runtime/store/bytes.h"

namespace graft::runtime {

namespace {

using ir::NumberVisitor;

void visit(std::vector<std::string>& texts, NumberVisitor& v) {
  v.size(texts);
  for (std::string& text : texts) v.text(text);
}

void visit_key(int& key, NumberVisitor& v) {
  v.structure(key);
}
void visit_key(std::string& key, NumberVisitor& v) {
  v.text(key);
}
template <class Key>
void visit(std::map<Key, std::string>& map, NumberVisitor& v) {
  auto many = static_cast<int64_t>(map.size());
  v.count(many);
  std::vector<std::pair<Key, std::string>> pairs(map.begin(), map.end());
  pairs.resize(static_cast<size_t>(many));
  map.clear();
  for (auto& [key, text] : pairs) {
    visit_key(key, v);
    v.text(text);
    map.emplace(std::move(key), std::move(text));
  }
}

void visit(ir::Times& times, NumberVisitor& v) {
  for (double* time : {&times.instruction, &times.cache_byte, &times.memory_byte, &times.far_line,
                       &times.product_flop, &times.call_flop, &times.short_call_flop, &times.kernel,
                       &times.threads, &times.inner_loop, &times.second_cache})
    v.real(*time);
}

void visit(codegen::Code& code, NumberVisitor& v) {
  v.text(code.bytes);
  visit(code.functions, v);
  visit(code.symbols, v);
}

/// Kernels of one structure share their code.
void visit(std::vector<std::shared_ptr<const codegen::Code>>& of_kernels, NumberVisitor& v) {
  std::vector<std::shared_ptr<const codegen::Code>> distinct;
  std::vector<size_t> place;
  for (const auto& code : of_kernels) {
    const auto known = std::find(distinct.begin(), distinct.end(), code);
    place.push_back(static_cast<size_t>(known - distinct.begin()));
    if (known == distinct.end()) distinct.push_back(code);
  }
  v.size(distinct);
  for (auto& code : distinct) {
    auto copy = code ? std::make_shared<codegen::Code>(*code) : std::make_shared<codegen::Code>();
    visit(*copy, v);
    code = std::move(copy);
  }
  v.structures(place);
  of_kernels.clear();
  for (size_t k : place) of_kernels.push_back(distinct.at(k));
}

void visit(std::vector<OperatorReport>& operators, NumberVisitor& v) {
  v.size(operators);
  for (OperatorReport& row : operators) {
    for (std::string* text : {&row.name, &row.fate, &row.why}) v.text(*text);
    v.structure(row.count);
  }
}

void visit(Tolerance& tolerance, NumberVisitor& v) {
  v.structure(tolerance.exact);
  v.structure(tolerance.coarsest);
  v.structure(tolerance.either_zero);
  v.real(tolerance.slack);
  for (auto* types : {&tolerance.results, &tolerance.arguments, &tolerance.captured})
    v.structures(*types);
}

/// A plan and its schedules: these are not copied.
struct Whole {
  StoredPlan& plan;
  ir::Schedule& schedule;
  std::optional<ir::Schedule>& backward;
};

void visit(const Whole& whole, NumberVisitor& v) {
  StoredPlan& plan = whole.plan;
  visit(plan.operators, v);
  visit(plan.tolerance, v);
  v.text(plan.gives_up);
  visit(plan.tuning.choices, v);
  visit(plan.tuning.loops, v);
  visit(plan.decisions, v);
  visit(plan.notes, v);
  visit(plan.times, v);
  ir::visit(whole.schedule, v);
  if (v.there(whole.backward)) ir::visit(*whole.backward, v);
  v.structures(plan.kept);
  v.structure(plan.kept_bytes);
  v.structures(plan.recomputed_from);
  visit(plan.code, v);
}

void visit(Proof& proof, NumberVisitor& v) {
  for (bool* is : {&proof.proven, &proof.raced, &proof.faster, &proof.bitwise, &proof.fp64_decided})
    v.structure(*is);
  v.structure(proof.threads);
  for (double* number : {&proof.max_abs, &proof.eager_us, &proof.compiled_us}) v.real(*number);
}

void visit(StoredScale& scale, NumberVisitor& v) {
  ir::visit(scale.schedule, v);
  visit(scale.code, v);
}

void visit(std::vector<StoredScales>& all, NumberVisitor& v) {
  v.size(all);
  for (StoredScales& scales : all) {
    for (auto* scale : {&scales.replay, &scales.reference})
      if (v.there(*scale)) visit(**scale, v);
    v.size(scales.disturbed);
    for (StoredScale& scale : scales.disturbed) visit(scale, v);
  }
}

template <class T>
std::string written(T&& value) {
  ByteWriter writer;
  visit(value, writer);
  if (!writer.complete) throw std::runtime_error("it uses a value that has no form outside");
  return std::move(writer.bytes);
}

template <class T>
void read(std::string_view bytes, T&& value) {
  ByteReader reader(bytes);
  visit(value, reader);
  if (!reader.at_end()) throw std::runtime_error("there is more than was written");
}

}  // namespace

std::string bytes_of(const StoredPlan& plan, const ir::Schedule& schedule,
                     const std::optional<ir::Schedule>& backward) {
  // A walk that writes leaves what it walks as it was.
  return written(Whole{const_cast<StoredPlan&>(plan), const_cast<ir::Schedule&>(schedule),
                       const_cast<std::optional<ir::Schedule>&>(backward)});
}
StoredPlan plan_of(std::string_view bytes, ir::Schedule& schedule,
                   std::optional<ir::Schedule>& backward) {
  StoredPlan plan;
  read(bytes, Whole{plan, schedule, backward});
  return plan;
}
std::string bytes_of(const std::vector<std::shared_ptr<const codegen::Code>>& code) {
  std::vector<std::shared_ptr<const codegen::Code>> copy = code;
  return written(copy);
}
std::vector<std::shared_ptr<const codegen::Code>> code_of(std::string_view bytes) {
  std::vector<std::shared_ptr<const codegen::Code>> code;
  read(bytes, code);
  return code;
}
std::string bytes_of(const std::vector<StoredScales>& scales) {
  return written(const_cast<std::vector<StoredScales>&>(scales));
}
std::vector<StoredScales> scales_of(std::string_view bytes) {
  std::vector<StoredScales> scales;
  if (!bytes.empty()) read(bytes, scales);
  return scales;
}
std::string bytes_of(const Proof& proof) {
  Proof copy = proof;
  return written(copy);
}
Proof proof_of(std::string_view bytes) {
  Proof proof;
  read(bytes, proof);
  return proof;
}

std::string text_of(const Proof& proof) {
  if (!proof.proven) return "not proven yet";
  std::ostringstream text;
  text.precision(3);
  if (proof.bitwise)
    text << "bitwise eager's";
  else
    text << (proof.fp64_decided ? "fp64 decided" : "within tolerance of eager's")
         << ", largest difference " << proof.max_abs;
  if (proof.raced)
    text << "; " << duration(proof.eager_us) << " eager, " << duration(proof.compiled_us)
         << " compiled, on " << count_of(proof.threads, "thread");
  return text.str();
}

}  // namespace graft::runtime
