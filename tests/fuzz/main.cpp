// graft_fuzz: random programs, eagerly and through graft::compile. Exit code 0 when all agree, 1
// otherwise, 2 for a command line that makes no sense, 3 when a program hung.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "fuzz/worker.h"

namespace {

const char* kUsage =
    "graft_fuzz [--seconds N] [--seed S] [--programs N] [--limit N] [--fast] [--gradients] "
    "[--verbose]\n"
    "           [--reduce] [--show]\n"
    "  --seconds N   stop after N seconds (60 when --programs is not given)\n"
    "  --seed S      the first program's seed; programs follow from their seeds (1)\n"
    "  --programs N  stop after N programs\n"
    "  --limit N     a program that takes more than N seconds hangs (60): its text and its\n"
    "                threads' stacks are then kept in graft_fuzz-hung-SEED.txt\n"
    "  --fast        every program with Numerics::Fast (otherwise every fifth batch)\n"
    "  --gradients   of every program that can have some (otherwise of every third)\n"
    "  --verbose     a line for each program\n"
    "  --reduce      make every failing program smaller, not only the first three\n"
    "  --show        print the program of the seed, its trace and its kernels, and run nothing "
    "else\n";

uint64_t number(const char* text) {
  char* end = nullptr;
  uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') {
    std::fprintf(stderr, "graft_fuzz: a number was expected, not \"%s\"\n%s", text, kUsage);
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  graft::fuzz::Settings settings;
  std::optional<std::pair<uint64_t, uint64_t>> worker;
  std::optional<uint64_t> reduced;
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    bool more = i + 1 < argc;
    if (option == "--worker" && i + 2 < argc) {
      worker.emplace(number(argv[i + 1]), number(argv[i + 2]));
      i += 2;
    } else if (option == "--reduce-seed" && more) {
      reduced = number(argv[++i]);
    } else if (option == "--seconds" && more) {
      settings.seconds = std::atof(argv[++i]);
    } else if (option == "--seed" && more) {
      settings.seed = number(argv[++i]);
    } else if (option == "--programs" && more) {
      settings.programs = static_cast<int64_t>(number(argv[++i]));
    } else if (option == "--limit" && more) {
      settings.limit = static_cast<int>(number(argv[++i]));
    } else if (option == "--fast") {
      settings.fast = true;
    } else if (option == "--gradients") {
      settings.gradients = true;
    } else if (option == "--hang") {
      settings.hang = true;
    } else if (option == "--verbose") {
      settings.verbose = true;
    } else if (option == "--reduce") {
      settings.reduce = true;
    } else if (option == "--show") {
      settings.show = true;
    } else {
      std::fputs(kUsage, option == "--help" ? stdout : stderr);
      return option == "--help" ? 0 : 2;
    }
  }
  if (worker) return graft::fuzz::run_worker(worker->first, worker->second, settings);
  if (reduced) return graft::fuzz::run_reducer(*reduced, settings);
  if (settings.show) return graft::fuzz::run_show(settings.seed);
  if (settings.seconds == 0 && settings.programs < 0) settings.seconds = 60;
  return graft::fuzz::run_driver(settings);
}
