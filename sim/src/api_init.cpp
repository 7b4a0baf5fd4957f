// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "device_attributes.hpp"
#include "device_identity.hpp"
#include "driver_table.hpp"
#include "visible_devices.hpp"

#include "../../environment/unknown_variables.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <strings.h>
#include <utility>

namespace cuevent::sim {

CUresult Api::cuInit(unsigned int flags) {
  refuse_if(process_.deinitialized, CUDA_ERROR_DEINITIALIZED);
  refuse_if(process_.forked, CUDA_ERROR_NOT_INITIALIZED);
  refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE);
  if (Computer::reads_environment && !computer_.visible) see_devices();
  refuse_if(computer_.devices() == 0, CUDA_ERROR_NO_DEVICE);
  process_.initialized = true;
  computer_.register_exit_handlers();
  return CUDA_SUCCESS;
}

namespace {

[[noreturn]] void value_not_modelled(const char* variable, const char* value, const char* advice) {
  environment::Text shown;
  shown.add(value);
  not_modelled(std::string(variable) + '=' + shown.get() + ": " + advice);
}

/// The devices are in one order, by their buses, and one is as fast as the other.
bool is_order(const char* value) {
  constexpr const char* orders[] = {"PCI_BUS_ID", "FASTEST_FIRST"};
  if (std::ranges::any_of(orders, [&](const char* order) { return std::strcmp(order, value) == 0; }))
    return true;
  if (*value == '\0' ||
      std::ranges::any_of(orders, [&](auto* order) { return strcasecmp(order, value) == 0; }))
    value_not_modelled("CUDA_DEVICE_ORDER", value, "write PCI_BUS_ID or FASTEST_FIRST");
  return false;
}

} // namespace

/// Programs set the variables before they first use the driver, which may be long after it was loaded.
void Api::see_devices() {
  const char* const order = std::getenv("CUDA_DEVICE_ORDER");
  refuse_if(order != nullptr && !is_order(order), CUDA_ERROR_INVALID_DEVICE);
  const char* const value = std::getenv("CUDA_VISIBLE_DEVICES");
  if (value == nullptr) return;
  auto [meaning, numbers] = visible_devices(value, computer_.options.devices);
  if (meaning == Visibility::unknown)
    value_not_modelled("CUDA_VISIBLE_DEVICES", value, "write each device as its index or as its whole UUID");
  refuse_if(meaning == Visibility::twice, CUDA_ERROR_INVALID_DEVICE);
  computer_.visible = std::move(numbers);
}

CUresult Api::cuDriverGetVersion(int* version) {
  refuse_if(version == nullptr, CUDA_ERROR_INVALID_VALUE);
  *version = computer_.options.driver_version;
  return CUDA_SUCCESS;
}

namespace {

struct ResultText {
  CUresult result;
  const char* name;
  const char* text;
};

constexpr ResultText result_texts[] = {
#define RESULT(name, text) {name, #name, text},
#include "results.inc"
#undef RESULT
};

const ResultText& text_of(CUresult result) {
  for (const ResultText& row : result_texts)
    if (row.result == result) return row;
  refuse(CUDA_ERROR_INVALID_VALUE);
}

} // namespace

CUresult Api::cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) crash("there is no place for the name");
  *text = nullptr;
  refuse_if(process_.deinitialized, CUDA_ERROR_DEINITIALIZED);
  *text = text_of(error).name;
  return CUDA_SUCCESS;
}

CUresult Api::cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) crash("there is no place for the text");
  *text = nullptr;
  refuse_if(process_.deinitialized, CUDA_ERROR_DEINITIALIZED);
  *text = text_of(error).text;
  return CUDA_SUCCESS;
}

namespace {

long long clock_now() { return cuevent::sim::now().count(); }

void pause_for(long long nanoseconds) { cuevent::sim::advance(Nanoseconds(nanoseconds)); }

/// What a test can look up in addition to the driver's functions.
void* extra_entry(std::string_view name, const Process& process, bool running) {
  if (name == "cueventOtherProcess") return reinterpret_cast<void*>(get_proc_address_of(1 - process.index));
  if (running) return nullptr;
  if (name == "cueventClockNow") return reinterpret_cast<void*>(&clock_now);
  if (name == "cueventPause") return reinterpret_cast<void*>(&pause_for);
  return nullptr;
}

} // namespace

