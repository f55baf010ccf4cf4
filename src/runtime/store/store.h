// Where a function looks for plans: files that the process was given (graft::load), other functions
// of the process, and the cache folder.
#pragma once

#include <memory>
#include <string>

#include "runtime/store/entry.h"

namespace graft::runtime {

constexpr const char* kPlanEnding = ".plan";

/// Null where there is none; otherwise the entry with that machine and key, its other parts as they
/// were stored. What has its name and is something else counts as nothing, and is warned of once.
/// Thread-safe.
std::shared_ptr<const StoredEntry> find_stored(const StoredEntry& wanted);
/// Another one may come in its place: it was wrong.
void drop_stored(const StoredEntry& entry);
/// Keeps it in the cache folder, if there is one; an earlier one of the same machine and key goes.
/// What cannot be written is warned of once. Thread-safe; may wait for the disk.
void keep_stored(const StoredEntry& entry);
/// Makes it found by this process, for good.
void provide_stored(StoredEntry entry);
/// … for as long as somebody holds it.
void share_stored(const std::shared_ptr<const StoredEntry>& entry);

/// GRAFT_CACHE_SIZE, as "512M"; 1 GiB. Throws std::runtime_error naming what cannot be read.
int64_t most_stored_bytes();
/// "512M", "2G", "4096".
int64_t bytes_of_text(const std::string& text);

}  // namespace graft::runtime
