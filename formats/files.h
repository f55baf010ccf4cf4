// Small files, read and written whole: errors say what was found instead, and a reader never sees a
// half-written file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace graft::formats {

/// A file that is not what was expected. The text names the file, what is there and what to do.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Why `file` cannot be read, such as "is a folder; expected a file", or where a symbolic link
/// leads; empty for a file that can be opened.
std::string why_unreadable(const std::filesystem::path& file);

/// Is `content` the text that Git LFS leaves in place of a file that was not fetched?
bool is_lfs_pointer(std::string_view content);
inline constexpr const char* kLfsAdvice =
    "is a Git LFS pointer, not the file that it stands for; run 'git lfs pull' in its folder";

/// The content of a regular file. Throws FileError.
std::string read_file(const std::filesystem::path& file);
/// The JSON in a file. Throws FileError with the byte at which parsing failed.
nlohmann::json read_json(const std::filesystem::path& file);

/// The error text for `bytes` bytes of text whose parsing as JSON failed at `byte`, counted from 1.
std::string json_error_text(size_t byte, size_t bytes);

/// Replaces the file as a whole, on the disk when this returns: the content goes to a temporary
/// name beside it first. Throws FileError naming path and reason; the file that was there stays.
void write_file(const std::string& path, std::string_view content);

/// Flushes the folder itself, so that files just created or renamed in it survive a power cut.
void sync_folder(const std::filesystem::path& folder);

}  // namespace graft::formats
