// The page around a report: styles for light and dark, wide and narrow, and the script that sorts
// tables and saves the samples.
#pragma once

#include <string>

namespace graft::lab {

/// From the doctype to the start of the body. `title` must be escaped.
std::string page_start(const std::string& title);
/// The script, and the end of the page.
std::string page_end();

}  // namespace graft::lab
