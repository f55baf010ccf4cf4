// Peers: what a script says, well or badly, becomes a result or a reason, and never the run's end.
#include "cli/measure/peers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/command.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

/// A peer in Python: its hello, then `answer`, statements that see the request as `r` and the line
/// as `line`, may use `say`, and run once per request.
PeerOptions script(
    const test::Folder& folder, const std::string& answer,
    const std::string& hello = "say({'peer': 'p', 'version': '9.9', 'protocol': 1})") {
  const std::string path = folder.file("peer.py");
  std::ofstream file(path);
  file << "import json, os, sys, time\n"
          "def say(x): print(x if isinstance(x, str) else json.dumps(x), flush=True)\n"
       << hello << "\nfor line in sys.stdin:\n  r = json.loads(line)\n";
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) file << "  " << line << '\n';
  PeerOptions options;
  options.script = {"p", path, "p-package"};
  options.timeout = 20;
  return options;
}

const std::string kGood =
    "say({'case': r['case'], 'variant': 'p', 'samples_ms': [1.5, 2, 3], 'first_call_ms': 9,"
    " 'kernels': 2, 'bitwise': False, 'max_abs_diff': 0.25})";

std::string failure(const PeerOptions& options) {
  try {
    const Peer peer(options);
  } catch (const PeerAbsent& absent) {
    return absent.what();
  }
  return "";
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\ncame: " << text;
}

TEST(Peers, AGoodAnswer) {
  const test::Folder folder;
  Peer peer(script(folder, kGood));
  EXPECT_EQ(peer.version(), "9.9");
  EXPECT_EQ(peer.name(), "p");
  const lab::Row result = peer.measure("rope_f32");
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.variant, "p");
  EXPECT_EQ(result.samples_ms, (std::vector<double>{1.5, 2, 3}));
  EXPECT_EQ(result.first_call_ms, 9);
  EXPECT_EQ(result.kernels, 2);
  EXPECT_EQ(result.bitwise, false);
  EXPECT_EQ(result.max_abs_diff, 0.25);
  EXPECT_FALSE(result.compile_ms);
}

TEST(Peers, TheRequestHasAllThatWasAsked) {
  const test::Folder folder;
  const std::string seen = folder.file("seen");
  PeerOptions options = script(folder, "open('" + seen + "', 'w').write(line)\n" + kGood);
  options.threads = 3;
  options.min_time = 0.25;
  Peer peer(options);
  peer.measure("softmax_f32", {{"heads", "4"}});
  std::ifstream file(seen);
  const auto request = nlohmann::json::parse(file);
  EXPECT_EQ(request, (nlohmann::json{{"case", "softmax_f32"},
                                     {"config", {{"heads", "4"}}},
                                     {"min_time", 0.25},
                                     {"threads", 3}}));
}

TEST(Peers, AnErrorIsOfItsCaseOnly) {
  const test::Folder folder;
  Peer peer(script(folder,
                   "if r['case'] == 'bad': say({'case': 'bad', 'error': 'no such case'})\n"
                   "else: " +
                       kGood));
  EXPECT_EQ(peer.measure("bad").error, "no such case");
  EXPECT_TRUE(peer.measure("bad").samples_ms.empty());
  EXPECT_EQ(peer.measure("good").samples_ms.size(), 3u);
}

TEST(Peers, ACrashIsAReasonAndThePeerStartsAnew) {
  const test::Folder folder;
  Peer peer(script(folder,
                   "if r['case'] == 'abort': os.kill(os.getpid(), 9)\n"
                   "if r['case'] == 'exit': sys.exit(3)\n" +
                       kGood));
  expect_in("it ended without an answer (signal 9)", peer.measure("abort").error);
  EXPECT_EQ(peer.measure("good").error, "");
  expect_in("it ended without an answer (exit code 3)", peer.measure("exit").error);
  EXPECT_EQ(peer.measure("good").error, "");
}

TEST(Peers, ACrashIsSeenThoughAChildHoldsTheOutput) {
  const test::Folder folder;
  Peer peer(script(folder, "import subprocess; subprocess.Popen(['sleep', '20'])\nos._exit(4)"));
  expect_in("exit code 4", peer.measure("any").error);
}

TEST(Peers, AHangIsStoppedWithItsChildren) {
  const test::Folder folder;
  const std::string child = folder.file("child");
  PeerOptions options = script(folder,
                               "if r['case'] == 'hang':\n"
                               "  import subprocess; p = subprocess.Popen(['sleep', '60'])\n"
                               "  open('" +
                                   child + "', 'w').write(str(p.pid)); time.sleep(60)\n" + kGood);
  options.timeout = 3;
  Peer peer(options);
  const auto start = std::chrono::steady_clock::now();
  expect_in("it gave no answer within 3 s and was stopped", peer.measure("hang").error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  pid_t pid = 0;
  std::ifstream(child) >> pid;
  ASSERT_GT(pid, 0);
  const auto gone = [&] {  // killed: away, or a zombie that its new parent has not reaped
    std::string stat;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), stat);
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  };
  for (int i = 0; i < 100 && !gone(); ++i) usleep(20'000);
  EXPECT_TRUE(gone());
  EXPECT_EQ(peer.measure("good").error, "");
}

