// SPDX-License-Identifier: MIT
// The texts of core's values, except results (result_text.cpp).
#include <cuevent/text.hpp>

#include <cuevent/event_ref.hpp>
#include <cuevent/ipc.hpp>

#include "core/driver_loading.hpp"
#include "core/value_text.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

struct FlagName {
  unsigned bit;
  const char* name;
};

std::string flag_names(unsigned flags, std::initializer_list<FlagName> names) {
  std::string text;
  const auto add = [&](const std::string& name) { text += text.empty() ? name : " | " + name; };
  for (const FlagName& flag : names)
    if ((flags & flag.bit) != 0) {
      add(flag.name);
      flags &= ~flag.bit;
    }
  if (flags != 0) add(hexadecimal(flags)); // bits that have no enumerator
  return text.empty() ? "none" : text;
}

std::string external_flags(unsigned flags) {
  return flag_names(flags, {{1, "external"}, {0x100, "external_in_capture"}});
}

std::string address(const void* handle) { return hexadecimal(reinterpret_cast<std::uintptr_t>(handle)); }

} // namespace

std::string to_string(EventFlags flags) {
  return flag_names(unsigned(flags), {{unsigned(EventFlags::blocking_sync), "blocking_sync"},
                                      {unsigned(EventFlags::interprocess), "interprocess"},
                                      {unsigned(EventFlags::timing), "timing"},
                                      {unsigned(EventFlags::retire), "retire"}});
}

std::string to_string(RecordFlags flags) { return external_flags(unsigned(flags)); }

std::string to_string(WaitFlags flags) { return external_flags(unsigned(flags)); }

std::string to_string(ErrorKind kind) {
  return enumerator(kind, "ErrorKind",
                    {"success", "not_ready", "usage", "unsupported", "capture", "context_lost",
                     "out_of_resources", "device_fault", "driver_unavailable", "other"});
}

std::string to_string(const Context& context) {
  if (!context) return "no context";
  return "context " + address(context.native_handle()) + " (id " + std::to_string(context.id()) + ")";
}

std::string to_string(const Driver& driver) {
  if (!driver) return "no driver";
  return "driver of CUDA " + std::to_string(major_of(driver.version())) + "." +
         std::to_string(minor_of(driver.version()));
}

std::string to_string(const DriverEvent& event) { return to_string(EventRef(event)); }

std::string to_string(const EventAccess& event) {
  if (!event) return "no event";
  std::string text = (event.leased() ? "leased event " : "event ") + address(event.native_handle());
  if (event.flags() != EventFlags::none) text += " (" + to_string(event.flags()) + ")";
  if (event.context()) text += ", " + to_string(event.context()); // unknown for a CUevent
  return text;
}

std::string to_string(const IpcHandle& handle) { return handle.to_string(); }

}} // namespace cuevent::CUEVENT_ABI
