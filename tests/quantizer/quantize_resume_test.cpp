// Runs that end early, for whatever reason, and go on to the same files.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "quantizer/quantize_fixture.h"

namespace graft::quantizer {
namespace {

namespace fs = std::filesystem;
using test::TinyCheckpoint;

/// Stands in for a full disk: files may not grow beyond what is set, until the scope ends.
class FileLimit {
 public:
  FileLimit() { EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0); }
  ~FileLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  void set(rlim_t bytes) {
    rlimit small = before_;
    small.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST_F(QuantizeModelTest, GoesOnWhereARunEnded) {
  struct Killed {};
  for (const TinyCheckpoint& tiny : {TinyCheckpoint::bert(), TinyCheckpoint::qwen2()}) {
    fs::remove_all(folder_);
    tiny.write(model());
    quantize_model(options("whole"));
    for (int64_t last = 0; last < 3; ++last) {
      QuantizeOptions o = options("cut" + std::to_string(last));
      o.layer_done = [&](const LayerReport& report, int64_t layers) {
        EXPECT_EQ(layers, 3);
        if (report.layer == last) throw Killed();
      };
      EXPECT_THROW(quantize_model(o), Killed);
      EXPECT_FALSE(fs::exists(o.out / "config.json"));
      int64_t resumed = 0;
      o.layer_done = [&](const LayerReport& report, int64_t) { resumed += report.resumed ? 1 : 0; };
      const QuantizeReport report = quantize_model(o);
      EXPECT_EQ(resumed, last + 1);
      EXPECT_EQ(report.layers.size(), 3u);
      EXPECT_EQ(contents(o.out), contents(out("whole")));
      expect_whole(report, tiny, o.out, 4);
    }
  }
}

// A limit on a file's size stands for a disk that is full.
TEST_F(QuantizeModelTest, AFullDiskLosesNothingThatWasDone) {
  TinyCheckpoint::bert().write(model());
  quantize_model(options("whole"));
  QuantizeOptions o = options();
  {
    FileLimit limit;
    o.layer_done = [&](const LayerReport& report, int64_t) {
      if (report.layer == 1) limit.set(2000);
    };
    expect_refused(o, "model-00003-of-00004.safetensors: there is no room for its ");
  }
  std::vector<bool> resumed;
  o.layer_done = [&](const LayerReport& report, int64_t) { resumed.push_back(report.resumed); };
  quantize_model(o);
  EXPECT_EQ(resumed, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(contents(out()), contents(out("whole")));
}

// All layers are done: what is left are the small files, of which none may be cut short.
TEST_F(QuantizeModelTest, AFullDiskAtTheEndLeavesNoFileCutShort) {
  TinyCheckpoint::bert().write(model());
  std::ofstream(model() / "tokenizer.json") << std::string(100'000, ' ');
  quantize_model(options("whole"));
  QuantizeOptions o = options();
  {
    FileLimit limit;
    o.layer_done = [&](const LayerReport& report, int64_t) {
      if (report.layer == 2) limit.set(50'000);
    };
    expect_refused(o, "tokenizer.json' (File too large)");
  }
  o.layer_done = {};
  quantize_model(o);
  EXPECT_EQ(contents(out()), contents(out("whole")));
}

TEST_F(QuantizeModelTest, ADamagedLayerIsDoneAgain) {
  struct Killed {};
  TinyCheckpoint::bert().write(model());
  quantize_model(options("whole"));
  QuantizeOptions o = options();
  o.layer_done = [&](const LayerReport& report, int64_t) {
    if (report.layer == 1) throw Killed();
  };
  EXPECT_THROW(quantize_model(o), Killed);
  const fs::path shard = out() / ".graft-quantize" / "model-00001-of-00004.safetensors";
  std::string bytes = content(shard);
  bytes[bytes.size() - 100] ^= 1;
  std::ofstream(shard, std::ios::binary) << bytes;
  std::ofstream(out() / ".graft-quantize" / "x.safetensors.tmp1-1") << "left by a killed process";
  std::vector<bool> resumed;
  o.layer_done = [&](const LayerReport& report, int64_t) { resumed.push_back(report.resumed); };
  quantize_model(o);
  EXPECT_EQ(resumed, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(contents(out()), contents(out("whole")));
}

TEST_F(QuantizeModelTest, RefusesAnUnfinishedRunOfOtherSettings) {
  struct Killed {};
  TinyCheckpoint::bert().write(model());
  QuantizeOptions o = options();
  o.layer_done = [](const LayerReport&, int64_t) { throw Killed(); };
  EXPECT_THROW(quantize_model(o), Killed);
  o.layer_done = {};
  o.settings.bits = 8;
  expect_refused(o, "unfinished run with --bits 4, and now it is --bits 8; give the same");
  o = options();
  o.calibration.samples = 3;
  expect_refused(o, "with no --calibration --samples 12 --sequence 24, and now it is");
  TinyCheckpoint::bert().write(model());  // newer files
  expect_refused(options(), "from before the checkpoint in " + model().string() + " changed");
  std::ofstream(out() / ".graft-quantize" / "state.json") << "{";
  expect_refused(options(), "state.json: is not valid JSON: it ends too early");
  expect_refused(options(), "; remove " + (out() / ".graft-quantize").string());
}

}  // namespace
}  // namespace graft::quantizer
