// A folder that an experiment writes to.
#pragma once

#include <filesystem>
#include <string>

namespace graft::experiments {

/// One that the user named, or a temporary one that is removed at the end.
class Folder {
 public:
  /// `given` empty: a temporary one. `option`: what named it, for errors. Throws cli::UsageError
  /// where it cannot be made.
  explicit Folder(std::filesystem::path given, const std::string& option);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
  bool own_;
};

}  // namespace graft::experiments
