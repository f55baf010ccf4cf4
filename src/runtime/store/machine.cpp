// Whose code an entry's is.
#include <ATen/Version.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <sstream>

#include "codegen/backend.h"
#include "graft/version.h"
#include "runtime/store/stored_plan.h"

namespace graft::runtime {

namespace {

/// The linker's fingerprint of a library, among these notes of its; empty without one.
std::string build_in(const char* notes, size_t bytes) {
  auto padded = [](uint64_t size) { return (size + 3) / 4 * 4; };
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes + at, sizeof note);
    const uint64_t name = at + sizeof note, text = name + padded(note.n_namesz);
    if (text + note.n_descsz > bytes) return {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
        std::memcmp(notes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0) {
      std::string found;
      for (size_t b = 0; b < note.n_descsz; ++b) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(notes[text + b]));
        found += digits;
      }
      return found;
    }
    at = text + padded(note.n_descsz);
  }
  return {};
}

/// Of the library that runs, whatever lies in its file by now.
std::string build_of_loaded(const void* function) {
  struct Search {
    uintptr_t address;
    std::string found;
  } search{reinterpret_cast<uintptr_t>(function), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        bool is_it = false;
        for (size_t k = 0; k < info->dlpi_phnum; ++k) {
          const auto& part = info->dlpi_phdr[k];
          const uintptr_t low = info->dlpi_addr + part.p_vaddr;
          is_it = is_it || (part.p_type == PT_LOAD && wanted.address >= low &&
                            wanted.address < low + part.p_memsz);
        }
        if (!is_it) return 0;
        for (size_t k = 0; k < info->dlpi_phnum && wanted.found.empty(); ++k)
          if (const auto& part = info->dlpi_phdr[k]; part.p_type == PT_NOTE)
            wanted.found = build_in(reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr),
                                    part.p_memsz);
        return 1;
      },
      &search);
  return search.found;
}

/// Of a library that is not loaded yet.
std::string build_of_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string found;
  auto get = [&](void* to, size_t bytes, uint64_t offset) {
    return pread(fd, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  };
  Elf64_Ehdr header;
  if (get(&header, sizeof header, 0) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0)
    for (size_t k = 0; k < header.e_phnum && found.empty(); ++k) {
      Elf64_Phdr part;
      if (!get(&part, sizeof part, header.e_phoff + k * sizeof part)) break;
      constexpr size_t kMost = 4096;
      if (part.p_type != PT_NOTE || part.p_filesz > kMost) continue;
      std::string notes(part.p_filesz, '\0');
      if (get(notes.data(), notes.size(), part.p_offset))
        found = build_in(notes.data(), notes.size());
    }
  close(fd);
  return found;
}

/// What stays the same for as long as the process runs; empty where a build is not known.
std::string libraries_text() {
  const auto* graft = reinterpret_cast<const void*>(&build_of_file);
  const auto* torch =
      reinterpret_cast<const void*>(static_cast<std::string (*)()>(&at::get_cpu_capability));
  const std::string ours = build_of_loaded(graft), theirs = build_of_loaded(torch),
                    generator = build_of_file(codegen::module_path());
  if (ours.empty() || theirs.empty() || generator.empty()) return {};
  return "graft " GRAFT_VERSION ", build " + ours + "\ncode generator " GRAFT_LLVM ", build " +
         generator + "\nlibtorch " TORCH_VERSION ", build " + theirs + "\n";
}

}  // namespace

std::string machine_text(const ir::Target& target) {
  static const auto* libraries = new std::string(libraries_text());
  if (libraries->empty()) return {};
  std::string text = *libraries;
  text += "processor " + target.code_key();
  text += "\nits caches " + std::to_string(target.first_cache_bytes) + ", " +
          std::to_string(target.second_cache_bytes) + ", " +
          std::to_string(target.last_cache_bytes) + " bytes";
  text += "\nbfloat16 " + std::string(target.bfloat16_instructions ? "yes" : "no");
  text += "\nhalf precision " + std::string(target.half_instructions ? "yes" : "no");
  for (ScalarType type : target.lacks) text += std::string("\nlacks ") + short_name(type);
  return text + "\n";
}

std::string difference_of_machines(const std::string& there, const std::string& here) {
  std::istringstream theirs(there), ours(here);
  std::string a, b;
  while (true) {
    const bool more_there = !!std::getline(theirs, a), more_here = !!std::getline(ours, b);
    if (!more_there && !more_here) return {};
    if (!more_there) a = "nothing";
    if (!more_here) b = "nothing";
    if (a != b) return "\"" + a + "\" there, \"" + b + "\" here";
  }
}

}  // namespace graft::runtime
