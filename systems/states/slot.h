// The records of the state file, and how each is known to be whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "systems/states/checksum.h"
#include "systems/states/state_file.h"

namespace graft::systems::states {

constexpr uint64_t kMagic = 0x3153544154534647;  // "GFSTATS1": with the format's version

// In each record the checksum is of what follows it.
struct FileHeader {  // ParameterKinds follow
  uint64_t magic = kMagic, checksum = 0;
  int64_t elements = 0, sections = 0, parameters = 0;
};

struct CommitRecord {
  uint64_t magic = kMagic, checksum = 0;
  int64_t sequence = 0, step = 0;
  uint64_t steps = 0;  // checksum of the step of each group's slot: one that was lost is missed
};

struct SlotHeader {  // the steps of each piece follow
  uint64_t magic = kMagic, checksum = 0;
  int64_t group = 0, step = 0, pieces = 0;
  std::array<uint64_t, kMaxSections> sections{};  // checksums
};

/// The checksum of everything behind the field that holds it.
template <class Record>
uint64_t record_checksum(const std::byte* at, int64_t bytes) {
  constexpr int64_t from = offsetof(Record, checksum) + sizeof(uint64_t);
  return checksum(at + from, static_cast<size_t>(bytes - from));
}

/// Puts the record at the begin of `bytes` bytes whose rest is set already.
template <class Record>
void put_record(Record record, std::byte* at, int64_t bytes) {
  std::memcpy(at, &record, sizeof(record));
  record.checksum = record_checksum<Record>(at, bytes);
  std::memcpy(at, &record, sizeof(record));
}

/// Empty where magic or checksum are wrong.
template <class Record>
std::optional<Record> get_record(const std::byte* at, int64_t bytes) {
  Record record;
  std::memcpy(&record, at, sizeof(record));
  const bool valid =
      record.magic == kMagic && record.checksum == record_checksum<Record>(at, bytes);
  return valid ? std::optional(record) : std::nullopt;
}

inline int64_t slot_header_bytes(int64_t pieces) {
  return int64_t{sizeof(SlotHeader)} + pieces * int64_t{sizeof(int64_t)};
}

}  // namespace graft::systems::states