TEST(Peers, GarbageIsAReason) {
  const test::Folder folder;
  Peer peer(
      script(folder,
             "say({'noise': 'Compiling\\x01…', 'list': '[1]', 'half': '{\"samples_ms\": [1',\n"
             "     'none': '{}', 'text': '{\"samples_ms\": [\"fast\"]}',\n"
             "     'negative': '{\"samples_ms\": [1, -2]}', 'empty': '{\"samples_ms\": []}',\n"
             "     'other': '{\"case\": \"another\", \"samples_ms\": [1]}',\n"
             "     'blank': ''}.get(r['case'], '{\"samples_ms\": [1]}'))"));
  expect_in("it said 'Compiling?\?\?\?', expected a JSON object", peer.measure("noise").error);
  expect_in("it said '[1]'", peer.measure("list").error);
  expect_in("it said '{\"samples_ms\": [1'", peer.measure("half").error);
  expect_in("it said ''", peer.measure("blank").error);
  expect_in("no samples_ms", peer.measure("none").error);
  expect_in("no samples_ms", peer.measure("empty").error);
  expect_in("samples_ms came as '\"fast\"'", peer.measure("text").error);
  expect_in("samples_ms came as '-2'", peer.measure("negative").error);
  expect_in("its answer is for case 'another'", peer.measure("other").error);
  EXPECT_EQ(peer.measure("good").samples_ms.size(), 1u);
}

TEST(Peers, AnAbsentPeerSaysHowToInstallIt) {
  const test::Folder folder;
  PeerOptions options = script(folder, kGood, "say({'error': \"'import p' failed\"}); sys.exit(1)");
  expect_in("'import p' failed. Install it with 'python3 -m pip install p-package'",
            failure(options));
  options.python = "/no/such/python";
  expect_in("--python: came '/no/such/python', which does not start", failure(options));
  options.python = "python3";
  options.script.path = "no/such/script.py";
  expect_in("found no no/such/script.py", failure(options));
  expect_in("without \"protocol\": 1",
            failure(script(folder, kGood, "say({'version': '1', 'protocol': 2})")));
  expect_in("it ended without an answer", failure(script(folder, kGood, "raise SystemExit(1)")));
}

TEST(Peers, ThoseThatAreAbsentAreLeftOut) {
  const test::Folder folder;
  // A Python that has neither torch nor JAX.
  const std::string python = folder.file("python");
  std::ofstream(python) << "#!/bin/sh\nexec python3 -S -E \"$@\"\n";
  fs::permissions(python, fs::perms::owner_all);
  PeerOptions options;
  options.python = python;
  std::ostringstream notes;
  EXPECT_TRUE(start_peers(options, peer_scripts(), notes).empty());
  expect_in("torch.compile is left out", notes.str());
  expect_in("pip install torch'", notes.str());
  expect_in("jax is left out", notes.str());
  expect_in("pip install jax'", notes.str());
}

/// The shipped scripts' common part, with a case that needs nothing but Python.
TEST(Peers, TheShippedProtocolSpeaksIt) {
  const test::Folder folder;
  const std::string path = folder.file("mine.py");
  std::ofstream(path)
      << "import sys\nsys.path.insert(0, '" GRAFT_SOURCE_DIR
         "/tools/peers')\n"
         "import protocol\n"
         "def make(size=4): return size\n"
         "def measure(r):\n"
         "  size = protocol.sizes(make, {}, r.config).get('size', 4)\n"
         "  if r.case == 'nan': return {'samples_ms': [1], 'max_abs_diff': float('nan')}\n"
         "  print('compilers are noisy')\n"
         "  work = lambda: sum(range(size))\n"
         "  return protocol.measured(r, 'mine', work, 1.0, work)\n"
         "protocol.run('mine', '1.0', measure, '')\n";
  PeerOptions options;
  options.script = {"mine", path, ""};
  options.min_time = 0.01;
  Peer peer(options);
  EXPECT_EQ(peer.version(), "1.0");
  const lab::Row good = peer.measure("any", {{"size", "8"}});
  EXPECT_EQ(good.error, "");
  EXPECT_GE(good.samples_ms.size(), 10u);
  EXPECT_EQ(good.first_call_ms, 1);
  EXPECT_FALSE(peer.measure("nan").max_abs_diff);
  expect_in("no axis 'rows'; expected one of size", peer.measure("any", {{"rows", "8"}}).error);
  expect_in("size: came 'x', expected a whole number", peer.measure("any", {{"size", "x"}}).error);
}

}  // namespace
}  // namespace graft::cli
