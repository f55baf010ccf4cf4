#include "systems/states/state_file.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include "systems/states/slot.h"

namespace graft::systems::states {
namespace {

int64_t pieces_of(const Group& group) {
  return static_cast<int64_t>(group.pieces.size());
}

std::optional<SlotHeader> slot_header(const std::byte* at, int64_t group, int64_t pieces) {
  const auto header = get_record<SlotHeader>(at, slot_header_bytes(pieces));
  return header && header->group == group && header->pieces == pieces ? header : std::nullopt;
}

uint64_t section_checksum(const std::byte* slot, const Group& group, int section) {
  return checksum(slot + group.section_offset(section), static_cast<size_t>(group.section_bytes));
}

int64_t layout_bytes(int64_t parameters) {
  return round_up(int64_t{sizeof(FileHeader)} + parameters * int64_t{sizeof(ParameterKind)}, kPage);
}

}  // namespace

std::span<int64_t> StateFile::piece_steps(std::byte* slot, int64_t pieces) {
  return {reinterpret_cast<int64_t*>(slot + sizeof(SlotHeader)), static_cast<size_t>(pieces)};
}

void StateFile::place_groups() {
  std::vector<int64_t> sizes;
  for (const ParameterKind& kind : parameters_) sizes.push_back(kind.size);
  groups_ = plan_groups(sizes, elements_);
  layout_bytes_ = layout_bytes(static_cast<int64_t>(parameters_.size()));
  offsets_.assign(1, layout_bytes_ + 2 * kPage);
  for (const Group& group : groups_)
    offsets_.push_back(offsets_.back() + 2 * group.slot_bytes(sections_));
  newest_.assign(groups_.size(), 1);  // so that the first write goes to slot 0
  steps_.assign(groups_.size(), -1);
}

int64_t StateFile::slot_offset(int64_t group, int slot) const {
  return offsets_[group] + slot * groups_[group].slot_bytes(sections_);
}

StateFile::StateFile(const std::string& path, FileAccess access,
                     std::vector<ParameterKind> parameters, int64_t elements, int sections)
    : file_(path, access, true),
      sections_(sections),
      elements_(elements),
      parameters_(std::move(parameters)) {
  place_groups();
}

void StateFile::create(const std::string& path, const std::vector<ParameterKind>& parameters,
                       int64_t elements, int sections, FileAccess access, const Fill& fill) {
  const std::string unfinished = path + ".new";
  remove_abandoned(unfinished);
  StateFile file(unfinished, access, parameters, elements, sections);
  try {
    file.file_.reserve(file.offsets_.back());
    int64_t largest = file.layout_bytes_;
    for (const Group& group : file.groups_) largest = std::max(largest, group.slot_bytes(sections));
    const PageBuffer buffer(largest);
    std::memcpy(buffer.data() + sizeof(FileHeader), parameters.data(),
                parameters.size() * sizeof(ParameterKind));
    put_record(FileHeader{.elements = elements,
                          .sections = sections,
                          .parameters = static_cast<int64_t>(parameters.size())},
               buffer.data(), file.layout_bytes_);
    file.file_.write(0, buffer.data(), file.layout_bytes_);
    for (size_t g = 0; g < file.groups_.size(); ++g) {
      std::memset(buffer.data(), 0, static_cast<size_t>(buffer.bytes()));
      fill(static_cast<int64_t>(g), buffer.data());
      file.write(static_cast<int64_t>(g), buffer.data(), 0);
    }
    file.commit(0, true);
    TORCH_CHECK(::link(unfinished.c_str(), path.c_str()) == 0, "optimizer state file ", path, ": ",
                std::strerror(errno), "; name another file");
    sync_folder_of(path);
  } catch (...) {
    ::unlink(unfinished.c_str());
    throw;
  }
  ::unlink(unfinished.c_str());
}

StateFile::StateFile(const std::string& path, const std::vector<ParameterKind>& parameters,
                     int sections, FileAccess access, int64_t at_step)
    : file_(path, access, false) {
  read_layout(parameters, sections);
  place_groups();
  choose_step(at_step);
}

void StateFile::read_layout(const std::vector<ParameterKind>& expected, int sections) {
  const std::string& path = file_.path();
  const int64_t there = file_.bytes();
  const PageBuffer first(kPage);
  FileHeader header{.magic = 0};
  if (there >= kPage) {
    file_.read(0, first.data(), kPage);
    std::memcpy(&header, first.data(), sizeof(header));
  }
  TORCH_CHECK(header.magic == kMagic, "optimizer state file ", path,
              " is no file of optimizer states; name another, or remove it");
  const bool fits = header.parameters >= 0 && header.parameters < there &&
                    layout_bytes(header.parameters) <= there;
  const PageBuffer all(fits ? layout_bytes(header.parameters) : kPage);
  if (fits) file_.read(0, all.data(), all.bytes());
  TORCH_CHECK(fits && get_record<FileHeader>(all.data(), all.bytes()), "optimizer state file ",
              path, " is damaged: its header has a wrong checksum; remove it and start anew");
  parameters_.resize(static_cast<size_t>(header.parameters));
  std::memcpy(parameters_.data(), all.data() + sizeof(header),
              parameters_.size() * sizeof(ParameterKind));
  elements_ = header.elements;
  sections_ = static_cast<int>(header.sections);
  TORCH_CHECK_VALUE(parameters_.size() == expected.size(), "optimizer state file ", path, " is of ",
                    parameters_.size(), " parameters, and ", expected.size(),
                    " were given; name another file for this model");
  for (size_t i = 0; i < expected.size(); ++i)
    TORCH_CHECK_VALUE(parameters_[i] == expected[i], "optimizer state file ", path,
                      ": its parameter ", i, " has ", parameters_[i].size, " elements of ",
                      static_cast<c10::ScalarType>(parameters_[i].dtype), ", the one given has ",
                      expected[i].size, " of ", static_cast<c10::ScalarType>(expected[i].dtype),
                      "; name another file for this model");
  TORCH_CHECK_VALUE(sections_ == sections, "optimizer state file ", path, " was made ",
                    sections_ == kMaxSections ? "with" : "without",
                    " the parameters; set keep_parameters to match, or name another file");
}

void StateFile::choose_step(int64_t at_step) {
  const std::string& path = file_.path();
  const PageBuffer pages(2 * kPage);
  file_.read(layout_bytes_, pages.data(), pages.bytes());
  std::vector<CommitRecord> records;  // the newest first
  for (int64_t page = 0; page < 2; ++page)
    if (const auto record =
            get_record<CommitRecord>(pages.data() + page * kPage, sizeof(CommitRecord)))
      records.push_back(*record);
  TORCH_CHECK(!records.empty(), "optimizer state file ", path,
              " is damaged: it has no valid commit record; remove it and start anew");
  std::ranges::sort(records, std::greater(), &CommitRecord::sequence);
  sequence_ = records.front().sequence;
  committed_ = records.front().step;
  const auto chosen =
      at_step < 0 ? records.begin() : std::ranges::find(records, at_step, &CommitRecord::step);
  TORCH_CHECK_VALUE(chosen != records.end(), "optimizer state file ", path, " holds step ",
                    committed_, " and not step ", at_step, ", which at_step asks for");
  const Slots found = slots_at(chosen->step);
  TORCH_CHECK(chosen->steps == checksum(found.steps.data(), found.steps.size() * sizeof(int64_t)),
              "optimizer state file ", path, " is damaged: the header of a group's slot of step ",
              chosen->step, " is lost; open it with at_step = ", chosen->step - 1,
              ", or remove it and start anew");
  newest_ = found.slots;
  steps_ = found.steps;
  // Another step is given up before any of it is erased: killed in between, the file holds this.
  if (chosen->step != committed_) commit(chosen->step, true);
  roll_back();
}

int64_t StateFile::committed() const {
  const std::scoped_lock lock(mutex_);
  return committed_;
}

bool StateFile::is_intact(int64_t group, int slot) const {
  const Group& g = groups_[group];
  const PageBuffer buffer(g.slot_bytes(sections_));
  file_.read(slot_offset(group, slot), buffer.data(), buffer.bytes());
  const auto header = slot_header(buffer.data(), group, pieces_of(g));
  if (!header) return false;
  for (int s = 0; s < sections_; ++s)
    if (section_checksum(buffer.data(), g, s) != header->sections[s]) return false;
  return true;
}

void StateFile::say_corrupt(int64_t group, int64_t step, const std::string& what) const {
  const Group& g = groups_[group];
  std::string other = "remove the file and start anew";
  for (int slot = 0; slot < 2; ++slot) {
    const PageBuffer buffer(g.header_bytes);
    file_.read(slot_offset(group, slot), buffer.data(), buffer.bytes());
    const auto header = slot_header(buffer.data(), group, pieces_of(g));
    if (header && header->step < step && is_intact(group, slot))
      other = "this group's step " + std::to_string(header->step) +
              " is intact: open it with at_step = " + std::to_string(header->step);
  }
  TORCH_CHECK(false, "optimizer state file ", file_.path(), " is damaged: group ", group,
              " (parameters ", g.pieces.front().parameter, " to ", g.pieces.back().parameter,
              ") of step ", step, " ", what, "; ", other);
}

StateFile::Slots StateFile::slots_at(int64_t step) const {
  Slots found{std::vector<int>(groups_.size()), std::vector<int64_t>(groups_.size())};
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    const PageBuffer buffer(groups_[g].header_bytes);
    int64_t best = -1;
    for (int slot = 0; slot < 2; ++slot) {
      file_.read(slot_offset(group, slot), buffer.data(), buffer.bytes());
      const auto header = slot_header(buffer.data(), group, pieces_of(groups_[g]));
      if (!header || header->step > step || header->step <= best) continue;
      best = header->step;
      found.slots[g] = slot;
    }
    if (best < 0) say_corrupt(group, step, "has no valid header");
    found.steps[g] = best;
  }
  return found;
}

