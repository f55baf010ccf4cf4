#include "runtime/store/entry.h"

#include <array>
#include <cstdio>
#include <cstring>

#include "runtime/key/words.h"

namespace graft::runtime {

namespace {

/// Names the form as well.
constexpr std::string_view kMagic = "graft plan 4   \n";
constexpr std::array<std::string StoredEntry::*, 6> kParts{
    &StoredEntry::about, &StoredEntry::machine, &StoredEntry::key,
    &StoredEntry::proof, &StoredEntry::plan,    &StoredEntry::scales};

/// The magic, the checksum of what follows, and the sizes of the parts.
constexpr size_t kHeaderBytes = kMagic.size() + sizeof(uint64_t) * (1 + kParts.size());

uint64_t checksum(std::string_view bytes) {
  constexpr size_t kWord = sizeof(uint64_t);
  const size_t whole = bytes.size() / kWord, words = (bytes.size() + kWord - 1) / kWord;
  return hash_words(words + 1, [&](size_t i) {
    uint64_t word = 0;
    if (i < whole)
      std::memcpy(&word, bytes.data() + i * kWord, kWord);
    else if (i < words)
      std::memcpy(&word, bytes.data() + i * kWord, bytes.size() % kWord);
    else
      word = bytes.size();
    return word;
  });
}

}  // namespace

std::string name_of(const StoredEntry& entry) {
  const std::array<uint64_t, 2> both{checksum(entry.machine), checksum(entry.key)};
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(hash_words(both)));
  return digits;
}

std::string pack(const StoredEntry& entry) {
  std::string bytes(kMagic);
  bytes.resize(kHeaderBytes);
  for (size_t k = 0; k < kParts.size(); ++k) {
    const uint64_t size = (entry.*kParts[k]).size();
    std::memcpy(bytes.data() + kMagic.size() + sizeof(uint64_t) * (1 + k), &size, sizeof size);
  }
  for (auto part : kParts) bytes += entry.*part;
  constexpr size_t kFirst = kMagic.size() + sizeof(uint64_t);
  const uint64_t sum = checksum(std::string_view(bytes).substr(kFirst));
  std::memcpy(bytes.data() + kMagic.size(), &sum, sizeof sum);
  return bytes;
}

std::optional<StoredEntry> unpack(std::string_view& bytes, std::string& wrong) {
  auto refuse = [&](const char* why) {
    wrong = why;
    return std::nullopt;
  };
  if (bytes.size() < kHeaderBytes) return refuse("it is cut off");
  if (!bytes.starts_with(kMagic)) return refuse("it is no plan, or of another version");
  std::array<uint64_t, 1 + kParts.size()> numbers{};
  std::memcpy(numbers.data(), bytes.data() + kMagic.size(), sizeof numbers);
  size_t all = kHeaderBytes;
  for (size_t k = 1; k < numbers.size(); ++k) {
    if (numbers[k] > bytes.size() - all) return refuse("it is cut off");
    all += numbers[k];
  }
  constexpr size_t kFirst = kMagic.size() + sizeof(uint64_t);
  if (checksum(bytes.substr(kFirst, all - kFirst)) != numbers[0]) return refuse("it is damaged");
  StoredEntry entry;
  size_t at = kHeaderBytes;
  for (size_t k = 0; k < kParts.size(); at += numbers[++k])
    entry.*kParts[k] = bytes.substr(at, numbers[k + 1]);
  bytes.remove_prefix(all);
  return entry;
}

std::optional<StoredEntry> unpack_whole(std::string_view bytes, std::string& wrong) {
  std::optional<StoredEntry> entry = unpack(bytes, wrong);
  if (entry && !bytes.empty()) entry.reset(), wrong = "there is more than was written";
  return entry;
}

}  // namespace graft::runtime
