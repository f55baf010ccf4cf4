// Pictures of a profile: a timeline for Perfetto, and a flame graph.
#pragma once

#include <string>

#include "lab/profile/profile.h"

namespace graft::lab {

/// Chrome's trace-event JSON, which https://ui.perfetto.dev and chrome://tracing open: one
/// "complete" event per profile event, with its range and self time.
std::string trace_json(const Profile& profile);

/// A self-contained SVG, `width` pixels wide. Each call path appears once, as wide as its time over
/// all calls, callers above what they call, in the order in which they first ran. Colours show the
/// kind of work; numbers are in tooltips. It follows the reader's light or dark scheme. Parts
/// narrower than half a pixel are left out.
std::string flame_graph(const Profile& profile, const std::string& title, double width = 1200);

}  // namespace graft::lab
