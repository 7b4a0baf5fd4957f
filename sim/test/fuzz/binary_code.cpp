// SPDX-License-Identifier: MIT
// Cubins, fat binaries, and objects and libraries of the host, from any bytes. The corpus has those of
// CUDA 12.1 and 13.0: small_binary.cu.
#include "require.hpp"

#include "archive.hpp"
#include "binary_code.hpp"
#include "elf_image.hpp"
#include "refusal.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

using fuzz::require;
using namespace cuevent::sim;

namespace {

/// The linker writes what it has read.
void comes_back(const CodeImage& code) {
  std::size_t bytes = 0;
  for (const auto& [name, variable] : code.variables)
    if (variable.bytes > (std::size_t{1} << 20) || (bytes += variable.bytes) > (std::size_t{1} << 24)) return;
  ElfImage elf;
  elf.code = code;
  elf.target = 90;
  const std::string file = write_elf(elf);
  const CodeImage again = read_elf(Bytes(std::string_view(file))).code;
  require(again.kernels.size() == code.kernels.size() && again.variables.size() == code.variables.size(),
          "nothing is lost");
  for (const auto& [name, kernel] : code.kernels) {
    const KernelCode& other = again.kernels.at(name);
    require(other.parameters.size() == kernel.parameters.size() && other.shared == kernel.shared &&
                other.most_threads == kernel.most_threads,
            "a kernel comes back");
  }
  for (const auto& [name, variable] : code.variables)
    require(again.variables.at(name).bytes == variable.bytes, "a variable comes back");
}

/// As the linker reads them.
void read_object_or_library(std::string_view bytes) {
  try {
    if (!is_archive(bytes)) read_object(bytes);
    if (is_archive(bytes))
      for (const std::string_view member : members_of(bytes))
        read_object(member);
  } catch (const Damaged&) {
  } catch (const Refusal&) {
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_object_or_library(bytes);
  CodeImage code;
  if (read_binary(Bytes(bytes), code) != CUDA_SUCCESS) return 0;
  require(code.order.size() == code.kernels.size(), "each kernel has its place");
  for (const auto& [name, kernel] : code.kernels)
    require(kernel.most_threads >= 0 && kernel.parameters.size() <= 65'536, "the limits hold");
  comes_back(code);
  return 0;
}
