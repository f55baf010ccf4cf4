#include "quantizer/model/memory_need.h"

#include <algorithm>
#include <set>

#include "lab/words.h"
#include "quantizer/model/error.h"

namespace graft::quantizer {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kIds = 3 * 8;  // a token's id: as it is made, in its sample, in its batch

std::string text_of(int64_t bytes) {
  return lab::bytes_text(static_cast<double>(bytes));
}

}  // namespace

int64_t MemoryNeed::total() const {
  return weights + hessians + activations + std::max(work, forward);
}

MemoryNeed memory_need(const Architecture& model, const CalibrationSize& calibration,
                       const Settings& settings) {
  MemoryNeed out;
  std::set<std::string> inputs;
  for (const LinearSpec& linear : model.linears(0)) {
    const int64_t elements = linear.rows * linear.columns, square = linear.columns * linear.columns;
    // The weight, and its codes, scales and zeros until the layer is written.
    out.weights += elements * kFloat + elements * settings.bits / 8 +
                   elements / std::max<int64_t>(settings.group, 16) * 2 * kFloat;
    if (inputs.insert(linear.inputs).second) out.hessians += square * kFloat;
    // H, its factor, its inverse and that one's factor; the weights as they change, their codes,
    // values and losses.
    out.work = std::max(out.work, 4 * square * kFloat + 5 * elements * kFloat);
  }
  // In tokens.
  const int64_t batch = std::min(calibration.tokens, std::max(kBatchTokens, calibration.longest));
  out.activations = calibration.tokens * (model.hidden * kFloat + kIds);
  out.forward = batch *
                (3 * model.intermediate + 8 * model.hidden + calibration.longest * model.heads) *
                kFloat;
  return out;
}

void check_memory(const MemoryNeed& need, int64_t available) {
  if (available < 0 || need.total() <= available) return;
  throw GptqError("one layer needs about " + text_of(need.total()) + " of memory (weights " +
                  text_of(need.weights) + ", Hessians " + text_of(need.hessians) +
                  ", quantising one linear layer " + text_of(need.work) + ", activations " +
                  text_of(need.activations) + ", running a batch " + text_of(need.forward) +
                  "), but there are " + text_of(available) +
                  "; lower --samples or --sequence, which the activations grow with, or use a "
                  "machine with more memory");
}

}  // namespace graft::quantizer
