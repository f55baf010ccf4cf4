#include "tensor/lineage.h"

namespace graft {

std::string print(const Lineage& lineage) {
  if (lineage.inference) return ", inference";
  constexpr const char* kRoots[] = {"", "argument ", "captured ", "result "};
  if (lineage.root == Lineage::Root::None) return {};
  std::string text = lineage.view ? ", view of " : ", version of ";
  text += kRoots[static_cast<size_t>(lineage.root)] + std::to_string(lineage.index);
  if (lineage.creation != 0) text += ", creation " + std::to_string(lineage.creation);
  return text;
}

}  // namespace graft
