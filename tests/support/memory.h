// Memory behind the storages of a loop program.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ir/program.h"

namespace graft::test {

/// Throws std::logic_error: the program is not one that the interpreter can run.
[[noreturn]] void fail(const std::string& what);

/// One block of memory per storage: the caller's for arguments and captures, fresh for the others.
/// Fresh memory holds 0xff bytes (NaN, -1), so that a read of what nobody wrote shows.
class Memory {
 public:
  Memory(const std::vector<ir::Storage>& storages, const std::vector<at::Tensor>& args,
         const std::vector<at::Tensor>& captured);

  /// Address of `size` bytes; throws std::logic_error when they leave the storage.
  char* at(int storage, int64_t byte_offset, int64_t size) const;
  /// A tensor over a storage's memory, sharing it.
  at::Tensor tensor(const ir::View& view) const;
  /// The storage's memory is from now on that of `tensor`, which lies there as `view` says.
  void bind(const ir::View& view, const at::Tensor& tensor);
  /// Fresh memory of that size, as a kernel's scratch has for each tile.
  void renew(int storage, int64_t bytes);

 private:
  struct Block {
    c10::Storage memory;
    int64_t base = 0;   ///< of the storage in it, bytes
    int64_t bytes = 0;  ///< that may be touched from there
  };
  std::vector<Block> blocks_;
};

}  // namespace graft::test