CUresult Api::cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t known =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if ((flags & ~known) != 0) {
    char text[64];
    std::snprintf(text, sizeof text, "Invalid flags: 0x%llx", static_cast<unsigned long long>(flags));
    refuse(CUDA_ERROR_INVALID_VALUE, reasons::made(text));
  }
  refuse_if(version > computer_.options.driver_version, CUDA_ERROR_INVALID_VALUE);
  if (symbol == nullptr || function == nullptr) crash("the name, or the place for the address, is null");
  *function = nullptr;
  if (void* const extra = extra_entry(symbol, process_, computer_.running())) {
    *function = extra;
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  const auto process = static_cast<std::size_t>(process_.index);
  bool known_name = false;
  int newest = 0;
  for (const TableRow& row : driver_table()) {
    if (std::strcmp(row.name, symbol) != 0 || row.version > computer_.options.driver_version) continue;
    known_name = true;
    if (row.version > version || row.version < newest) continue;
    newest = row.version;
    const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 &&
                            row.thread_version != 0 && row.thread_version <= version;
    *function = per_thread ? row.thread_functions[process] : row.functions[process];
  }
  const auto rows = unmodelled_table();
  const auto has_name = [&](const UnmodelledRow& row) {
    return std::strcmp(row.name, symbol) == 0 && row.version <= computer_.options.driver_version;
  };
  // A variant for per-thread default streams is never replaced by the other one.
  const bool per_thread =
      (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 &&
      std::ranges::any_of(rows, [&](const auto& row) { return row.per_thread && has_name(row); });
  const bool missing = computer_.options.unmodelled == Unmodelled::missing;
  for (const UnmodelledRow& row : rows) {
    if (!has_name(row)) continue;
    known_name = known_name || !missing;
    if (row.per_thread != per_thread || row.version > version || row.version <= newest) continue;
    if (missing) {
      computer_.report.add_question(symbol);
      break;
    }
    newest = row.version;
    *function = row.function;
  }
  if (status != nullptr) {
    *status = newest != 0  ? CU_GET_PROC_ADDRESS_SUCCESS
              : known_name ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                           : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS; // even if the function does not exist: the address is then null
}

/// Unlike its second version, it returns an error if there is no such function.
CUresult Api::cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  void* found = nullptr;
  if (version < 0) version = computer_.options.driver_version;
  cuGetProcAddress_v2(symbol, &found, version, flags, nullptr);
  refuse_if(found == nullptr, CUDA_ERROR_NOT_FOUND);
  if (function == nullptr) crash("there is no place for the address");
  *function = found;
  return CUDA_SUCCESS;
}

/// The answer of a device that does not know the table. Compilers of NVIDIA go on without one.
CUresult Api::cuGetExportTable(const void** table, const CUuuid* id) {
  refuse_if(table == nullptr || id == nullptr, CUDA_ERROR_INVALID_VALUE);
  *table = nullptr;
  const std::string library = library_that_contains(caller_of_driver());
  if (computer_.report.add_runtime(library))
    std::fprintf(stderr,
                 "cuevent sim: %s asks for a private table of the driver. The simulator has none, so a CUDA "
                 "runtime inside it cannot run\n",
                 library.c_str());
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult Api::cuDeviceGet(CUdevice* found, int ordinal) {
  refuse_if(found == nullptr, CUDA_ERROR_INVALID_VALUE);
  const int devices = computer_.devices();
  if (ordinal < 0 || ordinal >= devices)
    refuse(CUDA_ERROR_INVALID_DEVICE,
           reasons::made("Parameter ordinal must be between 0 and " + std::to_string(devices)));
  *found = ordinal;
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetCount(int* count) {
  refuse_if(count == nullptr, CUDA_ERROR_INVALID_VALUE);
  *count = computer_.devices();
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetName(char* name, int length, CUdevice which) {
  refuse_if(name == nullptr, CUDA_ERROR_INVALID_VALUE);
  const int ordinal = device(which);
  if (length == 0) crash("there is no room for the name of the device");
  const auto room = static_cast<unsigned>(length); // as a device reads it
  std::snprintf(name, std::min(room, 4096u), "cuevent simulated device %d", computer_.number_of(ordinal));
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetUuid(CUuuid* uuid, CUdevice which) {
  refuse_if(uuid == nullptr, CUDA_ERROR_INVALID_VALUE);
  const int ordinal = device(which);
  const auto of_device = uuid_of(computer_.number_of(ordinal));
  std::memcpy(uuid->bytes, of_device.data(), sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice which) { return cuDeviceGetUuid(uuid, which); }

CUresult Api::cuDeviceTotalMem_v2(size_t* bytes, CUdevice which) {
  refuse_if(bytes == nullptr, CUDA_ERROR_INVALID_VALUE);
  *bytes = 0; // also for a device that does not exist
  device(which);
  *bytes = all_memory;
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice which) {
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  const int ordinal = device(which);
  refuse_if(attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    *value = computer_.number_of(ordinal) + 1;
    break;
  case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    *value = 0;
    break;
  case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    *value = computer_.options.memory_operations_64_bit;
    break;
  default:
    if (attribute > static_cast<int>(device_attributes.size()))
      not_modelled("device attribute " + std::to_string(static_cast<int>(attribute)));
    *value = device_attributes[static_cast<std::size_t>(attribute) - 1];
  }
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
