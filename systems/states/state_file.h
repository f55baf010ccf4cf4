// The file of optimizer states: two slots per group, and a record of the step that is committed.
//
//     page(s) 0..     what the file is: parameters, elements per group, sections
//     2 pages         commit records; the valid one with the larger sequence number counts
//     per group       slot 0, slot 1; each: header (step, checksums, counts of steps), sections
//
// The slot that counts is the one with the largest step that is not beyond the committed one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "systems/states/page_file.h"
#include "systems/states/plan.h"

namespace graft::systems::states {

constexpr int kMaxSections = 3;

struct ParameterKind {
  int64_t size = 0;
  int64_t dtype = 0;  ///< of c10::ScalarType
  bool operator==(const ParameterKind&) const = default;
};

/// Thread-safety: one thread may read and another one write, as long as it is not the same group.
/// Errors: as PageFile's.
class StateFile {
 public:
  /// Fills a group's sections for step 0.
  using Fill = std::function<void(int64_t group, std::byte* slot)>;

  /// Makes a file that holds step 0. All its space is taken first; it gets its name when it is
  /// complete, and replaces no other file.
  static void create(const std::string& path, const std::vector<ParameterKind>& parameters,
                     int64_t elements, int sections, FileAccess access, const Fill& fill);
  /// `at_step`: as OffloadOptions'. Fails if another process has it open, if it is of other
  /// parameters or damaged. Checks no sections.
  StateFile(const std::string& path, const std::vector<ParameterKind>& parameters, int sections,
            FileAccess access, int64_t at_step);

  const std::vector<Group>& groups() const { return groups_; }
  int sections() const { return sections_; }
  int64_t elements() const { return elements_; }
  int64_t committed() const;
  bool direct() const { return file_.direct(); }

  /// The group's newest slot: header and the first `sections` sections, checked. `buffer` is
  /// page-aligned and has the slot's size.
  void read(int64_t group, std::byte* buffer, int sections) const;
  /// Writes the other slot, which becomes the newest. Sets header and checksums in `buffer`.
  void write(int64_t group, std::byte* buffer, int64_t step);
  /// From here on the file holds `step`. `sync`: what was written is on the disk first.
  void commit(int64_t step, bool sync);
  /// Erases what was written since the last commit.
  void roll_back();

  /// The steps that each piece of a group has seen, in a slot's header.
  static std::span<int64_t> piece_steps(std::byte* slot, int64_t pieces);

 private:
  StateFile(const std::string& path, FileAccess access, std::vector<ParameterKind> parameters,
            int64_t elements, int sections);
  void read_layout(const std::vector<ParameterKind>& expected, int sections);
  void choose_step(int64_t at_step);
  void place_groups();
  int64_t slot_offset(int64_t group, int slot) const;
  struct Slots {
    std::vector<int> slots;
    std::vector<int64_t> steps;
  };
  /// Per group: the slot that holds `step`, and when it was written. Fails where there is none.
  Slots slots_at(int64_t step) const;
  bool is_intact(int64_t group, int slot) const;
  [[noreturn]] void say_corrupt(int64_t group, int64_t step, const std::string& what) const;

  PageFile file_;
  int sections_ = 0;
  int64_t elements_ = 0, layout_bytes_ = 0;
  std::vector<ParameterKind> parameters_;
  std::vector<Group> groups_;
  std::vector<int64_t> offsets_;  // of each group's slot 0; the last one is the file's end

  mutable std::mutex mutex_;  // of what follows
  int64_t committed_ = -1, sequence_ = 0;
  std::vector<int> newest_;     // per group: the slot with the last step that was written
  std::vector<int64_t> steps_;  // and this step
};

}  // namespace graft::systems::states
