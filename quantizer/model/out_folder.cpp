#include "quantizer/model/out_folder.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "quantizer/model/error.h"

namespace graft::quantizer {
namespace {

namespace fs = std::filesystem;

/// Absolute, without links and dots, also of what is not there yet.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::weakly_canonical(fs::absolute(path), error);
  if (error) out = fs::absolute(path).lexically_normal();
  return out.has_filename() ? out : out.parent_path();
}

}  // namespace

bool lies_in(const fs::path& path, const fs::path& folder) {
  const fs::path inner = resolved(path), outer = resolved(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

void check_out_folder(const fs::path& out, const fs::path& model) {
  const auto refuse = [&](const std::string& why) {
    throw GptqError("--out '" + out.string() + "' " + why + "; name a new folder");
  };
  if (out.empty()) refuse("is empty (a shell variable that is not set?)");
  if (fs::is_symlink(out) && !fs::exists(out))
    refuse("is a symbolic link to " + fs::read_symlink(out).string() + ", which is not there");
  if (fs::exists(out) && !fs::is_directory(out)) refuse("is a file");
  if (lies_in(out, model))
    refuse(lies_in(model, out) ? "is the model's own folder"
                               : "lies in the model's folder " + model.string() +
                                     ", whose small files are copied along");
}

}  // namespace graft::quantizer
