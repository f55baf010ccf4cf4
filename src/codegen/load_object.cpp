// Object files into memory, without a linker: all that kernels need of one.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>

#include "codegen/backend.h"

namespace graft::codegen {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("graft: cannot link a kernel: " + what);
}

/// Memory that is written, then run, and never both at once.
class Image {
 public:
  explicit Image(size_t bytes) : bytes_(bytes) {
    void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) fail(std::string("no memory: ") + std::strerror(errno));
    base_ = static_cast<char*>(made);
  }
  ~Image() { munmap(base_, bytes_); }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  char* base() const { return base_; }
  void seal() {
    if (mprotect(base_, bytes_, PROT_READ | PROT_EXEC) != 0)
      fail(std::string("the system lets no code be made: ") + std::strerror(errno));
  }

 private:
  char* base_;
  size_t bytes_;
};

/// A relocatable ELF file for x86-64, whose every offset is checked.
class ObjectFile {
 public:
  explicit ObjectFile(const std::string& bytes) : bytes_(bytes) {
    const auto header = at<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_type != ET_REL || header.e_machine != EM_X86_64 ||
        header.e_shentsize != sizeof(Elf64_Shdr))
      fail("it is no object file for x86-64");
    for (size_t k = 0; k < header.e_shnum; ++k)
      sections.push_back(at<Elf64_Shdr>(header.e_shoff + k * sizeof(Elf64_Shdr)));
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type != SHT_NOBITS) check(section.sh_offset, section.sh_size);
      if (section.sh_type != SHT_SYMTAB) continue;
      symbols = all<Elf64_Sym>(section);
      symbol_names_ = section.sh_link;
    }
    section_names_ = header.e_shstrndx;
  }

  template <class T>
  std::vector<T> all(const Elf64_Shdr& section) const {
    std::vector<T> found(section.sh_size / sizeof(T));
    std::memcpy(found.data(), bytes_.data() + section.sh_offset, found.size() * sizeof(T));
    return found;
  }
  const char* content(const Elf64_Shdr& section) const { return bytes_.data() + section.sh_offset; }
  std::string name(const Elf64_Sym& symbol) const { return text(symbol_names_, symbol.st_name); }
  std::string name(const Elf64_Shdr& section) const {
    return text(section_names_, section.sh_name);
  }

  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;

 private:
  void check(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) fail("it is cut off");
  }
  template <class T>
  T at(uint64_t offset) const {
    check(offset, sizeof(T));
    T found;
    std::memcpy(&found, bytes_.data() + offset, sizeof(T));
    return found;
  }

  std::string text(size_t section, size_t offset) const {
    if (section >= sections.size() || sections[section].sh_type != SHT_STRTAB ||
        offset >= sections[section].sh_size)
      fail("a name is outside of the file");
    const char* first = content(sections[section]) + offset;
    return {first, strnlen(first, sections[section].sh_size - offset)};
  }

  const std::string& bytes_;
  size_t section_names_ = 0, symbol_names_ = 0;
};

/// Through the address of a symbol, which lies beside the code.
bool is_through_slot(uint32_t type) {
  return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
}

class Linker {
 public:
  explicit Linker(const Code& code) : object_(code.bytes) {
    for (const std::string& symbol : code.symbols) {
      void* address = find_symbol(symbol);
      if (address == nullptr)
        throw std::runtime_error("graft: this libtorch has no routine " + symbol);
      routines_[kRoutinePrefix + symbol] = address;
    }
    lay_out();
    image_ = std::make_shared<Image>(bytes_);
    for (size_t k = 0; k < object_.sections.size(); ++k)
      if (const Elf64_Shdr& section = object_.sections[k];
          place_[k] != kNowhere && section.sh_type == SHT_PROGBITS)
        std::memcpy(image_->base() + place_[k], object_.content(section), section.sh_size);
    for (const auto& [symbol, at] : slots_) fill_slot(symbol, at);
    each_relocation([&](const Elf64_Shdr& section, const Elf64_Rela& relocation) {
      apply(section, relocation);
    });
    image_->seal();
  }

  KernelFn function(const std::string& name) const {
    for (size_t s = 0; s < object_.symbols.size(); ++s)
      if (object_.symbols[s].st_shndx != SHN_UNDEF && object_.name(object_.symbols[s]) == name)
        return reinterpret_cast<KernelFn>(address(s));
    fail("it has no function " + name);
  }
  std::shared_ptr<void> image() const { return image_; }

 private:
  /// Whatever lies in the image is reached from there by 32 bits.
  static constexpr size_t kMostBytes = size_t{1} << 30;
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
  /// A jump through an address, and the address: `jmp *2(%rip)`, two bytes of nothing, 8 bytes.
  static constexpr size_t kSlotBytes = 16, kAddressAt = 8;
  static constexpr unsigned char kJump[kAddressAt] = {0xff, 0x25, 2, 0, 0, 0, 0x66, 0x90};

  /// Nobody unwinds a kernel.
  bool is_loaded(size_t section) const {
    const Elf64_Shdr& header = object_.sections[section];
    return (header.sh_flags & SHF_ALLOC) != 0 &&
           (header.sh_type == SHT_PROGBITS || header.sh_type == SHT_NOBITS) &&
           object_.name(header) != ".eh_frame";
  }

