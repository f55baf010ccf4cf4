// The reader against files from PyPI's safetensors (fixtures/make_safetensors.py), and against
// files that lie.
#include "formats/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace graft::formats {
namespace {

namespace fs = std::filesystem;

fs::path fixture(const std::string& name) {
  return fs::path(GRAFT_SOURCE_DIR) / "tests/formats/fixtures" / name;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_safetensors_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  // A file with that header, its true length before it, and that many zero bytes of data after it.
  fs::path make(const std::string& header, size_t data_bytes) const {
    return make_with_length(header.size(), header, data_bytes);
  }
  fs::path make_with_length(uint64_t length, const std::string& header, size_t data_bytes) const {
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    return write("x.safetensors", bytes + header + std::string(data_bytes, '\0'));
  }

  // That reading fails with SafetensorsError, whose text names the file and holds `part`.
  static void expect_refused(const fs::path& file, const std::string& part) {
    try {
      read_checkpoint(file);
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const SafetensorsError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(part), text.npos) << text;
      EXPECT_EQ(text.find(folder_text(file)), 0u) << text;
      EXPECT_LT(text.size(), 600u) << text;
    }
  }
  static std::string folder_text(const fs::path& file) {
    return fs::is_directory(file) ? file.string() : file.parent_path().string();
  }

  fs::path folder_;
};

at::Tensor ramp(at::ScalarType dtype, at::IntArrayRef sizes) {
  return at::arange(1, c10::multiply_integers(sizes) + 1).reshape(sizes).to(dtype);
}

TEST_F(SafetensorsTest, ReadsEveryTypeThatThePythonPackageWrites) {
  const Safetensors file = read_safetensors(fixture("every_type.safetensors"));
  const std::pair<const char*, at::ScalarType> rows[] = {
      {"f64", at::kDouble},    {"f32", at::kFloat}, {"f16", at::kHalf},
      {"bf16", at::kBFloat16}, {"i64", at::kLong},  {"i32", at::kInt},
      {"i16", at::kShort},     {"i8", at::kChar},   {"u8", at::kByte},
  };
  for (const auto& [name, dtype] : rows) {
    EXPECT_TRUE(at::equal(file.get(name, dtype, {2, 3}), ramp(dtype, {2, 3}))) << name;
  }
  const at::Tensor& flags = file.get("bool", at::kBool, {3});
  EXPECT_TRUE(flags[0].item<bool>() && !flags[1].item<bool>() && flags[2].item<bool>());
  EXPECT_EQ(file.get("scalar", at::kFloat, {}).item<float>(), 7.5f);
  EXPECT_EQ(file.get("empty", at::kFloat, {0, 4}).numel(), 0);
  EXPECT_EQ(file.get("nämé / 名前 \"quoted\"").item<float>(), 1.0f);
  EXPECT_EQ(file.tensors.size(), 13u);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(file.metadata.at("note"), "größe");
}

TEST_F(SafetensorsTest, ReadsFilesWithoutTensorsAndWithPadding) {
  EXPECT_TRUE(read_safetensors(fixture("no_tensors.safetensors")).tensors.empty());
  EXPECT_TRUE(read_safetensors(make("{}     ", 0)).tensors.empty());
}

TEST_F(SafetensorsTest, ReadsShardedCheckpoints) {
  for (const fs::path& from :
       {fixture("sharded"), fixture("sharded/model.safetensors.index.json")}) {
    const Safetensors model = read_checkpoint(from);
    ASSERT_EQ(model.tensors.size(), 3u);
    EXPECT_TRUE(at::equal(model.get("layer.0.weight"), ramp(at::kFloat, {2, 2})));
    EXPECT_TRUE(at::equal(model.get("layer.1.weight"), ramp(at::kFloat, {3})));
    EXPECT_EQ(model.metadata.at("format"), "pt");
  }
}

TEST_F(SafetensorsTest, TensorsOutliveTheReaderAndWritesStayPrivate) {
  const fs::path file = make(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  at::Tensor a = read_safetensors(file).get("a");
  a.fill_(3);
  EXPECT_EQ(a[1].item<float>(), 3);
  EXPECT_EQ(read_safetensors(file).get("a")[1].item<float>(), 0);
}

TEST_F(SafetensorsTest, CopiesTensorsAtOddAddresses) {
  const fs::path file = make(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
      9);
  const at::Tensor b = read_safetensors(file).get("b");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data_ptr()) % 8, 0u);
  EXPECT_EQ(b.item<double>(), 0);
}

