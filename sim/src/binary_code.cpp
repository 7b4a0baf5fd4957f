// SPDX-License-Identifier: MIT
#include "binary_code.hpp"

#include "decompression.hpp"
#include "elf_image.hpp"
#include "refusal.hpp"

#include <optional>

namespace cuevent::sim {

namespace {

using namespace std::string_view_literals;

constexpr auto elf_magic = "\x7f"
                           "ELF"sv;
constexpr auto fat_magic = "\x50\xed\x55\xba"sv, wrapper_magic = "\xb1\x43\x62\x46"sv;
constexpr int architecture = 90;

/// One file in a fat binary.
struct Entry {
  enum Kind : std::uint16_t { ptx = 1, elf = 2 };
  std::uint16_t kind, version;
  std::uint32_t header_size;
  std::uint64_t size; ///< as stored
  std::uint32_t compressed_size, options;
  std::uint16_t minor, major; ///< of the format
  std::uint32_t target;
  std::uint32_t name, name_size;
  std::uint64_t flags;
  std::uint64_t reserved;
  std::uint64_t full_size; ///< of compressed code
};
static_assert(sizeof(Entry) == 64);
constexpr std::uint64_t with_lz4 = 0x2000, with_zstd = 0x8000;

struct Found {
  Entry entry;
  std::uint64_t offset; ///< of the code
};

bool runs_here(int target) { return target / 10 == architecture / 10 && target <= architecture; }

/// Binary code for this device comes before PTX, and newer code before older.
bool better(const Entry& entry, const std::optional<Found>& than) {
  const int target = static_cast<int>(entry.target & 0xffffU);
  if (entry.kind == Entry::elf ? !runs_here(target) : entry.kind != Entry::ptx || target > architecture)
    return false;
  if (!than) return true;
  if (entry.kind != than->entry.kind) return entry.kind == Entry::elf;
  return entry.target > than->entry.target;
}

std::string code_of(const Bytes& bytes, const Found& found) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  const Entry& entry = found.entry;
  if ((entry.flags & (with_lz4 | with_zstd)) == 0) return bytes.read(found.offset, entry.size);
  damaged_if(entry.full_size > most || entry.compressed_size > entry.size);
  const std::string compressed = bytes.read(found.offset, entry.compressed_size);
  const auto decompress = (entry.flags & with_lz4) != 0 ? decompress_lz4 : decompress_zstd;
  return decompress(compressed, static_cast<std::size_t>(entry.full_size));
}

CodeImage read_file(const Bytes& bytes) {
  constexpr std::uint64_t place_of_class = 4, place_of_os_abi = 7;
  refuse_if(bytes.value<unsigned char>(place_of_class) == 1, CUDA_ERROR_UNKNOWN); // of 32 bits
  ElfImage elf = read_elf(bytes);
  refuse_if(elf.target == 0, CUDA_ERROR_UNKNOWN);
  refuse_if(!runs_here(elf.target) || bytes.value<unsigned char>(place_of_os_abi) == 0,
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  return std::move(elf.code);
}

struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version, header_size;
  std::uint64_t size; ///< behind the header
};

FatHeader fat_header(const Bytes& bytes) {
  const auto header = bytes.value<FatHeader>(0);
  damaged_if(header.version != 1);
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  refuse_if(header.size > most, CUDA_ERROR_NO_BINARY_FOR_GPU);
  return header;
}

CodeImage read_fat_binary(const Bytes& bytes) {
  const FatHeader header = fat_header(bytes);
  std::optional<Found> best;
  for (std::uint64_t at = header.header_size, end = at + header.size; at < end;) {
    const auto entry = bytes.value<Entry>(at);
    damaged_if(entry.header_size < sizeof(Entry) || entry.size > end - at);
    if (better(entry, best)) best = {entry, at + entry.header_size};
    at += entry.header_size + entry.size;
  }
  refuse_if(!best, CUDA_ERROR_NO_BINARY_FOR_GPU);
  const std::string code = code_of(bytes, *best);
  if (best->entry.kind == Entry::elf) return read_file(Bytes(std::string_view(code)));
  return read_ptx(code.c_str()); // text ends at its null
}

CodeImage read(const Bytes& bytes, bool wrapped) {
  const std::string magic = bytes.read(0, 4);
  if (magic == elf_magic) return read_file(bytes);
  if (magic == fat_magic) return read_fat_binary(bytes);
  damaged_if(magic != wrapper_magic || wrapped);
  return read(Bytes(bytes.value<const void*>(8)), true);
}

} // namespace

bool is_binary(std::string_view image) {
  for (const auto magic : {elf_magic, fat_magic, wrapper_magic})
    if (image.starts_with(magic)) return true;
  return false;
}

/// A device crashes if a table lies outside of the bytes.
CUresult read_binary(const Bytes& bytes, CodeImage& code) {
  try {
    code = read(bytes, false);
    return CUDA_SUCCESS;
  } catch (const Damaged&) {
    return CUDA_ERROR_INVALID_IMAGE;
  } catch (const Refusal& refusal) {
    return refusal.result;
  }
}

std::vector<CodeImage> read_object(std::string_view object) {
  const Bytes bytes(object);
  std::vector<CodeImage> all;
  if (elf_is_for_a_device(bytes)) {
    all.push_back(read_file(bytes));
    return all;
  }
  const std::string fat = section_of(bytes, "__nv_relfatbin");
  for (std::uint64_t at = 0; at + sizeof(FatHeader) <= fat.size();) {
    const std::string_view here = std::string_view(fat).substr(at);
    damaged_if(!here.starts_with(fat_magic));
    const Bytes rest(here);
    all.push_back(read_fat_binary(rest));
    const FatHeader header = fat_header(rest);
    constexpr std::uint64_t alignment = 8;
    at += (header.header_size + header.size + alignment - 1) / alignment * alignment;
  }
  return all;
}

bool has_sections(const Bytes& bytes) {
  try {
    return bytes.read(0, 4) != elf_magic || elf_has_sections(bytes);
  } catch (const Damaged&) {
    return false;
  }
}

} // namespace cuevent::sim
