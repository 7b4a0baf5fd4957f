// SPDX-License-Identifier: MIT
// A tool for NVTX, which NVTX loads because NVTX_INJECTION64_PATH names it. It writes down what is called, a
// line for each call: "begin 1 copy in cuevent".
#include <nvtx3/nvToolsExt.h>

#include <deque>
#include <string>
#include <utility>

namespace {

std::string lines;
std::deque<std::string> names; // what handles of domains and strings point to
nvtxRangeId_t ranges = 0;

template <class Handle>
Handle handle_of(const char* name) {
  return reinterpret_cast<Handle>(&names.emplace_back(name));
}

const std::string& name_of(const void* handle) { return *static_cast<const std::string*>(handle); }

nvtxDomainHandle_t create_domain(const char* name) { return handle_of<nvtxDomainHandle_t>(name); }

nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* name) {
  return handle_of<nvtxStringHandle_t>(name);
}

nvtxRangeId_t begin(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const bool registered = attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  lines += "begin " + std::to_string(++ranges) + " " +
           (registered ? name_of(attributes->message.registered) : "without a name") + " in " +
           name_of(domain) + "\n";
  return ranges;
}

void end(nvtxDomainHandle_t, nvtxRangeId_t range) { lines += "end " + std::to_string(range) + "\n"; }

template <class Function>
void install(NvtxFunctionTable table, int id, Function function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

} // namespace

/// The lines since the last call. The text is valid until the next one.
extern "C" __attribute__((visibility("default"))) const char* nvtx_tool_lines() {
  static std::string taken;
  taken = std::move(lines);
  lines.clear();
  return taken.c_str();
}

extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  install(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  install(table, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  install(table, NVTX_CBID_CORE2_DomainRangeStartEx, begin);
  install(table, NVTX_CBID_CORE2_DomainRangeEnd, end);
  return 1;
}
