// SPDX-License-Identifier: MIT
#include <cuevent/explain.hpp>

#include "core/driver_loading.hpp"
#include "core/driver_log.hpp"
#include "core/explanation.hpp"
#include "core/failure.hpp"
#include "core/text_of.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

std::string explain(CUresult result, const char* call) {
  const DriverWords words(result, call, Words::take);
  return DriverError(Failure{.result = result, .call = call, .words = words.text}).what();
}

std::string explain_record(CUresult result, EventRef event, StreamRef stream, RecordFlags flags) {
  return text_of(result, flags == RecordFlags::none ? "cuEventRecord" : "cuEventRecordWithFlags",
                 [&] { Explanation::fail_record(event, result, stream, flags); });
}

std::string explain_wait(CUresult result, EventRef event, StreamRef stream, WaitFlags flags) {
  return text_of(result, "cuStreamWaitEvent", [&] { Explanation::fail_wait(event, result, stream, flags); });
}

std::string explain_query(CUresult result, EventRef event, const char* call) {
  return text_of(result, call, [&] { Explanation::fail_query(event, result, call); });
}

std::string explain_elapsed_time(CUresult result, EventRef start, EventRef end) {
  return text_of(result, "cuEventElapsedTime", [&] { Explanation::fail_elapsed(start, result, end); });
}

std::string explain_create(CUresult result, const Context& context, EventFlags flags) {
  return text_of(result, "cuEventCreate",
                 [&] { Explanation::fail_create<DriverEvent>(result, context, flags); });
}

namespace {

template <class... Source>
std::string explain_loading(CUresult result, const char* call, Source... source) {
  LoadFailure failed;
  if (result == CUDA_SUCCESS || load_table(source..., failed) != nullptr || failed.result != result)
    return explain(result, call);
  return DriverError(static_cast<const Failure&>(failed)).what();
}

} // namespace

std::string explain_load(CUresult result) { return explain_loading(result, "cuInit"); }
std::string explain_load(CUresult result, const char* library) {
  return library != nullptr ? explain_loading(result, "dlopen", library) : explain(result, "dlopen");
}
std::string explain_load(CUresult result, GetProcAddress get_proc_address) {
  return explain_loading(result, "cuGetProcAddress", get_proc_address);
}

}} // namespace cuevent::CUEVENT_ABI
