#include "systems/states/page_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace graft::systems::states {
namespace {

std::string text_of(int error) {
  return std::strerror(error);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

/// Whether `path` still is the file that was opened: until it is locked, others may remove it.
bool is_named(int file, const std::string& path) {
  struct stat opened{}, named{};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

std::string free_space(const std::string& path) {
  const std::string folder = folder_of(path);
  struct statvfs info{};
  if (statvfs(folder.c_str(), &info) != 0) return "";
  return ", " + std::to_string(info.f_bavail * info.f_frsize) + " bytes are free there";
}

}  // namespace

PageBuffer::PageBuffer(int64_t bytes) : bytes_(round_up(bytes, kPage)) {
  void* memory = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TORCH_CHECK(memory != MAP_FAILED, "no memory for a buffer of ", bytes_,
              " bytes of optimizer states: ", text_of(errno), "; lower budget_bytes");
  data_ = static_cast<std::byte*>(memory);
  madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);  // fewer page faults and TLB misses
}

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

PageFile::PageFile(std::string path, FileAccess access, bool make) : path_(std::move(path)) {
  const int flags = O_RDWR | O_CLOEXEC | (make ? O_CREAT | O_EXCL : 0);
  direct_ = access == FileAccess::Direct;
  file_ = ::open(path_.c_str(), flags | (direct_ ? O_DIRECT : 0), 0644);
  if (file_ < 0 && errno == EINVAL && direct_) {  // the file system has no O_DIRECT
    direct_ = false;
    file_ = ::open(path_.c_str(), flags & ~O_EXCL, 0644);
  }
  TORCH_CHECK(file_ >= 0, "optimizer state file ", path_, ": ", text_of(errno),
              errno == EEXIST ? "; another process is making it" : "",
              "; name a file in a folder that can be written");
  const bool is_locked = flock(file_, LOCK_EX | LOCK_NB) == 0;
  if (is_locked && is_named(file_, path_)) return;
  const std::string why = is_locked ? "which removed or replaced it meanwhile" : text_of(errno);
  ::close(file_);
  TORCH_CHECK(false, "optimizer state file ", path_, " is in use by another optimizer (", why,
              "); end it, or name another file for this one");
}

PageFile::~PageFile() {
  ::close(file_);
}

int64_t PageFile::bytes() const {
  return ::lseek(file_, 0, SEEK_END);
}

void PageFile::reserve(int64_t bytes) {
  const int failure = posix_fallocate(file_, 0, bytes);
  TORCH_CHECK(failure == 0, "optimizer state file ", path_, " needs ", bytes,
              " bytes: ", text_of(failure), free_space(path_),
              "; make room, or name a file elsewhere");
}

void PageFile::read(int64_t offset, std::byte* to, int64_t bytes) const {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(file_, to + done, static_cast<size_t>(bytes - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    TORCH_CHECK(got > 0, "optimizer state file ", path_, ": reading ", bytes, " bytes at ", offset,
                " failed: ", got == 0 ? "the file ends before, it was cut" : text_of(errno));
    done += got;
  }
}

void PageFile::write(int64_t offset, const std::byte* from, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t put =
        ::pwrite(file_, from + done, static_cast<size_t>(bytes - done), offset + done);
    if (put < 0 && errno == EINTR) continue;
    TORCH_CHECK(put > 0, "optimizer state file ", path_, ": writing ", bytes, " bytes at ", offset,
                " failed: ", text_of(errno), free_space(path_),
                "; the step before stays in the file: make room, then restore() or open it again");
    done += put;
  }
}

void PageFile::sync() {
  TORCH_CHECK(::fdatasync(file_) == 0, "optimizer state file ", path_,
              ": the disk did not take what was written: ", text_of(errno),
              "; the step before stays in the file");
}

void sync_folder_of(const std::string& path) {
  const std::string folder = folder_of(path);
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems cannot do it (EINVAL); then there is nothing to wait for.
  const bool done = file >= 0 && (::fsync(file) == 0 || errno == EINVAL);
  const int error = errno;
  if (file >= 0) ::close(file);
  TORCH_CHECK(done, "optimizer state file ", path,
              ": the disk did not take its name: ", text_of(error), "; make it again");
}

void remove_abandoned(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  // While it is locked here and has this name, nobody else removes the name.
  if (flock(file, LOCK_EX | LOCK_NB) == 0 && is_named(file, path)) ::unlink(path.c_str());
  ::close(file);
}

}  // namespace graft::systems::states