TEST_F(SafetensorsTest, NamesWhatIsMissingOrDifferent) {
  const Safetensors file = read_safetensors(fixture("every_type.safetensors"));
  EXPECT_THROW(file.get("f99"), SafetensorsError);
  try {
    file.get("f32", at::kHalf, {3, 2});
    FAIL();
  } catch (const SafetensorsError& error) {
    EXPECT_NE(
        std::string(error.what()).find(R"(tensor "f32" is Float [2, 3]; expected Half [3, 2])"),
        std::string::npos)
        << error.what();
  }
}

TEST_F(SafetensorsTest, RefusesFilesThatAreNotThere) {
  expect_refused(folder_ / "absent.safetensors", "cannot be opened");
  expect_refused(folder_, "cannot be opened");
  fs::create_directories(folder_ / "model.safetensors");
  expect_refused(folder_, "is a folder; expected a file");
}

TEST_F(SafetensorsTest, RefusesLengthsThatLie) {
  expect_refused(write("x.safetensors", ""), "has 0 bytes");
  expect_refused(write("x.safetensors", "1234567"), "has 7 bytes");
  expect_refused(make_with_length(3, "{}", 0), "claims 3 bytes, but only 2 follow");
  expect_refused(make_with_length(~uint64_t{0}, "{}", 0), "over the format's 100 MB");
  expect_refused(make_with_length(100'000'001, "{}", 0), "over the format's 100 MB");
  expect_refused(make_with_length(0, "{}", 0), "does not start with '{'");
}

struct Bad {
  const char* what;
  std::string header;
  size_t data_bytes;
  const char* message;
};

TEST_F(SafetensorsTest, RefusesHeadersThatLie) {
  const std::string f32 = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const Bad rows[] = {
      {"cut data", R"({"a":)" + f32 + "}", 7, "do not lie in order in the file's 7 bytes"},
      {"trailing data", R"({"a":)" + f32 + "}", 9, "end at byte 8 of the data, but the file has 9"},
      {"data without tensors", "{}", 1, "end at byte 0 of the data, but the file has 1"},
      {"begin > end", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8,
       "do not lie in order"},
      {"wrong size", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
       "hold 8 bytes, but Float of its shape takes 12"},
      {"overlap", R"({"a":)" + f32 + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12, "overlaps the one before"},
      {"the same bytes twice", R"({"a":)" + f32 + R"(,"b":)" + f32 + "}", 8,
       "overlaps the one before"},
      {"hole", R"({"a":)" + f32 + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})", 10,
       "leaves a hole"},
      {"hole at the start", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
       "leaves a hole"},
      {"product overflows",
       R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "more than 2^63 - 1 bytes"},
      {"product wraps to what fits",
       R"({"a":{"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]}})", 8,
       "more than 2^63 - 1 bytes"},
      {"overflow hidden by zero",
       R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0,
       "more than 2^63 - 1 bytes"},
      {"size over int64",
       R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]}})", 0,
       "over 2^63 - 1"},
      {"size over uint64",
       R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}})", 0,
       "not an integer of 64 bits"},
      {"negative size", R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8,
       "the negative number -2; expected integers"},
      {"fractional size", R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8,
       "the number 2.0, not an integer"},
      {"size as text", R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", 8,
       "holds the string \"2\"; expected integers"},
      {"unknown dtype", R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8,
       "unknown dtype \"F33\""},
      {"dtype as number", R"({"a":{"dtype":32,"shape":[2],"data_offsets":[0,8]}})", 8,
       "dtype is the number 32; expected a string"},
      {"dtype missing", R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, "dtype is missing"},
      {"shape missing", R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8, "shape is missing"},
      {"offsets missing", R"({"a":{"dtype":"F32","shape":[2]}})", 8,
       "data_offsets must be [begin, end]"},
      {"one offset", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8,
       "data_offsets must be [begin, end]"},
      {"three offsets", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", 8,
       "more than 2 numbers"},
      {"unknown key", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8,
       "unknown key \"x\""},
      {"duplicate key", R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8, "dtype is there twice"},
      {"duplicate tensor", R"({"a":)" + f32 + R"(,"a":)" + f32 + "}", 8, "has \"a\" twice"},
      {"duplicate metadata", R"({"__metadata__":{},"__metadata__":{}})", 0,
       "has \"__metadata__\" twice"},
      {"duplicate metadata key", R"({"__metadata__":{"k":"1","k":"2"}})", 0, "key \"k\" twice"},
      {"metadata not text", R"({"__metadata__":{"k":1}})", 0, "expected a string"},
      {"metadata nested", R"({"__metadata__":{"k":{}}})", 0, "expected a string"},
      {"tensor not an object", R"({"a":[]})", 0, "is an array; expected an object"},
      {"tensor null", R"({"a":null})", 0, "is null; expected an object"},
      {"comment", "{/* */}", 0, "not valid JSON"},
      {"cut JSON", R"({"a":)", 0, "not valid JSON"},
      {"two documents", "{}{}", 0, "not valid JSON"},
      {"leading space", " {}", 0, "does not start with '{'"},
      {"array", "[]", 0, "does not start with '{'"},
      {"not UTF-8", "{\"a\xff\":" + f32 + "}", 8, "not valid JSON"},
      {"overlong UTF-8", "{\"a\xc0\xaf\":" + f32 + "}", 8, "not valid JSON"},
      {"lone surrogate", R"({"a\ud800":)" + f32 + "}", 8, "not valid JSON"},
      {"NUL after the document", std::string("{}\0", 3), 0, "not valid JSON"},
      {"nest of arrays", R"({"a":{"dtype":"F32","shape":)" + std::string(1'000'000, '['), 0,
       "shape holds an array"},
      {"nest of objects", R"({"a":{"b":)" + std::string(1'000'000, '{'), 0, "unknown key \"b\""},
      {"rank bomb",
       [] {
         std::string header = R"({"a":{"dtype":"U8","shape":[1)";
         for (int i = 0; i < 100'000; ++i) header += ",1";
         return header + R"(],"data_offsets":[0,1]}})";
       }(),
       1, "more than 64 numbers"},
      {"long hostile name", "{\"" + std::string(5'000, 'n') + "\\u001b[31m\":1}", 0,
       "expected an object"},
  };
  for (const Bad& bad : rows) {
    SCOPED_TRACE(bad.what);
    expect_refused(make(bad.header, bad.data_bytes), bad.message);
  }
}

