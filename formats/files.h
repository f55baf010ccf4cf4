// Small files as wholes: read with errors that say what is there instead, written so that a reader
// never sees half of one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace graft::lab {

/// A file that is not what was expected: which, what is there, what to do.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Why `file` is no file that can be read, such as "is a folder; expected a file", or, of a
/// symbolic link, where it leads; empty for a file that can be opened.
std::string why_unreadable(const std::filesystem::path& file);

/// Whether that is the text that Git LFS leaves in place of a file that was not fetched.
bool is_lfs_pointer(std::string_view content);
inline constexpr const char* kLfsAdvice =
    "is a Git LFS pointer, not the file that it stands for; run 'git lfs pull' in its folder";

/// All of a regular file. Throws FileError.
std::string read_file(const std::filesystem::path& file);
/// The JSON in one. Throws FileError, with the byte at which it is no JSON.
nlohmann::json read_json(const std::filesystem::path& file);

/// What is said of `bytes` bytes of text that are no JSON any more at `byte`, from 1.
std::string json_error_text(size_t byte, size_t bytes);

/// Replaces the file as a whole, on the disk when this returns: the content goes to a temporary
/// name beside it first. Throws FileError naming path and reason; the file that was there stays.
void write_file(const std::string& path, std::string_view content);

/// So that names that were just given to files in it outlive a power cut.
void sync_folder(const std::filesystem::path& folder);

}  // namespace graft::lab
