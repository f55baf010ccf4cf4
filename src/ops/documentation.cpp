#include "ops/documentation.h"

#include <algorithm>
#include <unordered_set>

#include "ops/complex.h"
#include "ops/condition.h"
#include "ops/pointwise.h"

namespace graft::ops {

namespace {

/// A vertical bar would end the cell.
std::string cell(std::string_view what) {
  std::string text;
  for (char c : what) text += c == '|' ? std::string("\\|") : std::string(1, c);
  return text;
}

void table(std::string& text, const char* title, const char* intro, const std::vector<Row>& rows) {
  text += "\n## " + std::string(title) + "\n\n" + intro +
          "\n\n| operator | what it becomes |\n|---|---|\n";
  for (const Row& row : rows)
    text += "| `" + std::string(row.name) + "` | " + cell(row.what) + " |\n";
}

const char* name(Promotion promotion) {
  switch (promotion) {
    case Promotion::Same:
      return "operands'";
    case Promotion::Float:
      return "floating";
    case Promotion::Divide:
      return "floating, or operands'";
    case Promotion::Compare:
      return "Bool";
  }
  return "";
}

std::string name(RowBits bits) {
  switch (bits.exactness) {
    case Exactness::Bits:
      return "bits";
    case Exactness::Body:
      return "body, " + std::to_string(bits.tail_ulps) + " ulp";
    case Exactness::Close:
      return "close";
  }
  return "";
}

}  // namespace

std::string operator_documentation() {
  std::string text = R"(# Operators

Printed from the tables in `src/ops`, whose rows also make the lowering and the tests. A row stands for all overloads of
its operator, in-place and `out=` forms included. An operator that is not listed, or that is called with complex
tensors and not listed for them, or with quantised ones or those of dtypes without loops (`float8_e4m3fnuz`), runs as ATen's own kernel between the fused ones. Random operators always do,
but for the rows of `bernoulli_` and `native_dropout`, which draw by ATen's generator.

## Pointwise

a, b, c are the operands in the schema's order, numbers included. Bits of floating results:

- *bits*: eager's, whatever the layout (where the row names an exception, *body* there).
- *body*: those of ATen's vectorised loop. Its scalar tails and its loops over strided tensors call another function, or
  round differently, by at most so many units in the last place.
- *close*: eager calls another library, or errs (numerics.md); no further from the exact value than its vectorised loop.

Integers are exact everywhere.

| operator | a, b, c ↦ | result's dtype | bits |
|---|---|---|---|
)";
  for (const PointwiseRow& row : pointwise_table())
    text += "| `" + std::string(row.name) + "` | " + cell(row.what) + " | " + name(row.promotion) +
            " | " + name(row.bits) + " |\n";
  text +=
      "\n## Complex numbers\n\nA loop for the real parts and one for the imaginary parts, whose "
      "sums "
      "and products may round otherwise than eager's.\nA lazy conjugate is read as one.\n\n"
      "| operator | a, b ↦ |\n|---|---|\n";
  for (const ComplexRow& row : complex_rows())
    text += "| `" + std::string(row.name) + "` | " + cell(row.what) + " |\n";
  table(text, "Views", "They cost nothing: later accesses carry their layout.", view_rows());
  table(text, "Copies, fills and ranges", "One loop nest per part.", copy_rows());
  table(text, "Reductions", "Bits never depend on the number of threads.", reduction_rows());
  table(text, "Softmax and norms", "", norm_rows());
  table(text, "Indexing", "Bounds are checked as eager checks them, before anything is written.",
        index_rows());
  table(
      text, "Conditions",
      "Values that the function's own code branches on. A plan checks them, and is given up "
      "where they differ: what it wrote is\nput back, the call runs eagerly, and is recorded again "
      "if that happens often.",
      condition_rows());
  return text;
}

}  // namespace graft::ops
