#include "cli/inspect/cache.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/frame/usage.h"
#include "graft/cache.h"
#include "lab/table.h"
#include "lab/words.h"

namespace graft::cli {
namespace {

using cache::Plan;

/// "3 minutes ago"
std::string ago(double used) {
  if (used <= 0) return "unknown";
  const double seconds = std::max(0.0, static_cast<double>(std::time(nullptr)) - used);
  constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  auto text = [](double count, const char* unit) {
    const auto whole = static_cast<int64_t>(count);
    return std::to_string(whole) + ' ' + unit + (whole == 1 ? "" : "s") + " ago";
  };
  if (seconds < kMinute) return "just now";
  if (seconds < kHour) return text(seconds / kMinute, "minute");
  if (seconds < kDay) return text(seconds / kHour, "hour");
  return text(seconds / kDay, "day");
}

std::string size_text(int64_t bytes) {
  return lab::bytes_text(static_cast<double>(bytes));
}

int64_t bytes_of(const std::vector<Plan>& plans) {
  int64_t all = 0;
  for (const Plan& plan : plans) all += plan.bytes;
  return all;
}

std::string sum_text(const std::vector<Plan>& plans) {
  return lab::count_text(static_cast<int64_t>(plans.size()), "plan") + ", " +
         size_text(bytes_of(plans)) + " of at most " + size_text(cache::most_bytes()) + ", in " +
         cache::folder();
}

nlohmann::json to_json(const Plan& plan) {
  return {{"name", plan.name},      {"function", plan.function}, {"made", plan.made},
          {"proof", plan.proof},    {"kernels", plan.kernels},   {"bytes", plan.bytes},
          {"used", plan.used},      {"machine", plan.machine},   {"operators", plan.operators},
          {"refused", plan.refused}};
}

void print_list(bool json) {
  const std::vector<Plan> plans = cache::list();
  if (json) {
    nlohmann::json all = {{"folder", cache::folder()},
                          {"most_bytes", cache::most_bytes()},
                          {"plans", nlohmann::json::array()}};
    for (const Plan& plan : plans) all["plans"].push_back(to_json(plan));
    std::cout << all.dump(2) << '\n';
    return;
  }
  lab::Table table({{"plan"},
                    {"function"},
                    {"kernels", lab::Align::Right},
                    {"size", lab::Align::Right},
                    {"used"},
                    {"proof"}});
  for (const Plan& plan : plans)
    table.row({plan.name, plan.function, std::to_string(plan.kernels), size_text(plan.bytes),
               ago(plan.used), plan.refused.empty() ? plan.proof : "not used: " + plan.refused});
  if (!plans.empty()) table.print(std::cout, lab::colour_wanted(STDOUT_FILENO));
  std::cout << sum_text(plans) << '\n';
}

const Plan& plan_or_throw(const std::vector<Plan>& plans, const std::string& name) {
  std::vector<std::string> names;
  for (const Plan& plan : plans) {
    if (plan.name == name) return plan;
    names.push_back(plan.name);
  }
  if (names.empty()) throw UsageError("there are no plans in " + cache::folder() + '.');
  throw UsageError("there is no plan '" + name + "'; " + did_you_mean(name, names) +
                   " 'graft cache list' shows all.");
}

void print_stat(const std::string& name, bool schedule) {
  const std::vector<Plan> plans = cache::list();
  const Plan& plan = plan_or_throw(plans, name);
  if (schedule) {
    std::cout << cache::schedule(name);
    return;
  }
  std::cout << "function  " << plan.function << "\nmade      " << plan.made << "\nused      "
            << ago(plan.used) << "\nsize      " << size_text(plan.bytes) << ", "
            << lab::count_text(plan.kernels, "kernel") << '\n';
  if (plan.refused.empty())
    std::cout << "proof     " << plan.proof << '\n';
  else
    std::cout << "not used  " << plan.refused << '\n';
  std::cout << "\nCompiled by and for\n" << plan.machine << "\nOperators\n" << plan.operators;
}

/// Exit code 1 where a plan is damaged; those of other machines and builds are not.
void verify() {
  const std::vector<Plan> plans = cache::list();
  size_t wrong = 0, others = 0;
  for (const Plan& plan : plans) {
    if (plan.refused.empty()) continue;
    const bool other = plan.refused.starts_with("of another");
    ++(other ? others : wrong);
    if (!other) std::cout << plan.name << ": " << plan.refused << '\n';
  }
  std::cout << sum_text(plans) << ": " << plans.size() - wrong - others << " of use here, "
            << others << " of other machines or builds, " << wrong << " damaged\n";
  if (wrong == 0) return;
  std::cout << "'graft cache clear --unused' removes what is of no use here.\n";
  throw CLI::RuntimeError(1);
}

}  // namespace

void add_cache(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("cache", "Show and clear the plans that processes keep for each other");
  command->require_subcommand(1);

  CLI::App* list = command->add_subcommand("list", "Show the plans, the one used last first");
  const auto json = std::make_shared<bool>(false);
  list->add_flag("--json", *json, "As JSON");
  list->callback([json] { print_list(*json); });

  CLI::App* stat = command->add_subcommand("stat", "Show all that is known of a plan");
  const auto name = std::make_shared<std::string>();
  const auto schedule = std::make_shared<bool>(false);
  stat->add_option("plan", *name, "One of 'graft cache list'")->required();
  stat->add_flag("--schedule", *schedule, "Print its schedule instead");
  stat->callback([name, schedule] { print_stat(*name, *schedule); });

  command->add_subcommand("verify", "Read and check every plan")->callback([] { verify(); });

  CLI::App* clear = command->add_subcommand("clear", "Remove the plans");
  const auto unused = std::make_shared<bool>(false);
  clear->add_flag("--unused", *unused, "Only those of no use to this machine and build");
  clear->callback([unused] {
    const int64_t removed = *unused ? cache::remove_refused() : cache::trim(0);
    std::cout << "removed " << size_text(removed) << " from " << cache::folder() << '\n';
  });

  CLI::App* trim = command->add_subcommand("trim", "Remove the plans used longest ago");
  const auto most = std::make_shared<std::string>();
  trim->add_option("--max-size", *most, "What may stay, such as 100M")->required();
  trim->callback([most] {
    int64_t bytes = 0;
    try {
      bytes = cache::parse_size(*most);
    } catch (const Error& error) {
      throw UsageError(std::string("--max-size: ") + error.what());
    }
    std::cout << "removed " << size_text(cache::trim(bytes)) << " from " << cache::folder() << '\n';
  });
}

}  // namespace graft::cli