TEST_F(SafetensorsTest, RefusesTypesItCannotServe) {
  EXPECT_THROW(read_safetensors(fixture("float8.safetensors")), SafetensorsError);
  try {
    read_safetensors(fixture("float8.safetensors"));
  } catch (const SafetensorsError& error) {
    EXPECT_NE(std::string(error.what()).find("8-bit float"), std::string::npos) << error.what();
  }
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})";
  const uint64_t length = header.size();
  expect_refused(write("x.safetensors",
                       std::string(reinterpret_cast<const char*>(&length), 8) + header + '\7'),
                 "BOOL holds the byte 7");
}

TEST_F(SafetensorsTest, RefusesIndexesThatLie) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "not valid JSON"},
      {"[]", "no object weight_map"},
      {R"({"weight_map":[]})", "no object weight_map"},
      {R"({"weight_map":{"a":1}})", "not a string"},
      {R"({"weight_map":{"a":"../secret"}})", "expected a file beside the index"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "expected a file beside the index"},
      {R"({"weight_map":{"a":".."}})", "expected a file beside the index"},
      {R"({"weight_map":{"a":"x.safetensors\u0000"}})", "expected a file beside the index"},
      {R"({"weight_map":{"a":"y.safetensors"}})", "cannot be opened"},
      {R"({"weight_map":{"b":"x.safetensors"}})", "has no tensor \"b\""},
      {R"({"weight_map":{"a":"x.safetensors","a":"x.safetensors"}})", "key \"a\" twice"},
  };
  make(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  for (const auto& [json, message] : rows) {
    SCOPED_TRACE(json);
    write("model.safetensors.index.json", json);
    expect_refused(folder_, message);
  }
  write("model.safetensors.index.json", std::string(100'000, '['));
  expect_refused(folder_, "nested more than");
}

}  // namespace
}  // namespace graft::formats
