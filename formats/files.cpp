#include "formats/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

namespace graft::formats {
namespace {

namespace fs = std::filesystem;

std::string system_text(int error) {
  return std::generic_category().message(error);
}

/// Writes it all and closes `fd`; returns errno's value, or 0.
int write_all(int fd, std::string_view content) {
  int error = 0;
  while (!content.empty() && error == 0) {
    const ssize_t wrote = ::write(fd, content.data(), content.size());
    if (wrote >= 0)
      content.remove_prefix(static_cast<size_t>(wrote));
    else if (errno != EINTR)
      error = errno;
  }
  if (error == 0 && ::fsync(fd) != 0 && errno != EINVAL) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

std::string why_unreadable(const fs::path& file) {
  std::error_code error;
  const fs::file_status link = fs::symlink_status(file, error), status = fs::status(file, error);
  if (fs::is_symlink(link) && !fs::exists(status))
    return "is a symbolic link to " + fs::read_symlink(file, error).string() +
           ", which is not there";
  if (fs::is_directory(status)) return "is a folder; expected a file";
  if (fs::exists(status) && !fs::is_regular_file(status))
    return "is a device or a pipe; expected a regular file";
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "cannot be opened: " + system_text(errno);
  ::close(fd);
  return "";
}

bool is_lfs_pointer(std::string_view content) {
  return content.starts_with("version https://git-lfs.github.com/spec/");
}

std::string read_file(const fs::path& file) {
  if (const std::string why = why_unreadable(file); !why.empty())
    throw FileError(file.string() + ": " + why);
  try {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  } catch (const std::ios_base::failure& error) {  // of the buffer, whatever the stream is told
    throw FileError(file.string() + ": cannot be read to its end: " + error.code().message());
  }
}

nlohmann::json read_json(const fs::path& file) {
  const std::string text = read_file(file);
  if (is_lfs_pointer(text)) throw FileError(file.string() + ": " + kLfsAdvice);
  // The parser takes a NUL for the end of the text.
  if (const size_t nul = text.find('\0'); nul != std::string::npos)
    throw FileError(file.string() + ": " + json_error_text(nul + 1, text.size()));
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw FileError(file.string() + ": " + json_error_text(error.byte, text.size()));
  } catch (const nlohmann::json::out_of_range&) {
    throw FileError(file.string() + ": holds a number that is too large for any type");
  }
}

std::string json_error_text(size_t byte, size_t bytes) {
  const std::string all = std::to_string(bytes);
  return "is not valid JSON" +
         (byte > bytes ? ": it ends too early, after byte " + all
                       : " at byte " + std::to_string(byte) + " of " + all) +
         "; was it cut short, or changed by hand? Mend it, or get the file again";
}

void write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int error = fd < 0 ? errno : write_all(fd, content);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return sync_folder(fs::path(path).parent_path());
  if (fd >= 0) ::unlink(temporary.c_str());
  throw FileError("could not write '" + path + "' (" + system_text(error) +
                  "); look at the space left and the folder's rights.");
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // a folder that may be written but not read: nothing more can be done
  ::fsync(fd);
  ::close(fd);
}

}  // namespace graft::formats
