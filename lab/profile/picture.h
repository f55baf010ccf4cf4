// A profile for the eye: a timeline for Perfetto and a flame graph.
#pragma once

#include <string>

#include "lab/profile/profile.h"

namespace graft::lab {

/// Chrome's trace-event JSON, which https://ui.perfetto.dev and chrome://tracing open: one complete
/// event a profile event, its range and self time beside it.
std::string trace_json(const Profile& profile);

/// A self-contained SVG, `width` pixels wide: each call path once, as wide as its time over all
/// calls, callers above what they call, in the order in which they first ran. Coloured by kind of
/// work; the numbers are in the tooltips. Follows the reader's light or dark scheme. Parts narrower
/// than half a pixel are left out.
std::string flame_graph(const Profile& profile, const std::string& title, double width = 1200);

}  // namespace graft::lab
