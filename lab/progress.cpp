#include "lab/progress.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "lab/words.h"

namespace graft::lab {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
// Below this part done, a forecast of the time left is noise.
constexpr double kForecastFrom = 0.02;

}  // namespace

Progress::Progress(std::ostream& out, bool terminal, size_t steps)
    : out_(out), terminal_(terminal), steps_(std::max<size_t>(steps, 1)) {}

Progress::~Progress() {
  clear();
}

void Progress::begin(const std::string& label, size_t parts) {
  step_ += step_ == 0 ? 1 : parts_;
  parts_ = parts;
  label_ = label;
  if (terminal_) {
    draw(0, "");
  } else {
    out_ << '[' << step_ << '/' << steps_ << "] " << label_ << '\n' << std::flush;
  }
}

void Progress::at(double done, const std::string& what) {
  if (terminal_ && Clock::now() - last_draw_ >= kRedraw) draw(done, what);
}

void Progress::draw(double done, const std::string& what) {
  last_draw_ = Clock::now();
  out_ << "\r\x1b[K[" << step_ << '/' << steps_ << "] " << label_;
  if (!what.empty()) out_ << ": " << what;
  const double whole =
      (static_cast<double>(step_ - 1) + static_cast<double>(parts_) * std::clamp(done, 0.0, 1.0)) /
      static_cast<double>(steps_);
  if (whole > kForecastFrom) {
    const double passed = std::chrono::duration<double>(last_draw_ - start_).count();
    out_ << ", " << duration_text(passed * (1 - whole) / whole) << " left";
  }
  out_ << std::flush;
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace graft::lab
