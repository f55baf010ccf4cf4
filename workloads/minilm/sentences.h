// English sentences of many kinds and lengths, and queries whose nearest sentences a reader can
// judge.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace graft::workloads::minilm {

inline constexpr std::string_view kSentences[] = {
    "The ferry to the island leaves at half past six, weather permitting.",
    "Knead the dough until it springs back, then let it rest under a damp cloth for an hour.",
    "She tuned the cello by ear, one peg at a time.",
    "Interest rates rose again, and the price of a first home moved further out of reach.",
    "A cold front will bring sleet to the hills by Thursday evening.",
    "My laptop no longer charges, although the light on the adapter is on.",
    "The compiler fuses neighbouring loops so that each value is read from memory only once.",
    "Vaccination prevents more deaths each year than any other medical act.",
    "He scored in the last minute, and the stadium fell silent for a moment before it roared.",
    "Water the tomatoes in the morning, at the root, and never over the leaves.",
    "The court ruled that the contract was void because one side could not have understood it.",
    "Bees tell one another where the flowers are by dancing in the dark of the hive.",
    "Turn left at the old mill, cross the bridge, and you will see the inn on your right.",
    "The museum has lent its only Vermeer to an exhibition in Tokyo until the spring.",
    "Please return the library books before the end of the month to avoid a fine.",
    "Astronomers found water vapour in the air of a planet that circles a small red star.",
    "The bakery on the corner sells out of rye bread by nine.",
    "Two tablespoons of vinegar in the rinse will keep the wool soft.",
    "The train was cancelled, so we shared a taxi with three strangers and a dog.",
    "A matrix is singular when its determinant is zero.",
    "Her grandfather had carved the chess pieces from driftwood during the war.",
    "The pharmacist warned him not to take the tablets with grapefruit juice.",
    "Rain.",
    "After years of drought the reservoir is full, and the village that it drowned is hidden once "
    "more.",
    "The new graphics card draws three hundred watts and needs two power connectors.",
    "Children learn a second language faster when they play in it than when they are taught it.",
    "He signed the lease without reading the clause about repairs.",
    "The orchestra rehearsed the slow movement eleven times before the conductor was content.",
    "Glaciers in the range have lost a third of their ice since the first survey, and the streams "
    "that they feed "
    "now run dry in late summer, weeks before the harvest.",
    "To reset the router, hold the small button at the back for ten seconds.",
    "The striker will miss the rest of the season with a torn ligament.",
    "Olive oil smokes at a lower temperature than most people fry at.",
    "Parliament debated the budget through the night and voted at dawn.",
    "Our cat sleeps on the keyboard whenever somebody needs it.",
    "Quantum computers factor large numbers in principle; in practice they still factor fifteen.",
    "The marathon route follows the river for twenty miles and then climbs to the cathedral.",
    "Wolves were brought back to the park, and within ten years the willows had returned, then the "
    "beavers, and at "
    "last the songbirds that nest beside still water.",
    "I would like a room with a view of the harbour for two nights, please.",
    "The detective noticed that the clock had been wound, though the house had stood empty for a "
    "year.",
    "Bring a torch, dry socks, and more water than you think you need.",
};

inline constexpr std::string_view kQueries[] = {
    "How do I bake bread at home?",
    "computer hardware that does not work",
    "the climate is changing",
    "tickets and timetables for travelling",
    "classical music",
};

struct Neighbour {
  int64_t index = 0;      ///< into the candidates' rows
  double similarity = 0;  ///< cosine
};

/// The `count` rows of `candidates` [N, H] nearest to `query` [1, H] or [H], best first. All are
/// unit vectors, as MiniLM::encode makes them, so that a dot product is the cosine.
inline std::vector<Neighbour> nearest(const at::Tensor& query, const at::Tensor& candidates,
                                      int64_t count) {
  const at::Tensor similarities = at::matmul(candidates, query.reshape({-1}));
  const auto [values, indices] = at::topk(similarities, std::min(count, candidates.size(0)));
  std::vector<Neighbour> out;
  for (int64_t i = 0; i < values.size(0); ++i) {
    out.push_back({indices.const_data_ptr<int64_t>()[i], values.const_data_ptr<float>()[i]});
  }
  return out;
}

}  // namespace graft::workloads::minilm
