// SPDX-License-Identifier: MIT
#include "ipc_handle.hpp"

namespace transcript {
namespace {

template <class Handle>
std::string text_of(const Handle& handle) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (char byte : handle.reserved) {
    text += digits[(static_cast<unsigned char>(byte) >> 4) & 15];
    text += digits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

template <class Handle>
Handle handle_in(const std::string& text) {
  Handle handle{};
  for (std::size_t i = 0; i < sizeof handle.reserved && 2 * i + 1 < text.size(); ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return handle;
}

} // namespace

std::string to_hex(const CUipcEventHandle& handle) { return text_of(handle); }
std::string to_hex(const CUipcMemHandle& handle) { return text_of(handle); }

CUipcEventHandle from_hex(const std::string& text) { return handle_in<CUipcEventHandle>(text); }
CUipcMemHandle memory_from_hex(const std::string& text) { return handle_in<CUipcMemHandle>(text); }

CUipcEventHandle handle_of(Lab& lab, CUevent event) {
  CUipcEventHandle handle{};
  lab.must(lab.cu.IpcGetEventHandle(&handle, event), "cuIpcGetEventHandle");
  return handle;
}

CUipcMemHandle handle_of(Lab& lab, CUdeviceptr allocated) {
  CUipcMemHandle handle{};
  lab.must(lab.cu.IpcGetMemHandle(&handle, allocated), "cuIpcGetMemHandle");
  return handle;
}

} // namespace transcript
