// Recommenders: embeddings, their products, their losses, and vector search.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// A factorisation machine's click probability: fields (B, F) of embeddings (V, D) and linear
/// weights (V).
at::Tensor factorization_machine(const at::Tensor& fields, const at::Tensor& embeddings,
                                 const at::Tensor& linear) {
  const at::Tensor e = at::embedding(embeddings, fields);
  const at::Tensor pairs = (e.sum(1).square() - e.square().sum(1)).sum(-1) * 0.5;
  const at::Tensor single = linear.index_select(0, fields.view(-1)).view(fields.sizes()).sum(1);
  return at::sigmoid(single + pairs);
}

/// Weighted sums of embeddings (V, D) for bags (B, L).
at::Tensor embedding_bag(const at::Tensor& bags, const at::Tensor& weights,
                         const at::Tensor& embeddings) {
  return (at::embedding(embeddings, bags) * weights.unsqueeze(-1)).sum(1);
}

/// DLRM's interaction: the products of all pairs of a sample's vectors, dense (B, D) and sparse
/// (B, F, D), below the diagonal (`pairs`), after the dense one.
at::Tensor dot_interaction(const at::Tensor& dense, const at::Tensor& sparse,
                           const at::Tensor& pairs) {
  const at::Tensor all = at::cat({dense.unsqueeze(1), sparse}, 1);
  const at::Tensor products = at::bmm(all, all.transpose(1, 2)).flatten(1);
  return at::cat({dense, products.index_select(1, pairs)}, 1);
}

/// Bayesian personalised ranking: the loss of (user, liked, other) triples, and its gradient by the
/// users' embeddings.
std::tuple<at::Tensor, at::Tensor> pairwise_ranking(const at::Tensor& users,
                                                    const at::Tensor& items, const at::Tensor& user,
                                                    const at::Tensor& liked,
                                                    const at::Tensor& other) {
  const at::Tensor difference = items.index_select(0, liked) - items.index_select(0, other);
  const at::Tensor margin = (users.index_select(0, user) * difference).sum(-1);
  const at::Tensor slope = (at::sigmoid(margin) - 1) / static_cast<double>(user.size(0));
  const at::Tensor gradient =
      at::zeros_like(users).index_add_(0, user, slope.unsqueeze(1) * difference);
  return {-at::log_sigmoid(margin).mean(), gradient};
}

/// Product quantisation: for each of M parts of x (N, M D) the nearest of its codebook (M, K, D).
at::Tensor product_codes(const at::Tensor& x, const at::Tensor& codebooks) {
  const int64_t parts = codebooks.size(0);
  const at::Tensor each = x.view({x.size(0), parts, -1}).transpose(0, 1);
  const at::Tensor distance =
      codebooks.square().sum(-1).unsqueeze(1) - 2 * at::bmm(each, codebooks.transpose(1, 2));
  return distance.argmin(-1).t().to(at::kByte).contiguous();
}

Instance factorization_machine_case(const Options& o) {
  const int64_t batch = o.integer("batch"), fields = o.integer("fields"),
                width = o.integer("width"), values = o.integer("values");
  Draw draw(o);
  const at::Tensor index = draw.integers({batch, fields}, values);
  const int64_t touched = distinct(index);
  return bounded(instance_of(factorization_machine, index, draw.normal({values, width}) * 0.1,
                             draw.normal({values})),
                 8 * batch * fields + 4 * touched * (width + 1) + 4 * batch,
                 batch * (3 * fields * width + fields + kFunction));
}

Instance embedding_bag_case(const Options& o) {
  const int64_t batch = o.integer("batch"), length = o.integer("length"),
                width = o.integer("width"), values = o.integer("values");
  Draw draw(o);
  const at::Tensor bags = draw.integers({batch, length}, values);
  return bounded(
      instance_of(embedding_bag, bags, draw.uniform({batch, length}), draw.normal({values, width})),
      (8 + 4) * batch * length + 4 * width * (distinct(bags) + batch), 2 * batch * length * width);
}

Instance dot_interaction_case(const Options& o) {
  const int64_t batch = o.integer("batch"), fields = o.integer("fields"),
                width = o.integer("width"), vectors = fields + 1, pairs = vectors * fields / 2;
  Draw draw(o);
  const at::Tensor dense = draw.normal({batch, width}),
                   sparse = draw.normal({batch, fields, width});
  const at::Tensor lower = at::tril_indices(vectors, vectors, -1);
  const at::Tensor index = lower.select(0, 0) * vectors + lower.select(0, 1);
  return bounded(instance_of(dot_interaction, dense, sparse, index),
                 4 * batch * (vectors * width + width + pairs) + 8 * pairs,
                 2 * batch * pairs * width);
}

Instance pairwise_ranking_case(const Options& o) {
  const int64_t batch = o.integer("batch"), users = o.integer("users"), items = o.integer("items"),
                width = o.integer("width");
  Draw draw(o);
  const at::Tensor of_users = draw.normal({users, width}) * 0.1,
                   of_items = draw.normal({items, width}) * 0.1;
  const at::Tensor user = draw.integers({batch}, users), liked = draw.integers({batch}, items),
                   other = draw.integers({batch}, items);
  const int64_t touched = distinct(user) + distinct(at::cat({liked, other}));
  return bounded(instance_of(pairwise_ranking, of_users, of_items, user, liked, other),
                 4 * width * (touched + users) + 3 * 8 * batch + 4,
                 batch * (5 * width + 2 * kFunction));
}

Instance product_codes_case(const Options& o) {
  const int64_t rows = o.integer("rows"), parts = o.integer("parts"), codes = o.integer("codes"),
                width = o.integer("width");
  Draw draw(o);
  const at::Tensor x = draw.normal({rows, parts * width}),
                   codebooks = draw.normal({parts, codes, width});
  return bounded(instance_of(product_codes, x, codebooks),
                 4 * (rows * parts * width + parts * codes * width) + rows * parts,
                 rows * parts * codes * (2 * width + 3));
}

std::vector<Axis> table_axes(const char* batch, const char* count, const char* what,
                             const char* name, const char* width) {
  return {{"batch", batch, "37", "samples"},
          {name, count, "5", what},
          {"width", width, "13", "of an embedding"},
          {"values", "131072", "211", "embeddings"}};
}

}  // namespace

std::vector<Workload> recommender_cases() {
  return {
      {"factorization_machine_f32", "a factorisation machine's click probability",
       table_axes("16384", "26", "fields of a sample", "fields", "16"), factorization_machine_case,
       kSums},
      {"embedding_bag_f32", "weighted sums of embeddings",
       table_axes("4096", "32", "of a bag", "length", "64"), embedding_bag_case, kSums},
      {"dot_interaction_f32",
       "products of all pairs of a sample's embeddings",
       {{"batch", "4096", "37", "samples"},
        {"fields", "26", "5", "sparse vectors of a sample"},
        {"width", "32", "13", "of a vector"}},
       dot_interaction_case,
       kSums},
      {"pairwise_ranking_f32",
       "BPR's loss and its gradient by the users",
       {{"batch", "65536", "131", "triples"},
        {"users", "65536", "37", "users"},
        {"items", "32768", "53", "items"},
        {"width", "32", "13", "of an embedding"}},
       pairwise_ranking_case,
       kSums},
      {"product_codes_u8",
       "product quantisation: the nearest of each part's codebook",
       {{"rows", "4096", "37", "vectors"},
        {"parts", "8", "3", "of a vector"},
        {"codes", "256", "11", "of a codebook"},
        {"width", "8", "5", "of a part"}},
       product_codes_case},
  };
}

}  // namespace graft::workloads::wild
