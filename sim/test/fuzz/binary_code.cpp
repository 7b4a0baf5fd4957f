// SPDX-License-Identifier: MIT
// Cubins and fat binaries, from any bytes. The corpus has those of CUDA 12.1 and 13.0: small_binary.cu.
#include "require.hpp"

#include "binary_code.hpp"
#include "elf_image.hpp"

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

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CodeImage code;
  if (read_binary(Bytes(bytes), code) != CUDA_SUCCESS) return 0;
  require(code.order.size() == code.kernels.size(), "each kernel has its place");
  for (const auto& [name, kernel] : code.kernels)
    require(kernel.most_threads >= 0 && kernel.parameters.size() <= 65'536, "the limits hold");
  comes_back(code);
  return 0;
}
