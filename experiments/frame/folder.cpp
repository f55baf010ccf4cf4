#include "experiments/frame/folder.h"

#include <cstdlib>
#include <system_error>
#include <utility>

#include "cli/frame/usage.h"

namespace graft::experiments {

namespace fs = std::filesystem;

Folder::Folder(fs::path given, const std::string& option)
    : path_(std::move(given)), own_(path_.empty()) {
  if (own_) {
    std::string name = (fs::temp_directory_path() / "graft-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw cli::UsageError("no temporary folder can be made in " +
                            fs::temp_directory_path().string() + "; name another with TMPDIR");
    path_ = name;
    return;
  }
  std::error_code error;
  fs::create_directories(path_, error);
  if (!fs::is_directory(path_))
    throw cli::UsageError(option + " came as '" + path_.string() +
                          "', which cannot be made a folder (" + error.message() +
                          "); give one that can be written");
}

Folder::~Folder() {
  std::error_code ignored;
  if (own_) fs::remove_all(path_, ignored);
}

}  // namespace graft::experiments
