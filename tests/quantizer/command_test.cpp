// graft quantize from outside: help, a run to its files, a run that is killed, and wrong calls.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "support/command.h"
#include "support/tiny_checkpoints.h"

namespace graft::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmall = " --group 16 --block 16 --samples 8 --sequence 16 --threads 1 ";

TEST(CliQuantize, HelpSaysWhatIsAccepted) {
  const Ran help = graft("quantize --help");
  EXPECT_EQ(help.code, 0);
  for (const char* text : {"--bits", "--group", "--sym", "--asym", "--act-order", "--block",
                           "--dampening", "--targets", "--calibration", "--eager", "--compiled",
                           "token", "ids", "model_type bert, llama or qwen2"}) {
    EXPECT_NE(help.out.find(text), std::string::npos) << text << '\n' << help.out;
  }
}

TEST(CliQuantize, WritesAModelAndItsReport) {
  const Folder folder;
  TinyCheckpoint::bert().write(folder.file("model"), 2);
  const Ran ran = graft("quantize " + folder.file("model") + " --out " + folder.file("out") +
                        kSmall + "--asym --json " + folder.file("report.json"));
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (const char* text : {"layer 1/3: loss ", "layer 3/3: loss ", " left", "attention.self.query",
                           "4 bits, asymmetric, groups of 16", "cosine to the original's",
                           "records", "plan hits", "built-in sentences"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << '\n' << ran.out;
  }
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
  EXPECT_TRUE(fs::exists(folder.file("out/config.json")));
  std::ifstream in(folder.file("report.json"));
  const auto json = nlohmann::json::parse(in);
  EXPECT_EQ(json["layers"].size(), 3u);
  EXPECT_EQ(json["layers"][0]["linears"].size(), 6u);
  EXPECT_EQ(json["layers"][0]["linears"][0]["weight_crc32"].get<std::string>().size(), 8u);
  EXPECT_GT(json["compiled"]["calls"], 0);
  EXPECT_EQ(json["settings"]["symmetric"], false);
  // Once more: the folder is finished, and is not touched.
  expect_usage_error("quantize " + folder.file("model") + " --out " + folder.file("out") + kSmall,
                     "holds files already");
}

TEST(CliQuantize, GoesOnAfterAKill) {
  const Folder folder;
  TinyCheckpoint tiny = TinyCheckpoint::qwen2();
  // Many layers, so that the kill comes before the last.
  for (int layer = 3; layer < 40; ++layer) {
    const std::string first = "model.layers.0.",
                      own = "model.layers." + std::to_string(layer) + '.';
    for (const auto& [name, tensor] : std::map(tiny.tensors)) {
      if (name.starts_with(first)) tiny.tensors[own + name.substr(first.size())] = tensor;
    }
  }
  tiny.config["num_hidden_layers"] = 40;
  tiny.write(folder.file("model"));
  const std::string arguments =
      "quantize " + folder.file("model") + kSmall + "--eager --out " + folder.file("out");
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string command = std::string("exec " GRAFT_BINARY_DIR "/graft ") + arguments +
                                " > " + folder.file("log") + " 2>&1";
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ASSERT_GT(child, 0);
  const fs::path work = folder.file("out/.graft-quantize");
  for (int i = 0; i < 3000 && !fs::exists(work / "model-00003-of-00041.safetensors"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
  EXPECT_FALSE(fs::exists(folder.file("out/config.json")));

  const Ran resumed = graft(arguments);
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_NE(resumed.out.find("layer 2/40: loss"), std::string::npos);
  EXPECT_NE(resumed.out.find("done by an earlier run"), std::string::npos) << resumed.out;
  EXPECT_NE(resumed.out.find("random token ids"), std::string::npos);  // the warning
  EXPECT_FALSE(fs::exists(work));
  const Ran whole =
      graft("quantize " + folder.file("model") + kSmall + "--eager --out " + folder.file("whole"));
  ASSERT_EQ(whole.code, 0) << whole.out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.file("whole"))) {
    const auto bytes = [](const fs::path& file) {
      std::ifstream in(file, std::ios::binary);
      return std::string{std::istreambuf_iterator<char>(in), {}};
    };
    EXPECT_EQ(bytes(entry.path()), bytes(fs::path(folder.file("out")) / entry.path().filename()))
        << entry.path();
  }
}

// A limit on the address space that no system's memory stands for: 10 GB of activations in 3 GB.
TEST(CliQuantize, KnowsALimitOnItsMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than that";
#endif
  const Folder folder;
  TinyCheckpoint::qwen2().write(folder.file("model"));
  const std::string call = "quantize " + folder.file("model") + " --out " + folder.file("out") +
                           " --group 16 --eager --samples 1000000 --sequence 64";
  const Ran ran = graft(call, "ulimit -v 3000000; ");
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_NE(ran.out.find("lower --samples or --sequence"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("frame #"), std::string::npos) << ran.out;
  EXPECT_FALSE(fs::exists(folder.file("out")));
}

TEST(CliQuantize, AFileThatMayNotGrowIsAnError) {
  const Folder folder;
  TinyCheckpoint::bert().write(folder.file("model"));
  const Ran ran =
      graft("quantize " + folder.file("model") + " --eager --out " + folder.file("out") + kSmall,
            "ulimit -f 1; ");
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_NE(ran.out.find("File too large"), std::string::npos) << ran.out;
}

TEST(CliQuantize, WrongCallsNameTheNextStep) {
  const Folder folder;
  TinyCheckpoint::bert().write(folder.file("model"));
  const std::string call = "quantize " + folder.file("model") + " --out " + folder.file("out");
  expect_usage_error("quantize", "MODEL_DIR is required");
  expect_usage_error("quantize " + folder.file("model"), "--out is required");
  expect_usage_error("quantize /no/such/model --out " + folder.file("out"), "does not exist");
  expect_usage_error(call + " --bits 5", "--bits: 5 not in {3,4,8}");
  expect_usage_error(call + " --bits x", "--bits: x not in {3,4,8}");
  expect_usage_error(call + " --bits x", "Run 'graft quantize --help' to see");
  expect_usage_error("quantize " + folder.file("model") + " --out \"\"", "--out: came empty");
  expect_usage_error("quantize " + folder.file("model") + " --out --json x", "--out: ");
  expect_usage_error(call + " --json \"\"", "--json: came empty");
  expect_usage_error(call + " --json " + folder.file("model/config.json"),
                     "which lies in the model's folder");
  expect_usage_error(call + " --calibration " + folder.file("c") + " --json " + folder.file("c"),
                     "which is the calibration file");
  expect_usage_error(call + " --sym --asym", "--sym");
  expect_usage_error(call + " --eager --compiled", "--eager");
  expect_usage_error(call, "a group of 128 columns does not divide the layer's 32");
  expect_usage_error(call + " --group 16 --targets '('", "not a regular expression");
  expect_usage_error(call + " --group 16 --calibration /no/such/file",
                     "/no/such/file: cannot be opened: No such file");
  expect_usage_error(call + " --group 16 --json /no/such/folder/x", "No such file or directory");
  EXPECT_FALSE(fs::exists(folder.file("out")));
}

}  // namespace
}  // namespace graft::test
