#include "lab/profile/picture.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "lab/profile/table.h"
#include "lab/report/svg.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

constexpr double kRow = 18, kMargin = 10, kHead = 56, kLetter = 6.7, kLeastWidth = 0.5;

/// One call path: the calls of all events that share it.
struct Path {
  std::string name;
  Kind kind = Kind::Other;
  double us = 0, self_us = 0;
  int64_t instances = 0;
  std::vector<Path*> inside;  // in the order first seen
};

/// The tree under `root`, owned by `store`.
void build(const Profile& profile, Path& root, std::deque<Path>& store) {
  std::vector<Path*> path_of(profile.events.size());
  for (size_t i = 0; i < profile.events.size(); ++i) {
    const ProfileEvent& event = profile.events[i];
    Path& around = event.parent < 0 ? root : *path_of[static_cast<size_t>(event.parent)];
    const auto known = std::find_if(around.inside.begin(), around.inside.end(),
                                    [&](const Path* path) { return path->name == event.name; });
    Path* path = known == around.inside.end() ? nullptr : *known;
    if (path == nullptr) {
      path = &store.emplace_back(Path{event.name, kind_of(event), 0, 0, 0, {}});
      around.inside.push_back(path);
    }
    path->us += event.duration_us;
    path->self_us += event.self_us;
    ++path->instances;
    if (event.parent < 0) root.us += event.duration_us;
    path_of[i] = path;
  }
}

/// What fits into `width` pixels; operators drop their namespace first.
std::string fitted(std::string_view name, double width) {
  const auto room = static_cast<size_t>(std::max(0.0, (width - 6) / kLetter));
  if (name.size() > room && name.starts_with("aten::")) name.remove_prefix(6);
  if (name.size() <= room) return std::string(name);
  if (room < 4) return "";
  return std::string(name.substr(0, room - 1)) + "…";
}

const char* css_class(Kind kind) {
  static constexpr const char* kClasses[] = {"mm", "ew", "red", "mem", "view", "graft", "other"};
  return kClasses[static_cast<size_t>(kind)];
}

class Picture {
 public:
  Picture(double whole_us, int calls, double width)
      : whole_us_(whole_us), calls_(std::max(1, calls)), scale_((width - 2 * kMargin) / whole_us) {}

  void draw(const Path& path, double x, int depth) {
    const double width = path.us * scale_;
    if (width < kLeastWidth) return;
    depth_ = std::max(depth_, depth + 1);
    const double y = kHead + kRow * depth;
    const double calls = static_cast<double>(path.instances) / calls_;
    out_ << "<g><title>" << svg::escape(path.name) << "\n"
         << number(path.us * 1e-3 / calls_) << " ms per call, " << percent_text(path.us / whole_us_)
         << " of the whole; self " << number(path.self_us * 1e-3 / calls_) << " ms; "
         << number(calls) << " a call; " << to_string(path.kind) << "</title><rect class=\""
         << css_class(path.kind) << "\" x=\"" << x << "\" y=\"" << y << "\" width=\""
         << std::max(width - 0.5, 0.3) << "\" height=\"" << kRow - 1 << "\" rx=\"2\"/>";
    const std::string text = fitted(path.name, width);
    if (!text.empty())
      out_ << "<text x=\"" << x + 3 << "\" y=\"" << y + 13 << "\">" << svg::escape(text)
           << "</text>";
    out_ << "</g>\n";
    for (const Path* inside : path.inside) {
      draw(*inside, x, depth + 1);
      x += inside->us * scale_;
    }
  }

  std::string shapes() const { return out_.str(); }
  double height() const { return kHead + kRow * depth_ + kMargin; }

 private:
  double whole_us_;
  int calls_;
  double scale_;
  int depth_ = 0;
  std::ostringstream out_;
};

constexpr const char* kPictureStyle = R"(<style>
svg{font:11px ui-monospace,Menlo,Consolas,monospace;background:#fff;fill:#111}
.mm{fill:#8fbcf0}.ew{fill:#f6c177}.red{fill:#e9a3c4}.mem{fill:#a8d08d}.view{fill:#d5d5d5}
.graft{fill:#7fd6c8}.other{fill:#e8e4da}.head{font-size:14px;font-weight:bold}
g:hover rect{stroke:#111;stroke-width:1}
@media (prefers-color-scheme:dark){svg{background:#16181d;fill:#f0f0f0}
.mm{fill:#2f5f9e}.ew{fill:#8f5d16}.red{fill:#8d3f66}.mem{fill:#3f6f2b}.view{fill:#4c4f55}
.graft{fill:#176e62}.other{fill:#3a3730}g:hover rect{stroke:#fff}}
</style>
)";

/// The kinds that are there, each with its colour.
std::string legend(const std::set<Kind>& kinds) {
  std::ostringstream out;
  double x = kMargin;
  for (Kind kind : kinds) {
    const std::string text = to_string(kind);
    out << "<rect class=\"" << css_class(kind) << "\" x=\"" << x
        << "\" y=\"32\" width=\"12\" height=\"12\" rx=\"2\"/><text x=\"" << x + 17 << "\" y=\"42\">"
        << text << "</text>\n";
    x += 17 + kLetter * static_cast<double>(text.size()) + 18;
  }
  return out.str();
}

}  // namespace

std::string trace_json(const Profile& profile) {
  nlohmann::json events = nlohmann::json::array();
  std::set<int64_t> threads;
  for (const ProfileEvent& event : profile.events) {
    threads.insert(event.thread);
    events.push_back({{"ph", "X"},
                      {"name", event.name},
                      {"cat", event.is_range ? "range" : to_string(kind_of(event))},
                      {"ts", event.start_us},
                      {"dur", event.duration_us},
                      {"pid", 1},
                      {"tid", event.thread},
                      {"args", {{"range", event.range}, {"self_us", event.self_us}}}});
  }
  const auto name = [&](const char* what, int64_t thread, const std::string& text) {
    events.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", 1}, {"tid", thread}, {"args", {{"name", text}}}});
  };
  name("process_name", 0, "graft profile");
  for (int64_t thread : threads) name("thread_name", thread, "thread " + std::to_string(thread));
  const nlohmann::json out{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

std::string flame_graph(const Profile& profile, const std::string& title, double width) {
  Path root;
  std::deque<Path> store;
  build(profile, root, store);
  Picture picture(std::max(root.us, 1e-9), profile.calls, width);
  double x = kMargin;
  for (const Path* path : root.inside) {
    picture.draw(*path, x, 0);
    x += path->us / root.us * (width - 2 * kMargin);
  }
  std::set<Kind> kinds;
  for (const Path& path : store) kinds.insert(path.kind);
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' '
      << picture.height() << "\" width=\"" << width << "\" height=\"" << picture.height() << "\">\n"
      << kPictureStyle << "<text class=\"head\" x=\"" << kMargin << "\" y=\"20\">"
      << svg::escape(title) << "</text>\n"
      << legend(kinds) << picture.shapes() << "</svg>\n";
  return out.str();
}

}  // namespace graft::lab