void StateFile::roll_back() {
  Slots found = slots_at(committed_);
  // A later step's slot is erased, since the next run may write other groups at that step.
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    const PageBuffer buffer(groups_[g].header_bytes);
    const int64_t other = slot_offset(group, 1 - found.slots[g]);
    file_.read(other, buffer.data(), buffer.bytes());
    const auto header = slot_header(buffer.data(), group, pieces_of(groups_[g]));
    if (!header || header->step <= committed_) continue;
    std::memset(buffer.data(), 0, static_cast<size_t>(buffer.bytes()));
    file_.write(other, buffer.data(), buffer.bytes());
  }
  const std::scoped_lock lock(mutex_);
  newest_ = std::move(found.slots);
  steps_ = std::move(found.steps);
}

void StateFile::read(int64_t group, std::byte* buffer, int sections) const {
  const Group& g = groups_[group];
  int slot = 0;
  {
    const std::scoped_lock lock(mutex_);
    slot = newest_[group];
  }
  file_.read(slot_offset(group, slot), buffer, g.slot_bytes(sections));
  const auto header = slot_header(buffer, group, pieces_of(g));
  if (!header) say_corrupt(group, committed(), "has no valid header");
  static constexpr std::array<const char*, kMaxSections> kNames = {"exp_avg", "exp_avg_sq",
                                                                   "parameters"};
  for (int s = 0; s < sections; ++s)
    if (section_checksum(buffer, g, s) != header->sections[s])
      say_corrupt(group, header->step, std::string("has a wrong checksum of ") + kNames[s]);
}

