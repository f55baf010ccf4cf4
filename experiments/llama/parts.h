// The parts of `graft llama`, each of which makes a section of its report.
#pragma once

#include <filesystem>

#include "experiments/frame/experiment.h"
#include "graft/workload.h"

namespace graft::experiments::llama {

/// Shares of the regions in the eager model's time, what compiling each gains there and alone, and
/// what follows from it for the model (Amdahl): written to `facts` as "predicted".
lab::Section regions(const workloads::Options& model, const Settings& settings, const Say& say,
                     nlohmann::json& facts);
/// The operations that the regions are made of, alone, eager and compiled; and what each boundary
/// between two that are compiled apart costs.
lab::Section operations(const workloads::Options& model, const Settings& settings, const Say& say);
/// A stream of sequences of random lengths.
lab::Section lengths(const workloads::Options& model, const Settings& settings, const Say& say);

struct Pretrained {
  std::filesystem::path model;  ///< a checkpoint's folder; empty: a small decoder trained here
  std::filesystem::path text;   ///< to score; empty: a licence that Debian installs
};
/// Real weights: perplexity, and text that they make, eager and compiled. Throws cli::UsageError,
/// and what reading the checkpoint throws.
lab::Section pretrained(const Pretrained& choice, const Settings& settings, const Say& say);

}  // namespace graft::experiments::llama
