// Plans that outlive the process: entries as bytes, the folder they lie in, and functions that find
// them there.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "runtime/helpers.h"
#include "runtime/process/cache_folder.h"
#include "runtime/store/entry.h"
#include "runtime/store/store.h"

namespace graft::runtime {
namespace {

namespace fs = std::filesystem;
using test::at_once;

/// A folder of plans of the test's own, and the environment that names it.
class Stored : public testing::Test {
 protected:
  Stored() {
    std::string name = testing::TempDir() + "graft-stored-XXXXXX";
    root_ = mkdtemp(name.data());
    path_ = root_ / "plans";
    if (const char* set = std::getenv("GRAFT_CACHE_DIR")) before_ = set;
    setenv("GRAFT_CACHE_DIR", path_.c_str(), 1);
  }
  ~Stored() override {
    setenv("GRAFT_CACHE_DIR", before_.empty() ? "off" : before_.c_str(), 1);
    unsetenv("GRAFT_CACHE_SIZE");
    fs::permissions(root_, fs::perms::owner_all);
    fs::remove_all(root_);
  }

  std::vector<fs::path> plans() const {
    std::vector<fs::path> found;
    if (fs::exists(path_))
      for (const auto& file : fs::directory_iterator(path_))
        if (file.path().extension() == kPlanEnding) found.push_back(file.path());
    return found;
  }
  static std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  }

