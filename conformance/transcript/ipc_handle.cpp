// SPDX-License-Identifier: MIT
#include "ipc_handle.hpp"

namespace transcript {

std::string to_hex(const CUipcEventHandle& handle) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (char byte : handle.reserved) {
    text += digits[(static_cast<unsigned char>(byte) >> 4) & 15];
    text += digits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

CUipcEventHandle from_hex(const std::string& text) {
  CUipcEventHandle handle{};
  for (std::size_t i = 0; i < sizeof handle.reserved && 2 * i + 1 < text.size(); ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return handle;
}

CUipcEventHandle handle_of(Lab& lab, CUevent event) {
  CUipcEventHandle handle{};
  lab.must(lab.cu.IpcGetEventHandle(&handle, event), "cuIpcGetEventHandle");
  return handle;
}

} // namespace transcript
