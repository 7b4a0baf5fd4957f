// SPDX-License-Identifier: MIT
#include "info.hpp"

#include "driver_version.hpp"
#include "json_text.hpp"

#include "core/name_text.hpp"

#include <cuevent/driver.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <vector>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;
using cuevent::Driver;
using cuevent::printable;

struct OptionalEntry {
  const char* name;
  int since;
  bool present;
};

/// The file that contains the driver's functions.
std::string file_of(const Driver& driver) {
  const cuevent::GetProcAddress function = driver.table().get_proc_address;
  Dl_info found{};
  if (dladdr(reinterpret_cast<void*>(function), &found) == 0 || found.dli_fname == nullptr) return "unknown";
  std::error_code error;
  const auto file = std::filesystem::canonical(found.dli_fname, error);
  return error ? found.dli_fname : file.string();
}

bool has(const Driver& driver, const char* name, int version) {
  try {
    return driver.entry_point<void (*)()>(name, version) != nullptr;
  } catch (const cuevent::DriverError&) {
    return false;
  }
}

std::vector<OptionalEntry> optional_entries(const Driver& driver) {
  return {
#define CUEVENT_REQUIRED(name, since)
#define CUEVENT_OPTIONAL(name, since) {#name, since, has(driver, #name, since)},
#include <cuevent/driver_symbols.inc>
  };
}

/// By ordinal.
std::vector<std::string> device_names(const Driver& driver) {
  int count = 0;
  if (const CUresult result = driver.table().cuDeviceGetCount_v2000(&count))
    driver.fail(result, "cuDeviceGetCount");
  const auto get_name = driver.entry_point<PFN_cuDeviceGetName_v2000>("cuDeviceGetName", 2000);
  std::vector<std::string> names;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    if (const CUresult result = driver.table().cuDeviceGet_v2000(&device, ordinal))
      driver.fail(result, "cuDeviceGet");
    char name[256] = "";
    if (const CUresult result = get_name(name, sizeof name, device)) driver.fail(result, "cuDeviceGetName");
    names.emplace_back(name);
  }
  return names;
}

void print_json(const Driver& driver) {
  Json entries = Json::array();
  for (const OptionalEntry& entry : optional_entries(driver))
    entries.push_back(
        {{"name", entry.name}, {"since", version_text(entry.since)}, {"present", entry.present}});
  Json devices = Json::array();
  for (const std::string& name : device_names(driver))
    devices.push_back({{"ordinal", devices.size()}, {"name", name}});
  const Json driver_json = {{"file", file_of(driver)}, {"version", version_text(driver.version())}};
  const Json all = {{"driver", driver_json}, {"optional_entries", entries}, {"devices", devices}};
  std::puts(json_text(all).c_str());
}

void print_text(const Driver& driver) {
  std::printf("driver    %s\nversion   CUDA %s\n", printable(file_of(driver)).c_str(),
              version_text(driver.version()).c_str());
  const char* label = "devices";
  int ordinal = 0;
  for (const std::string& name : device_names(driver)) {
    std::printf("%-9s %d  %s\n", label, ordinal++, printable(name).c_str());
    label = "";
  }
  label = "optional";
  for (const OptionalEntry& entry : optional_entries(driver)) {
    std::printf("%-9s %-24s CUDA %s  %s\n", label, entry.name, version_text(entry.since).c_str(),
                entry.present ? "present" : "missing");
    label = "";
  }
}

} // namespace

ExitCode info(bool json) {
  try {
    const Driver& driver = Driver::instance();
    json ? print_json(driver) : print_text(driver);
    return success;
  } catch (const cuevent::DriverUnavailable& error) {
    // Not an error here, because the user asked for this.
    const Json none = {{"driver", nullptr}, {"why", error.what()}};
    std::puts(json ? json_text(none).c_str() : cuevent::printable_lines(error.what()).c_str());
    return no_driver;
  }
}

} // namespace cli