  void lay_out() {
    place_.assign(object_.sections.size(), kNowhere);
    for (size_t k = 0; k < object_.sections.size(); ++k) {
      if (!is_loaded(k)) continue;
      const Elf64_Shdr& section = object_.sections[k];
      if ((section.sh_flags & (SHF_WRITE | SHF_TLS)) != 0) fail("it has memory of its own");
      align(std::max<uint64_t>(section.sh_addralign, 1));
      place_[k] = bytes_;
      bytes_ += section.sh_size;
      if (section.sh_size > kMostBytes || bytes_ > kMostBytes) fail("it is too large");
    }
    align(kSlotBytes);
    each_relocation([&](const Elf64_Shdr&, const Elf64_Rela& relocation) {
      const auto symbol = symbol_of(relocation);
      if (object_.symbols[symbol].st_shndx != SHN_UNDEF &&
          !is_through_slot(ELF64_R_TYPE(relocation.r_info)))
        return;
      if (slots_.emplace(symbol, bytes_).second) bytes_ += kSlotBytes;
    });
    align(static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
    if (bytes_ == 0) fail("it is empty");
  }

  void align(uint64_t to) {
    if ((to & (to - 1)) != 0 || to > 4096) fail("it wants to lie at multiples of a strange number");
    bytes_ = (bytes_ + to - 1) / to * to;
  }

  template <class Each>
  void each_relocation(Each each) const {
    for (const Elf64_Shdr& section : object_.sections) {
      if (section.sh_type == SHT_REL) fail("its relocations are of another kind");
      if (section.sh_type != SHT_RELA) continue;
      if (section.sh_info >= object_.sections.size()) fail("relocations are of no section");
      if (place_[section.sh_info] == kNowhere) continue;
      for (const Elf64_Rela& relocation : object_.all<Elf64_Rela>(section)) {
        if (symbol_of(relocation) >= object_.symbols.size()) fail("a symbol is not there");
        each(section, relocation);
      }
    }
  }
  static size_t symbol_of(const Elf64_Rela& relocation) { return ELF64_R_SYM(relocation.r_info); }

  char* address(size_t symbol) const {
    const Elf64_Sym& s = object_.symbols[symbol];
    if (s.st_shndx >= object_.sections.size() || place_[s.st_shndx] == kNowhere ||
        s.st_value > object_.sections[s.st_shndx].sh_size)
      fail("the symbol " + object_.name(s) + " lies nowhere");
    return image_->base() + place_[s.st_shndx] + s.st_value;
  }

  /// What instructions without hardware become (fma and the like) goes by its C name.
  void fill_slot(size_t symbol, size_t at) {
    void* to = nullptr;
    if (object_.symbols[symbol].st_shndx != SHN_UNDEF) {
      to = address(symbol);
    } else {
      const std::string name = object_.name(object_.symbols[symbol]);
      auto routine = routines_.find(name);
      to = routine != routines_.end() ? routine->second : dlsym(RTLD_DEFAULT, name.c_str());
      if (to == nullptr) fail("the process has no function " + name);
    }
    std::memcpy(image_->base() + at, kJump, sizeof kJump);
    std::memcpy(image_->base() + at + kAddressAt, &to, sizeof to);
  }

  void apply(const Elf64_Shdr& section, const Elf64_Rela& relocation) {
    const uint32_t type = ELF64_R_TYPE(relocation.r_info);
    const size_t bytes = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    const uint64_t size = object_.sections[section.sh_info].sh_size;
    if (size < bytes || relocation.r_offset > size - bytes) fail("a relocation is out of place");
    char* at = image_->base() + place_[section.sh_info] + relocation.r_offset;
    const auto slot = slots_.find(symbol_of(relocation));
    const char* to = slot == slots_.end()    ? address(symbol_of(relocation))
                     : is_through_slot(type) ? image_->base() + slot->second + kAddressAt
                     : object_.symbols[slot->first].st_shndx == SHN_UNDEF
                         ? image_->base() + slot->second
                         : address(slot->first);
    const auto absolute = reinterpret_cast<int64_t>(to) + relocation.r_addend;
    const int64_t relative = absolute - reinterpret_cast<int64_t>(at);
    switch (type) {
      case R_X86_64_64:
        return write(at, absolute);
      case R_X86_64_PC64:
        return write(at, relative);
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        return write(at, static_cast<int32_t>(relative));
      default:
        fail("a relocation is of kind " + std::to_string(type));
    }
  }
  template <class T>
  static void write(char* at, T value) {
    std::memcpy(at, &value, sizeof value);
  }

  ObjectFile object_;
  std::map<std::string, void*> routines_;
  std::vector<size_t> place_;       ///< by section: offset in the image
  std::map<size_t, size_t> slots_;  ///< by symbol: offset in the image
  size_t bytes_ = 0;
  std::shared_ptr<Image> image_;
};

}  // namespace

Loaded load_object(const Code& code) {
  const Linker linker(code);
  Loaded loaded;
  loaded.keep_alive = linker.image();
  for (const std::string& name : code.functions) loaded.functions.push_back(linker.function(name));
  return loaded;
}

}  // namespace graft::codegen