  fs::path root_, path_;
  std::string before_;
};

StoredEntry small_entry() {
  return {"function f\n", "machine\n", "the key", "proof", "plan and code", "scales"};
}

TEST_F(Stored, EveryCutAndEveryFlippedBitIsSeen) {
  const std::string bytes = pack(small_entry());
  std::string_view whole = bytes;
  std::string wrong;
  const auto entry = unpack(whole, wrong);
  ASSERT_TRUE(entry) << wrong;
  EXPECT_TRUE(whole.empty());
  EXPECT_EQ(entry->plan, "plan and code");
  for (size_t length = 0; length < bytes.size(); ++length) {
    std::string_view cut = std::string_view(bytes).substr(0, length);
    wrong.clear();
    EXPECT_FALSE(unpack(cut, wrong)) << length;
    EXPECT_FALSE(wrong.empty());
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string other = bytes;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    std::string_view left = other;
    EXPECT_FALSE(unpack(left, wrong)) << bit;
  }
}

TEST_F(Stored, IsFoundByMachineAndKeyAlone) {
  const StoredEntry entry = small_entry();
  EXPECT_FALSE(find_stored(entry));
  keep_stored(entry);
  ASSERT_EQ(plans().size(), 1u);
  EXPECT_EQ(fs::status(path_).permissions() & fs::perms::mask, fs::perms::owner_all);
  ASSERT_TRUE(find_stored(entry));
  EXPECT_EQ(find_stored(entry)->plan, entry.plan);
  StoredEntry other = entry;
  other.machine = "another\n";
  EXPECT_FALSE(find_stored(other));
  other = entry;
  other.key += " of another program";
  EXPECT_FALSE(find_stored(other));
  // One whose name is right and whose key is not, as two hashes may be equal.
  fs::copy_file(plans()[0], path_ / (name_of(other) + kPlanEnding));
  EXPECT_FALSE(find_stored(other));
  other = entry;
  other.proof = "another proof";
  keep_stored(other);
  EXPECT_EQ(find_stored(entry)->proof, "another proof");
}

TEST_F(Stored, DamagedFilesAreNotUsedAndReplaced) {
  const StoredEntry entry = small_entry();
  keep_stored(entry);
  const fs::path file = plans().at(0);
  const std::string bytes = content(file);
  for (const std::string& bad :
       {bytes.substr(0, bytes.size() / 2), std::string(), bytes + "x", std::string(5000, 'a')}) {
    write(file, bad);
    EXPECT_FALSE(find_stored(entry)) << bad.size();
  }
  keep_stored(entry);
  EXPECT_TRUE(find_stored(entry));
}

/// What somebody may have put in a plan's place.
TEST_F(Stored, OtherThanPlainFilesAreNotRead) {
  const StoredEntry entry = small_entry();
  keep_stored(entry);
  const fs::path file = plans().at(0);
  const std::string bytes = content(file);
  auto replaced_by = [&](auto make) {
    fs::remove(file);
    make();
    EXPECT_FALSE(find_stored(entry));
    keep_stored(entry);
    EXPECT_TRUE(find_stored(entry));
  };
  replaced_by([&] { mkfifo(file.c_str(), 0600); });
  replaced_by([&] {
    write(root_ / "elsewhere", bytes);
    fs::create_symlink(root_ / "elsewhere", file);
  });
  replaced_by([&] { fs::create_symlink("/dev/zero", file); });
  replaced_by([&] {
    write(file, bytes);
    fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  });
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_FALSE(find_stored(entry));
  keep_stored(entry);  // cannot, and says so
  EXPECT_FALSE(find_stored(entry));
}

TEST_F(Stored, FoldersThatOthersWriteAreNotTrusted) {
  const StoredEntry entry = small_entry();
  keep_stored(entry);
  fs::permissions(path_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(find_stored(entry));
  std::string wrong;
  EXPECT_TRUE(CacheFolder(path_).list(kPlanEnding, wrong).empty());
  EXPECT_NE(wrong.find("chmod"), std::string::npos) << wrong;
  fs::permissions(path_, fs::perms::owner_all);
  EXPECT_TRUE(find_stored(entry));
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  EXPECT_EQ(chown(plans().at(0).c_str(), 12345, 12345), 0);
  EXPECT_FALSE(find_stored(entry));
  EXPECT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(find_stored(entry));
  keep_stored(entry);
  EXPECT_EQ(chown(path_.c_str(), 0, 0), 0);
  EXPECT_FALSE(find_stored(entry)) << "nothing was written where it is not ours";
}

TEST_F(Stored, AFolderThatGoesComesBack) {
  const StoredEntry entry = small_entry();
  keep_stored(entry);
  fs::remove_all(path_);
  EXPECT_FALSE(find_stored(entry));
  keep_stored(entry);
  EXPECT_TRUE(find_stored(entry));
  setenv("GRAFT_CACHE_DIR", "/proc/none/plans", 1);
  keep_stored(entry);
  EXPECT_FALSE(find_stored(entry));
  setenv("GRAFT_CACHE_DIR", "off", 1);
  keep_stored(entry);
  EXPECT_FALSE(find_stored(entry));
}

TEST_F(Stored, WhatWasUsedLongestAgoGoesFirst) {
  std::vector<StoredEntry> entries;
  for (int i = 0; i < 4; ++i) {
    StoredEntry entry = small_entry();
    entry.key += std::to_string(i);
    entry.plan.resize(1000);
    keep_stored(entry);
    const fs::path file = path_ / (name_of(entry) + kPlanEnding);
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
    entries.push_back(std::move(entry));
  }
  EXPECT_TRUE(find_stored(entries[0]));  // used now
  // Of a clock that was set back.
  fs::last_write_time(path_ / (name_of(entries[3]) + kPlanEnding),
                      fs::file_time_type::clock::now() + std::chrono::hours(1000));
  const auto one = static_cast<int64_t>(fs::file_size(plans()[0]));
  const CacheFolder folder(path_);
  EXPECT_EQ(folder.trim(kPlanEnding, 4 * one), 0);
  EXPECT_EQ(folder.trim(kPlanEnding, 2 * one), 2 * one);
  EXPECT_TRUE(find_stored(entries[0]));
  EXPECT_TRUE(find_stored(entries[2]));
  write(path_ / ".part-1-1", "left behind just now");
  write(path_ / ".part-2-1", "left behind");
  fs::last_write_time(path_ / ".part-2-1",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  write(path_ / "notes.txt", "somebody's");
  EXPECT_GT(folder.trim(kPlanEnding, 0), 0);
  EXPECT_TRUE(plans().empty());
  EXPECT_TRUE(fs::exists(path_ / ".part-1-1"));
  EXPECT_FALSE(fs::exists(path_ / ".part-2-1"));
  EXPECT_TRUE(fs::exists(path_ / "notes.txt"));
}

TEST_F(Stored, SizesAreReadAndBoundTheFolder) {
  EXPECT_EQ(bytes_of_text("4096"), 4096);
  EXPECT_EQ(bytes_of_text("512M"), 512 << 20);
  EXPECT_EQ(bytes_of_text("2GiB"), int64_t{2} << 30);
  for (const char* bad : {"", "-1", "1.5G", "M", "12T", "99999999999G"})
    EXPECT_THROW(bytes_of_text(bad), std::runtime_error) << bad;
  setenv("GRAFT_CACHE_SIZE", "2K", 1);
  for (int i = 0; i < 40; ++i) {
    StoredEntry entry = small_entry();
    entry.key += std::to_string(i);
    entry.plan.resize(500);
    keep_stored(entry);
  }
  EXPECT_LT(plans().size(), 24u) << "of 40, there is room for 3; 16 may come between two looks";
}

TEST_F(Stored, FullDisksLeaveNothingBehind) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto signal = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100;
  setrlimit(RLIMIT_FSIZE, &small);
  StoredEntry entry = small_entry();
  entry.plan.resize(10000);
  keep_stored(entry);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal);
  EXPECT_FALSE(find_stored(entry));
  EXPECT_TRUE(fs::is_empty(path_));
}

/// A writer that is killed at any moment leaves what was there, or what is new.
TEST_F(Stored, KilledWritersLeaveWholeFiles) {
  StoredEntry entry = small_entry();
  entry.plan.assign(100000, 'a');
  keep_stored(entry);
  for (int round = 0; round < 30; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      StoredEntry other = entry;
      for (char c = 'b';; c = static_cast<char>(c == 'z' ? 'b' : c + 1)) {
        std::fill(other.plan.begin(), other.plan.end(), c);
        std::string ignored;
        CacheFolder(path_).write(name_of(other) + kPlanEnding, pack(other), ignored);
      }
    }
    usleep(static_cast<useconds_t>(200 + 137 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto found = find_stored(entry);
    ASSERT_TRUE(found) << round;
    EXPECT_EQ(found->plan, std::string(100000, found->plan[0]));
  }
}

TEST_F(Stored, ReadersAndWritersAtOnceSeeWholeEntries) {
  constexpr int kProcesses = 8;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      int bad = 0;
      for (int i = 0; i < 50; ++i) {
        StoredEntry entry = small_entry();
        entry.key += std::to_string(i % 7);
        entry.plan.assign(20000, static_cast<char>('a' + p));
        std::string ignored;
        const CacheFolder folder(path_);
        folder.write(name_of(entry) + kPlanEnding, pack(entry), ignored);
        if (i % 10 == 9) folder.trim(kPlanEnding, 60000);
        if (const auto found = find_stored(entry))
          bad += found->plan != std::string(20000, found->plan[0]);
      }
      _exit(bad);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

// --- functions ---

at::Tensor normalised(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor y = x * at::sigmoid(x);
  return y * at::rsqrt((y * y).mean(-1, true) + 1e-6) * w;
}

TEST_F(Stored, AFunctionFindsWhatAnotherLeft) {
  const at::Tensor x = at::randn({37, 50}), w = at::randn({50});
  auto first = compile(normalised, at_once("first"));
  test::warm_up(first, x, w);
  EXPECT_FALSE(first.report().found);
  ASSERT_EQ(plans().size(), 1u);
  const at::Tensor expected = first(x, w);
  first.reset();  // the process does not have it any more
  auto second = compile(normalised, at_once("second"));
  EXPECT_EQ(second.report().kernels, 0);
  test::warm_up(second, x, w);
  EXPECT_TRUE(second.report().found) << second.report();
  EXPECT_EQ(plans().size(), 1u);
  EXPECT_TRUE(at::equal(second(x, w), expected));
  EXPECT_NE(second.explain().find("fused"), std::string::npos);
  // Another layout, another program; and options that change the code.
  const at::Tensor wide = at::randn({37, 51}), wide_w = at::randn({51});
  test::warm_up(second, wide, wide_w);
  EXPECT_FALSE(second.report().found);
  Options fast = at_once("fast");
  fast.numerics = Numerics::Fast;
  auto third = compile(normalised, fast);
  test::warm_up(third, x, w);
  EXPECT_FALSE(third.report().found);
  Options alone = at_once("alone");
  alone.cache = false;
  auto fourth = compile(normalised, alone);
  test::warm_up(fourth, x, w);
  EXPECT_FALSE(fourth.report().found);
}

/// As the layers of a model.
TEST_F(Stored, EqualFunctionsOfAProcessAreCompiledOnce) {
  setenv("GRAFT_CACHE_DIR", "off", 1);
  struct Layer {
    at::Tensor weight = at::randn({53, 53}), norm = at::randn({53});
    at::Tensor operator()(const at::Tensor& x) const {
      return normalised(x, norm) + at::mm(x, weight).relu();
    }
  };
  std::vector<Layer> layers(5);
  std::vector<decltype(compile(layers[0], Options()))> compiled;
  const at::Tensor x = at::randn({29, 53});
  Options options;
  options.race = false;
  for (const Layer& layer : layers) compiled.push_back(compile(layer, options));
  for (auto& f : compiled) f(x);
  size_t found = 0;
  for (size_t k = 0; k < layers.size(); ++k) {
    compiled[k].wait();
    EXPECT_TRUE(at::allclose(compiled[k](x), layers[k](x), 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(compiled[k](x), layers[k](x), 1e-4, 1e-5));
    EXPECT_EQ(compiled[k].report().verdict, Verdict::Faster);
    found += compiled[k].report().found;
  }
  EXPECT_EQ(found, 4u);
}

TEST_F(Stored, ARaceIsRunOnceForAll) {
  const at::Tensor x = at::randn({300, 500}), w = at::randn({500});
  Options raced = at_once("raced");
  raced.race = true;
  auto first = compile(normalised, raced);
  for (int i = 0; i < 200 && first.report().verdict != Verdict::Faster; ++i) first(x, w);
  if (first.report().verdict != Verdict::Faster) GTEST_SKIP() << "the machine is too busy to win";
  first.reset();
  auto second = compile(normalised, raced);
  second(x, w);
  EXPECT_EQ(second.report().verdict, Verdict::Proving);
  second(x, w);
  EXPECT_EQ(second.report().verdict, Verdict::Faster) << second.report();
  EXPECT_GT(second.report().eager_us, 0);
  // On other threads, other times.
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 1);
  auto third = compile(normalised, raced);
  third(x, w);
  third(x, w);
  EXPECT_EQ(third.report().verdict, Verdict::Proving);
  EXPECT_TRUE(third.report().found);
  at::set_num_threads(threads);
}

TEST_F(Stored, PlansWithCallsAreOfSoManyThreads) {
  const at::Tensor x = at::randn({64, 48}), w = at::randn({48, 64});
  const auto calls = [](const at::Tensor& a, const at::Tensor& b) {
    return at::gelu(at::linalg_matrix_exp(at::mm(a, b))) + 0.5;
  };
  const auto loops = [](const at::Tensor& a, const at::Tensor& b) { return at::gelu(a) + b.t(); };
  const int threads = at::get_num_threads();
  const auto found = [&](auto function, int on) {
    at::set_num_threads(on);
    auto compiled = compile(function, at_once("threads"));
    test::warm_up(compiled, x, w);
    at::set_num_threads(threads);
    return compiled.report().found;
  };
  EXPECT_EQ(found(calls, threads), 0u);
  EXPECT_EQ(found(calls, threads), 1u);
  EXPECT_EQ(found(calls, threads + 1), 0u);
  EXPECT_EQ(found(calls, threads + 1), 1u);
  EXPECT_EQ(found(calls, threads), 1u);
  EXPECT_EQ(found(loops, threads), 0u);
  EXPECT_EQ(found(loops, threads + 1), 1u);
}

/// Calls with ATen's operators, aborts, views, in-place changes, random numbers, regions.
TEST_F(Stored, PlansOfAllKinds) {
  auto twice = [&](auto make, auto call, bool kept = true) {
    at::manual_seed(5);
    auto first = make();
    for (int i = 0; i < 3; ++i) call(first);
    at::manual_seed(7);
    const at::Tensor expected = call(first).clone();
    first.reset();
    auto second = make();
    for (int i = 0; i < 3; ++i) call(second);
    at::manual_seed(7);
    EXPECT_TRUE(at::allclose(call(second), expected));
    EXPECT_EQ(second.report().verdict, Verdict::Faster) << second.report();
    EXPECT_EQ(second.report().found, kept) << second.report();
  };
  const at::Tensor x = at::randn({64, 48}), w = at::randn({48, 32}), i = at::arange(0, 64, 3);
  auto mixed = [](const at::Tensor& a, const at::Tensor& b) {
    return at::softmax(at::gelu(at::matmul(a, b)) + 0.5, -1).t();
  };
  twice([&] { return compile(mixed, at_once("mixed")); }, [&](auto& f) { return f(x, w); });
  // A product inside a kernel, which sums in another order than eager's.
  const at::Tensor wide = at::randn({512, 256}), deep = at::randn({256, 384}),
                   gate = at::randn({512, 384});
  auto gated = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
    return at::mm(a, b) * c;
  };
  twice([&] { return compile(gated, at_once("gated")); },
        [&](auto& f) { return f(wide, deep, gate); });
  auto picked = [](const at::Tensor& a, const at::Tensor& at) { return a.index_select(0, at) * 2; };
  twice([&] { return compile(picked, at_once("picked")); }, [&](auto& f) { return f(x, i); });
  // Threads share the rows that steps add to, by their index.
  const at::Tensor rows = at::randn({3000, 64}), to = at::randint(0, 3000, {30000}, at::kLong);
  auto added = [](const at::Tensor& a, const at::Tensor& at) {
    return at::elu(at::zeros_like(a).index_add_(0, at, a.index_select(0, at.flip(0)) * 2));
  };
  twice([&] { return compile(added, at_once("added")); }, [&](auto& f) { return f(rows, to); });
  auto changed = [](at::Tensor a) { return a.mul_(0.5).add_(1).narrow(1, 3, 7); };
  twice([&] { return compile(changed, at_once("changed")); },
        [&](auto& f) { return f(x.clone()); });
  auto dropped = [](const at::Tensor& a) { return at::dropout(a, 0.3, true) * 3; };
  twice([&] { return compile(dropped, at_once("dropped")); }, [&](auto& f) { return f(x); });
  auto scanned = [](const at::Tensor& a) { return at::cumsum(a, 1) + at::argmax(a, 1, true); };
  twice([&] { return compile(scanned, at_once("scanned")); }, [&](auto& f) { return f(x); });
  const at::Tensor held = at::randn({48});
  auto captured = [held](const at::Tensor& a) { return (a + held).relu() / 3; };
  twice([&] { return compile(captured, at_once("captured")); }, [&](auto& f) { return f(x); });
  auto region = [](const at::Tensor& a) { return (at::tanh(a) * a).sum(1); };
  const at::Tensor leaf = at::randn({64, 48}).requires_grad_();
  twice([&] { return compile(region, at_once("region")); },
        [&](auto& f) {
          leaf.mutable_grad() = at::Tensor();
          f(leaf).sum().backward();
          return leaf.grad();
        });
}

/// The kernels of sizes that were never recorded.
TEST_F(Stored, FamiliesKeepTheirKernels) {
  Options family = at_once("family");
  family.sizes = Sizes::Family;
  auto files = [&] {
    size_t found = 0;
    for (const cache::Plan& plan : cache::list())
      found += plan.function == "family, for sizes that vary";
    return found;
  };
  for (int process = 0; process < 2; ++process) {
    auto f = compile(normalised, family);
    for (int64_t rows : {40, 48, 56, 61, 50, 45, 63, 59, 43})
      for (int i = 0; i < 3; ++i) {
        const at::Tensor x = at::randn({rows, 50}), w = at::randn({50});
        EXPECT_TRUE(at::allclose(f(x, w), normalised(x, w), 1e-5, 1e-6));
      }
    EXPECT_GT(f.report().family_calls, 0) << f.report();
    EXPECT_EQ(files(), 1u);
  }
}

TEST_F(Stored, AGeneratorOfOnesOwnIsKeptByNobody) {
  auto generator = at::detail::createCPUGenerator();
  auto drawn = [generator](const at::Tensor& a) {
    return a + at::normal(0.0, 1.0, {64}, generator);
  };
  auto f = compile(drawn, at_once("drawn"));
  const at::Tensor x = at::randn({64});
  for (int i = 0; i < 3; ++i) f(x);
  EXPECT_TRUE(plans().empty());
}

/// Damaged inside, with a checksum that fits: it is compiled anew.
TEST_F(Stored, PlansThatCannotBeReadAreCompiledAnew) {
  const at::Tensor x = at::randn({37, 50}), w = at::randn({50});
  auto first = compile(normalised, at_once("first"));
  test::warm_up(first, x, w);
  first.reset();
  const fs::path file = plans().at(0);
  const std::string bytes = content(file);
  std::string wrong;
  for (size_t cut : {size_t{0}, size_t{1}, size_t{100}, size_t{1000}}) {
    std::string_view left = bytes;
    auto entry = unpack(left, wrong);
    ASSERT_TRUE(entry);
    if (cut >= entry->plan.size()) continue;
    entry->plan.resize(cut);
    write(file, pack(*entry));
    auto second = compile(normalised, at_once("second" + std::to_string(cut)));
    test::warm_up(second, x, w);
    EXPECT_FALSE(second.report().found);
    EXPECT_GT(content(file).size(), bytes.size() / 2) << "it is replaced by a good one";
  }
}

TEST_F(Stored, AFileThatAnApplicationShips) {
  const at::Tensor x = at::randn({41, 50}), w = at::randn({50});
  setenv("GRAFT_CACHE_DIR", "off", 1);
  auto first = compile(normalised, at_once("first"));
  const std::string file = (root_ / "region.graft").string();
  EXPECT_THROW(save(first, file), Error);
  test::warm_up(first, x, w);
  test::warm_up(first, at::randn({42, 50}), w);
  save(first, file);
  EXPECT_EQ(load(file), 2);
  auto second = compile(normalised, at_once("second"));
  test::warm_up(second, x, w);
  EXPECT_TRUE(second.report().found);
  EXPECT_TRUE(at::equal(second(x, w), first(x, w)));
  EXPECT_THROW(save(first, "/proc/none/x.graft"), Error);
  EXPECT_THROW(save(first, ""), Error);

  const std::string bytes = content(file);
  auto refuses = [&](const std::string& content, const std::string& why) {
    const std::string other = (root_ / "other.graft").string();
    write(other, content);
    try {
      load(other);
      FAIL() << why;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refuses("", "empty");
  refuses("not a plan, but some other text that is long enough to be one, if it had the form",
          "no plan");
  refuses(bytes.substr(0, bytes.size() - 1), "cut off");
  std::string wrong;
  std::string_view left = bytes;
  auto entry = unpack(left, wrong);
  ASSERT_TRUE(entry);
  entry->machine.replace(entry->machine.find("processor"), 9, "processor of another kind");
  refuses(pack(*entry), "another machine");
  EXPECT_THROW(load((root_ / "none").string()), Error);
  EXPECT_THROW(load(root_.string()), Error);
}

TEST_F(Stored, IsListedForPeople) {
  const at::Tensor x = at::randn({37, 50}), w = at::randn({50});
  auto first = compile(normalised, at_once("listed"));
  test::warm_up(first, x, w);
  std::vector<cache::Plan> all = cache::list();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].function, "listed");
  EXPECT_EQ(all[0].refused, "");
  EXPECT_GT(all[0].kernels, 0);
  EXPECT_NE(all[0].proof.find("eager's"), std::string::npos) << all[0].proof;
  EXPECT_NE(all[0].operators.find("aten::mul.Tensor"), std::string::npos);
  EXPECT_NE(cache::schedule(all[0].name).find("kernel "), std::string::npos);
  EXPECT_THROW(cache::schedule("none"), Error);
  write(path_ / "0123.plan", "junk");
  EXPECT_EQ(cache::list().size(), 2u);
  EXPECT_EQ(cache::remove_refused(), 4);
  EXPECT_EQ(cache::list().size(), 1u);
  EXPECT_GT(cache::trim(0), 0);
  EXPECT_TRUE(cache::list().empty());
  setenv("GRAFT_CACHE_DIR", "off", 1);
  EXPECT_THROW(cache::list(), Error);
}

}  // namespace
}  // namespace graft::runtime
