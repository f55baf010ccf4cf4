// A file that is read and written in pages, and page-aligned memory for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "graft/systems/optimizer_states.h"
#include "systems/states/plan.h"

namespace graft::systems::states {

/// Page-aligned memory that is given back to the system when it goes.
class PageBuffer {
 public:
  explicit PageBuffer(int64_t bytes);
  ~PageBuffer();
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// Open and locked against other processes. Offsets, sizes and addresses are multiples of kPage.
/// Errors are c10::Error with the file's name, what the system says and what to do. Thread-safe
/// where the ranges do not overlap.
class PageFile {
 public:
  /// `make`: there must be no such file yet.
  PageFile(std::string path, FileAccess access, bool make);
  ~PageFile();
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  const std::string& path() const { return path_; }
  bool direct() const { return direct_; }
  int64_t bytes() const;
  /// Takes the space on disk for so many bytes.
  void reserve(int64_t bytes);
  void read(int64_t offset, std::byte* to, int64_t bytes) const;
  void write(int64_t offset, const std::byte* from, int64_t bytes);
  /// Returns when the disk has what was written.
  void sync();

 private:
  std::string path_;
  int file_ = -1;
  bool direct_ = false;
};

/// Returns when the disk has the names in the file's folder.
void sync_folder_of(const std::string& path);

/// Removes a file that no process has open, as one that was killed while it made the file left it.
void remove_abandoned(const std::string& path);

}  // namespace graft::systems::states
