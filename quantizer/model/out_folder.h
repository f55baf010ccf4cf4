// Checks the folder that the quantised model is to be written to.
#pragma once

#include <filesystem>

namespace graft::quantizer {

/// Is `path` the folder, or does it lie in it? Symbolic links are followed.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Throws GptqError, naming --out, for an empty name, a link that leads nowhere, a file, and the
/// model's folder or one in it.
void check_out_folder(const std::filesystem::path& out, const std::filesystem::path& model);

}  // namespace graft::quantizer
