// Where the quantised model may go.
#pragma once

#include <filesystem>

namespace graft::workloads::gptq {

/// Whether `path`, however it is spelled and through whatever links, is `folder` or lies in it.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Throws GptqError, naming --out, for a name that is empty, a link that leads nowhere, a file, and
/// the model's folder or one in it.
void check_out_folder(const std::filesystem::path& out, const std::filesystem::path& model);

}  // namespace graft::workloads::gptq
