// SPDX-License-Identifier: MIT
#include "faults.hpp"

#include "fork_locks.hpp"
#include "layer.hpp"

#include <cstddef>
#include <iterator>

namespace test {

namespace {

thread_local FaultPlan* plan = nullptr;

enum class Row {
#define CUEVENT_REQUIRED(name, version) name##_v##version,
#include <cuevent/driver_symbols.inc>
};

constexpr std::string_view names[] = {
#define CUEVENT_REQUIRED(name, version) #name,
#include <cuevent/driver_symbols.inc>
};

template <Row row>
struct Faulty;

/// Rows whose calls take effect even if they fail.
constexpr bool takes_effect(Row row) {
  return row == Row::cuEventDestroy_v4000 || row == Row::cuStreamDestroy_v4000 ||
         row == Row::cuCtxDestroy_v4000 || row == Row::cuDevicePrimaryCtxRelease_v11000 ||
         row == Row::cuGraphDestroy_v10000 || row == Row::cuGraphExecDestroy_v10000 ||
         row == Row::cuUserObjectRelease_v11030 || row == Row::cuCtxPopCurrent_v4000;
}

void end_capture(PFN_cuStreamEndCapture_v10000 below, CUstream stream, CUgraph* graph) {
  below(stream, graph);
  using Destroy = InFront<Faulty<Row::cuGraphDestroy_v10000>, PFN_cuGraphDestroy_v10000>;
  if (*graph != nullptr) Destroy::below.load()(*graph);
  *graph = nullptr;
}

template <Row row>
struct Faulty {
  template <class Function, class... Arguments>
  static CUresult call(Function below, Arguments... arguments) {
    expect_no_fork_lock(names[static_cast<std::size_t>(row)]);
    if (plan == nullptr) return below(arguments...);
    const CUresult fault = plan->next(names[static_cast<std::size_t>(row)]);
    if (fault != CUDA_SUCCESS) {
      fail(below, arguments...);
      return fault;
    }
    const CUresult result = below(arguments...);
    plan->answered(result);
    if constexpr (row == Row::cuThreadExchangeStreamCaptureMode_v10010)
      if (result == CUDA_SUCCESS) plan->exchanged(*(arguments, ...));
    return result;
  }

  /// The effect of a call that fails.
  template <class Function, class... Arguments>
  static void fail([[maybe_unused]] Function below, [[maybe_unused]] Arguments... arguments) {
    if constexpr (takes_effect(row)) below(arguments...);
    if constexpr (row == Row::cuStreamEndCapture_v10000) end_capture(below, arguments...);
    if constexpr (row == Row::cuThreadExchangeStreamCaptureMode_v10010)
      if (plan->is_undoing(*(arguments, ...))) below(arguments...);
  }
};

constexpr struct {
  int version;
  void* (*put_in_front)(void*);
} rows[] = {
#define CUEVENT_REQUIRED(name, version)                                                                      \
  {version, put_in_front<Faulty<Row::name##_v##version>, PFN_##name##_v##version>},
#include <cuevent/driver_symbols.inc>
};

cuevent::GetProcAddress below_all = nullptr;

CUresult CUDAAPI get_proc_address(const char* name, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  const CUresult result = below_all(name, function, version, flags, status);
  if (result != CUDA_SUCCESS || *function == nullptr) return result;
  for (std::size_t row = 0; row < std::size(rows); ++row)
    if (names[row] == name && rows[row].version == version) *function = rows[row].put_in_front(*function);
  return result;
}

} // namespace

cuevent::GetProcAddress with_faults(cuevent::GetProcAddress source) {
  below_all = source;
  return get_proc_address;
}

CUresult FaultPlan::next(std::string_view function) noexcept {
  if (function == fault_.spared) return CUDA_SUCCESS;
  if (!fault_.function.empty() && fault_.function != function) return CUDA_SUCCESS;
  ++calls_;
  const bool strikes =
      fault_.extent == Fault::Extent::once ? calls_ == fault_.call : fault_.call > 0 && calls_ >= fault_.call;
  if (!strikes) return CUDA_SUCCESS;
  if (struck_.empty()) struck_ = function;
  if (fault_.meanwhile) fault_.meanwhile();
  return fault_.result;
}

void FaultPlan::answered(CUresult result) noexcept {
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) refusal_ = result;
}

void FaultPlan::exchanged(CUstreamCaptureMode before) noexcept {
  if (!first_mode_) first_mode_ = before;
}

FaultScope::FaultScope(FaultPlan& of) noexcept : before_(plan) { plan = &of; }

FaultScope::~FaultScope() { plan = before_; }

bool fault_is_planned() noexcept { return plan != nullptr && plan->fault().call != 0; }

} // namespace test
