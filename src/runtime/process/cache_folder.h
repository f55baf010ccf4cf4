// What processes of one user keep for each other: small files in a folder that nobody else writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft::runtime {

/// GRAFT_CACHE_DIR, or else XDG_CACHE_HOME/graft/plans or ~/.cache/graft/plans; empty where nothing
/// is kept, as for GRAFT_CACHE_DIR=off. Reads the environment at each call.
std::filesystem::path cache_path();

/// Replaces the file, on the disk when this returns; the file that was there stays where `wrong`
/// says why it cannot be written. Readable as the process's umask says.
bool replace_file(const std::filesystem::path& file, std::string_view content, std::string& wrong);

/// A folder of files that are written whole or not at all, and read without waiting for writers.
/// Nothing is believed: what is no plain file of this user's, or can be written by others, is not
/// read. Thread-safe; any number of processes may use it at once. Nothing here throws: `wrong` says
/// what is not as it should be, and is empty where something is just not there.
class CacheFolder {
 public:
  explicit CacheFolder(std::filesystem::path path) : path_(std::move(path)) {}
  const std::filesystem::path& path() const { return path_; }

  std::optional<std::string> read(const std::string& name, std::string& wrong) const;
  /// Replaces the file, on the disk when this returns. Makes the folder, for this user alone
  /// (mode 0700).
  bool write(const std::string& name, std::string_view content, std::string& wrong) const;
  /// Notes that it was used now.
  void touch(const std::string& name) const;
  bool remove(const std::string& name) const;

  struct File {
    std::string name;
    int64_t bytes = 0;
    double used = 0;  ///< when it was last written, read or touched: seconds since 1970
  };
  /// Those with this end of their name that read() would take, the one used last first. A time in
  /// the future, of a clock that was set back, counts as long ago.
  std::vector<File> list(std::string_view ending, std::string& wrong) const;
  /// Removes those of them that were used longest ago until at most `most` bytes are left, and
  /// parts of files that a process left behind which was killed an hour ago or earlier. Gives the
  /// bytes removed.
  int64_t trim(std::string_view ending, int64_t most) const;

 private:
  std::filesystem::path path_;
};

}  // namespace graft::runtime
