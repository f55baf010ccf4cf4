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
  auto& [instruction, cache_byte, memory_byte, far_line, unasked_stream, product_flop, call_flop,
         short_call_flop, kernel, threads, inner_loop, second_cache] = times;
  for (double* time :
       {&instruction, &cache_byte, &memory_byte, &far_line, &unasked_stream, &product_flop,
        &call_flop, &short_call_flop, &kernel, &threads, &inner_loop, &second_cache})
    v.real(*time);
}

void visit(codegen::Code& code, NumberVisitor& v) {
  auto& [bytes, functions, symbols] = code;
  v.text(bytes);
  visit(functions, v);
  visit(symbols, v);
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
  for (auto& [name, fate, why, count] : operators) {
    for (std::string* text : {&name, &fate, &why}) v.text(*text);
    v.structure(count);
  }
}

void visit(Tolerance& tolerance, NumberVisitor& v) {
  auto& [exact, coarsest, slack, either_zero, detaches, results, arguments, captured] = tolerance;
  v.structure(exact);
  v.structure(coarsest);
  v.structure(either_zero);
  v.structure(detaches);
  v.real(slack);
  for (auto* types : {&results, &arguments, &captured}) v.structures(*types);
}

/// A plan and its schedules: these are not copied.
struct Whole {
  StoredPlan& plan;
  ir::Schedule& schedule;
  std::optional<ir::Schedule>& backward;
};

void visit(const Whole& whole, NumberVisitor& v) {
  auto& [operators, tolerance, gives_up, tuning, decisions, notes, times, kept, kept_bytes,
         recomputed_from, code] = whole.plan;
  auto& [choices, loops] = tuning;
  visit(operators, v);
  visit(tolerance, v);
  v.text(gives_up);
  visit(choices, v);
  visit(loops, v);
  visit(decisions, v);
  visit(notes, v);
  visit(times, v);
  ir::visit(whole.schedule, v);
  if (v.there(whole.backward)) ir::visit(*whole.backward, v);
  v.structures(kept);
  v.structure(kept_bytes);
  v.structures(recomputed_from);
  visit(code, v);
}

void visit(Proof& proof, NumberVisitor& v) {
  auto& [proven, raced, faster, threads, bitwise, fp64_decided, max_abs, eager_us, compiled_us] =
      proof;
  for (bool* is : {&proven, &raced, &faster, &bitwise, &fp64_decided}) v.structure(*is);
  v.structure(threads);
  for (double* number : {&max_abs, &eager_us, &compiled_us}) v.real(*number);
}

void visit(StoredScale& scale, NumberVisitor& v) {
  auto& [schedule, code] = scale;
  ir::visit(schedule, v);
  visit(code, v);
}

void visit(std::vector<StoredScales>& all, NumberVisitor& v) {
  v.size(all);
  for (auto& [replay, reference, disturbed] : all) {
    for (auto* scale : {&replay, &reference})
      if (v.there(*scale)) visit(**scale, v);
    v.size(disturbed);
    for (StoredScale& scale : disturbed) visit(scale, v);
  }
}

template <class T>
std::string written(T&& value) {
  ByteWriter writer;
  visit(value, writer);
  if (!writer.complete) throw std::runtime_error("it uses a value that has no form outside");
  return writer.take();
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
