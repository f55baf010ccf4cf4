#include "lab/memory/storage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace graft::lab {
namespace {

TEST(StorageProof, FindsViewsAndWhatTheyHold) {
  const at::Tensor whole = at::zeros({4, 100});
  const StorageProof proof = storage_proof({{"whole", whole},
                                            {"row", whole.select(0, 1)},
                                            {"turned", whole.t()},
                                            {"wide", at::zeros({1, 8}).expand({16, 8})},
                                            {"own", at::zeros({3}, at::kBFloat16)},
                                            {"none", at::Tensor()},
                                            {"empty", at::empty({0})}});
  ASSERT_EQ(proof.tensors.size(), 7u);
  EXPECT_EQ(proof.tensors[0].logical, 1600);
  EXPECT_EQ(proof.tensors[0].stored, 1600);
  EXPECT_FALSE(proof.tensors[0].view);
  EXPECT_FALSE(proof.tensors[0].notable);
  EXPECT_EQ(proof.tensors[1].logical, 400);
  EXPECT_EQ(proof.tensors[1].stored, 1600);
  EXPECT_DOUBLE_EQ(proof.tensors[1].inflation, 4);
  EXPECT_TRUE(proof.tensors[1].view);
  EXPECT_TRUE(proof.tensors[1].notable);
  EXPECT_TRUE(proof.tensors[2].view);
  EXPECT_FALSE(proof.tensors[2].notable);
  EXPECT_TRUE(proof.tensors[3].view);
  EXPECT_DOUBLE_EQ(proof.tensors[3].inflation, 1.0 / 16);
  EXPECT_EQ(proof.tensors[4].stored, 6);
  EXPECT_EQ(proof.tensors[5].storage, -1);
  EXPECT_DOUBLE_EQ(proof.tensors[6].inflation, 1);
  ASSERT_EQ(proof.storages.size(), 4u);
  EXPECT_EQ(proof.storages[0].tensors, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(proof.stored, 1600 + 32 + 6);

  const nlohmann::json json = to_json(proof);
  EXPECT_EQ(json["storages"][0]["tensors"], (std::vector<std::string>{"whole", "row", "turned"}));
  EXPECT_TRUE(json["tensors"][5]["stored"].is_null());
  std::ostringstream out;
  print(out, proof);
  EXPECT_NE(out.str().find("4.00x"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("whole, turned"), std::string::npos) << out.str();
}

TEST(StorageProof, OfManyTensorsThePlainOnesAreCounted) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (int i = 0; i < 20; ++i) tensors.emplace_back("t" + std::to_string(i), at::zeros({8}));
  tensors.emplace_back("row", at::zeros({4, 8}).select(0, 1));
  std::ostringstream out;
  print(out, storage_proof(tensors));
  EXPECT_NE(out.str().find("20, each all of a storage"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("row"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().find("t7"), std::string::npos) << out.str();
}

TEST(StorageProof, TenPercentIsNotNotable) {
  const at::Tensor t = at::zeros({110});
  EXPECT_FALSE(storage_proof({{"t", t.narrow(0, 0, 100)}}).tensors[0].notable);
  EXPECT_TRUE(storage_proof({{"t", t.narrow(0, 0, 99)}}).tensors[0].notable);
}

}  // namespace
}  // namespace graft::lab
