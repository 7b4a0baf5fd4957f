// SPDX-License-Identifier: MIT
// The driver's linker. It puts the kernels and variables of its inputs into one file. There is no compiler,
// so it finds no mistake in instructions.
//
// Not measured: code.linker_neighbours

#include "api.hpp"
#include "binary_code.hpp"
#include "elf_image.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace cuevent::sim {

struct Link : Object {
  CodeImage code;
  std::string result; ///< of cuLinkComplete
};

std::shared_ptr<Link> Api::link(CUlinkState state) { return find<Link>(state, Kind::link); }

CUresult Api::cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* out) {
  const auto home = current_context();
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUlinkState>(*make<Link>(Kind::link, home.get()));
  return CUDA_SUCCESS;
}

CUresult Api::add_to_link(CUlinkState state, CUjitInputType type, const void* data, std::size_t size) {
  const auto into = link(state);
  refuse_if(data == nullptr, CUDA_ERROR_INVALID_VALUE);
  const std::string_view input(static_cast<const char*>(data), size);
  CodeImage code;
  switch (type) {
  case CU_JIT_INPUT_PTX:
    code = checked_ptx(input);
    break;
  case CU_JIT_INPUT_CUBIN:
  case CU_JIT_INPUT_OBJECT:
  case CU_JIT_INPUT_FATBINARY:
    refuse_if(!is_binary(input), CUDA_ERROR_INVALID_IMAGE);
    code = read_binary(Bytes(input));
    break;
  case CU_JIT_INPUT_LIBRARY:
    not_modelled("a library for the linker");
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  into->code.kernels.merge(code.kernels);
  into->code.variables.merge(code.variables);
  into->code.target = std::max(into->code.target, code.target);
  return CUDA_SUCCESS;
}

CUresult Api::cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char*,
                               unsigned, CUjit_option*, void**) {
  return add_to_link(state, type, data, size);
}

CUresult Api::cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned,
                               CUjit_option*, void**) {
  const std::string file = contents(path);
  return add_to_link(state, type, file.data(), file.size());
}

/// The file lives as long as the link state.
CUresult Api::cuLinkComplete(CUlinkState state, void** out, size_t* size) {
  const auto from = link(state);
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  ElfImage elf;
  elf.code = from->code;
  elf.target = 90;
  from->result = write_elf(elf);
  *out = from->result.data();
  if (size != nullptr) *size = from->result.size();
  return CUDA_SUCCESS;
}

CUresult Api::cuLinkDestroy(CUlinkState state) {
  const auto gone = link(state);
  computer_.handles.remove(*gone, ending());
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
