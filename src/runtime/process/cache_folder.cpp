#include "runtime/process/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace graft::runtime {

namespace {

/// Whatever is larger is none of ours.
constexpr int64_t kMostFileBytes = int64_t{1} << 28;
/// Of a file that is being written.
constexpr const char* kPart = ".part-";
constexpr double kForgotten = 3600;  ///< seconds after which nobody writes it any more

std::string system_text(int error) {
  return std::error_code(error, std::generic_category()).message();
}

/// An open file or folder.
class Handle {
 public:
  explicit Handle(int fd = -1) : fd_(fd) {}
  ~Handle() {
    if (fd_ >= 0) close(fd_);
  }
  Handle(Handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Handle& operator=(Handle&&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int operator*() const { return fd_; }

 private:
  int fd_;
};

/// Could somebody else have written it?
std::string foreign(const struct stat& info) {
  if (info.st_uid != geteuid())
    return "belongs to user " + std::to_string(info.st_uid) + ", not to " +
           std::to_string(geteuid());
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "may be written by others; chmod go-w it";
  return {};
}

Handle open_folder(const std::filesystem::path& path, std::string& wrong) {
  Handle folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    if (errno != ENOENT) wrong = path.string() + ": " + system_text(errno);
    return folder;
  }
  struct stat info{};
  if (fstat(*folder, &info) != 0)
    wrong = path.string() + ": " + system_text(errno);
  else if (const std::string why = foreign(info); !why.empty())
    wrong = path.string() + " " + why;
  return wrong.empty() ? std::move(folder) : Handle();
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    content.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(fd) == 0;
}

/// The content goes to a name of its own first.
bool write_in(int folder, const std::string& name, mode_t mode, std::string_view content) {
  // Processes of several containers may have one number.
  uint64_t chance[2] = {};
  if (getrandom(chance, sizeof chance, 0) != sizeof chance) return false;
  const std::string part = kPart + std::to_string(chance[0]) + "-" + std::to_string(chance[1]);
  const Handle file(
      openat(folder, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file) return false;
  if (!write_all(*file, content) || renameat(folder, part.c_str(), folder, name.c_str()) != 0) {
    const int why = errno;
    unlinkat(folder, part.c_str(), 0);
    errno = why;
    return false;
  }
  fsync(folder);
  return true;
}

double now() {
  return static_cast<double>(std::time(nullptr));
}

struct Listed : CacheFolder::File {
  bool part = false;
};

/// Of what lies there, the plain files of this user with that end of their name, and parts.
std::vector<Listed> list_all(int folder, std::string_view ending) {
  std::vector<Listed> found;
  // A stream closes what it reads from.
  const int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = own < 0 ? nullptr : fdopendir(own);
  if (stream == nullptr) {
    if (own >= 0) close(own);
    return found;
  }
  const double today = now();
  while (const dirent* entry = readdir(stream)) {
    struct stat info{};
    if (fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(info.st_mode) || !foreign(info).empty()) continue;
    Listed file;
    file.name = entry->d_name;
    file.bytes = info.st_size;
    file.part = file.name.starts_with(kPart);
    const double used = static_cast<double>(info.st_mtime);
    constexpr double kSkew = 60;
    file.used = used > today + kSkew ? 0 : used;
    if (file.part || (!file.name.starts_with(".") && file.name.ends_with(ending)))
      found.push_back(std::move(file));
  }
  closedir(stream);
  std::sort(found.begin(), found.end(), [](const Listed& a, const Listed& b) {
    return a.used != b.used ? a.used > b.used : a.name < b.name;
  });
  return found;
}

}  // namespace

std::filesystem::path cache_path() {
  auto set = [](const char* name) -> std::string_view {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  };
  if (auto own = set("GRAFT_CACHE_DIR"); !own.empty()) return own == "off" ? "" : own;
  std::filesystem::path all = set("XDG_CACHE_HOME");
  if (all.empty() && !set("HOME").empty()) all = std::filesystem::path(set("HOME")) / ".cache";
  return all.empty() ? all : all / "graft" / "plans";
}

bool replace_file(const std::filesystem::path& file, std::string_view content, std::string& wrong) {
  constexpr mode_t kPlain = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
  const Handle folder(open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && write_in(*folder, file.filename().string(), kPlain, content)) return true;
  wrong = file.string() + ": " + system_text(errno);
  return false;
}

std::optional<std::string> CacheFolder::read(const std::string& name, std::string& wrong) const {
  wrong.clear();
  const Handle folder = open_folder(path_, wrong);
  if (!folder) return std::nullopt;
  const std::string file = (path_ / name).string();
  // A pipe would wait for its writer, and a link may lead anywhere.
  const Handle handle(
      openat(*folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!handle) {
    if (errno == ELOOP)
      wrong = file + " is a symbolic link, not a file";
    else if (errno != ENOENT)
      wrong = file + ": " + system_text(errno);
    return std::nullopt;
  }
  struct stat info{};
  if (fstat(*handle, &info) != 0)
    wrong = file + ": " + system_text(errno);
  else if (!S_ISREG(info.st_mode))
    wrong = file + " is no plain file";
  else if (const std::string why = foreign(info); !why.empty())
    wrong = file + " " + why;
  else if (info.st_size > kMostFileBytes)
    wrong = file + " has " + std::to_string(info.st_size) + " bytes, more than any that is written";
  if (!wrong.empty()) return std::nullopt;
  std::string content(static_cast<size_t>(info.st_size), '\0');
  size_t got = 0;
  while (got < content.size()) {
    const ssize_t n = ::read(*handle, content.data() + got, content.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  content.resize(got);
  return content;
}

bool CacheFolder::write(const std::string& name, std::string_view content,
                        std::string& wrong) const {
  wrong.clear();
  if (content.size() > static_cast<size_t>(kMostFileBytes)) {
    wrong = name + " would have " + std::to_string(content.size()) + " bytes, more than is read";
    return false;
  }
  std::error_code failed;
  std::filesystem::create_directories(path_.parent_path(), failed);
  if (mkdir(path_.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    wrong = path_.string() + ": " + system_text(errno);
    return false;
  }
  const Handle folder = open_folder(path_, wrong);
  if (!folder) {
    if (wrong.empty()) wrong = path_.string() + " went while it was written to";
    return false;
  }
  if (write_in(*folder, name, S_IRUSR | S_IWUSR, content)) return true;
  wrong = (path_ / name).string() + ": " + system_text(errno);
  return false;
}

void CacheFolder::touch(const std::string& name) const {
  std::string ignored;
  if (const Handle folder = open_folder(path_, ignored))
    utimensat(*folder, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

bool CacheFolder::remove(const std::string& name) const {
  std::string ignored;
  const Handle folder = open_folder(path_, ignored);
  return folder && unlinkat(*folder, name.c_str(), 0) == 0;
}

std::vector<CacheFolder::File> CacheFolder::list(std::string_view ending,
                                                 std::string& wrong) const {
  wrong.clear();
  std::vector<File> files;
  if (const Handle folder = open_folder(path_, wrong))
    for (Listed& file : list_all(*folder, ending))
      if (!file.part) files.push_back(std::move(file));
  return files;
}

int64_t CacheFolder::trim(std::string_view ending, int64_t most) const {
  std::string ignored;
  const Handle folder = open_folder(path_, ignored);
  if (!folder) return 0;
  int64_t kept = 0, removed = 0;
  for (const Listed& file : list_all(*folder, ending)) {
    if (!file.part) kept += file.bytes;
    const bool goes = file.part ? file.used < now() - kForgotten : kept > most;
    if (goes && unlinkat(*folder, file.name.c_str(), 0) == 0) removed += file.bytes;
  }
  return removed;
}

}  // namespace graft::runtime
