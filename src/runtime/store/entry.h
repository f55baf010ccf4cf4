// A plan outside of a process: the form of files in the cache folder, and of those that graft::save
// writes, which hold several of them one after another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace graft::runtime {

struct StoredEntry {
  /// For people, a fact per line: the function, its kernels, how it was proven.
  std::string about;
  /// For people, a fact per line: what the code was made by and for. Another machine's is of no
  /// use.
  std::string machine;
  /// The trace and the settings: what a look-up must find equal.
  std::string key;
  std::string proof, plan, scales;  ///< stored_plan.h
};

/// By whatever tells one entry from another; the start of a file's name.
std::string name_of(const StoredEntry& entry);

std::string pack(const StoredEntry& entry);
/// Takes one entry off the front of `bytes`. Nothing, and `wrong`, where they are not exactly what
/// pack() made: sizes and a checksum over all of it are compared.
std::optional<StoredEntry> unpack(std::string_view& bytes, std::string& wrong);
/// Of bytes that are one entry and nothing else.
std::optional<StoredEntry> unpack_whole(std::string_view bytes, std::string& wrong);

}  // namespace graft::runtime