void StateFile::write(int64_t group, std::byte* buffer, int64_t step) {
  const Group& g = groups_[group];
  SlotHeader header{.group = group, .step = step, .pieces = pieces_of(g)};
  for (int s = 0; s < sections_; ++s) header.sections[s] = section_checksum(buffer, g, s);
  put_record(header, buffer, slot_header_bytes(pieces_of(g)));
  int slot = 0;
  {
    const std::scoped_lock lock(mutex_);
    slot = 1 - newest_[group];
  }
  file_.write(slot_offset(group, slot), buffer, g.slot_bytes(sections_));
  const std::scoped_lock lock(mutex_);
  newest_[group] = slot;
  steps_[group] = step;
}

void StateFile::commit(int64_t step, bool sync) {
  if (sync) file_.sync();
  const PageBuffer page(kPage);
  const int64_t sequence = sequence_ + 1;
  put_record(CommitRecord{.sequence = sequence,
                          .step = step,
                          .steps = checksum(steps_.data(), steps_.size() * sizeof(int64_t))},
             page.data(), sizeof(CommitRecord));
  file_.write(layout_bytes_ + sequence % 2 * kPage, page.data(), kPage);
  if (sync) file_.sync();
  const std::scoped_lock lock(mutex_);
  sequence_ = sequence;
  committed_ = step;
}

}  // namespace graft::systems::states
