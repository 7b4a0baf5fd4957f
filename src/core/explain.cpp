// SPDX-License-Identifier: MIT
#include <cuevent/explain.hpp>

#include "core/text_of.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

/// What has access to the members that fail.
struct Explanation {
  static std::string record(CUresult result, const EventRef& event, StreamRef stream, RecordFlags flags) {
    return text_of(result, "cuEventRecord", [&] { event.fail_record(result, stream, flags); });
  }
  static std::string wait(CUresult result, const EventRef& event, StreamRef stream, WaitFlags flags) {
    return text_of(result, "cuStreamWaitEvent", [&] { event.fail_wait(result, stream, flags); });
  }
  static std::string query(CUresult result, const EventRef& event, const char* call) {
    return text_of(result, call, [&] { event.fail_query(result, call); });
  }
  static std::string elapsed_time(CUresult result, const EventRef& start, const EventRef& end) {
    return text_of(result, "cuEventElapsedTime", [&] { start.fail_elapsed(result, end); });
  }
  static std::string create(CUresult result, const Context& context, EventFlags flags) {
    return text_of(result, "cuEventCreate", [&] { DriverEvent::fail_create(result, context, flags); });
  }
};

std::string explain(CUresult result, const char* call) {
  return DriverError(result, call, with_reasons(result, call).c_str()).what();
}

std::string explain_record(CUresult result, EventRef event, StreamRef stream, RecordFlags flags) {
  return Explanation::record(result, event, stream, flags);
}

std::string explain_wait(CUresult result, EventRef event, StreamRef stream, WaitFlags flags) {
  return Explanation::wait(result, event, stream, flags);
}

std::string explain_query(CUresult result, EventRef event, const char* call) {
  return Explanation::query(result, event, call);
}

std::string explain_elapsed_time(CUresult result, EventRef start, EventRef end) {
  return Explanation::elapsed_time(result, start, end);
}

std::string explain_create(CUresult result, const Context& context, EventFlags flags) {
  return Explanation::create(result, context, flags);
}

std::string explain_load(CUresult result) {
  return text_of(result, "cuInit", [] { Driver::instance(); });
}
std::string explain_load(CUresult result, const char* library) {
  return text_of(result, "dlopen", [&] {
    if (library != nullptr) Driver{std::string(library)};
  });
}
std::string explain_load(CUresult result, GetProcAddress get_proc_address) {
  return text_of(result, "cuGetProcAddress", [&] { Driver{get_proc_address}; });
}

}} // namespace cuevent::CUEVENT_ABI
