// SPDX-License-Identifier: MIT
// The driver's functions, called through the same pointers that cuevent calls.
#include "operations.hpp"

namespace peers {

namespace {

/// `copy` distinguishes two instances of the same code. The second instance is the control.
template <int copy>
struct Raw {
  using Stream = CUstream;
  static Stream stream(CUstream stream) { return stream; }

  template <bool timed>
  class Event {
  public:
    explicit Event(const Lane& lane) : table_(&lane.testbed.driver.table()) {
      check(table_->cuEventCreate_v2000(&event_, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { table_->cuEventDestroy_v4000(event_); }

    void record(CUstream stream) { check(table_->cuEventRecord_v2000(event_, stream)); }
    void wait(CUstream stream) const { check(table_->cuStreamWaitEvent_v3020(stream, event_, 0)); }
    bool query() const {
      const CUresult result = table_->cuEventQuery_v2000(event_);
      if (result != CUDA_ERROR_NOT_READY) check(result);
      return result == CUDA_SUCCESS;
    }
    void synchronize() const { check(table_->cuEventSynchronize_v2000(event_)); }
    float elapsed(const Event& end) const {
      float milliseconds = 0;
      check(table_->cuEventElapsedTime_v12080(&milliseconds, event_, end.event_));
      return milliseconds;
    }

  private:
    static void check(CUresult result) { expect(result == CUDA_SUCCESS, "the driver refused a call"); }
    const cuevent::DriverTable* table_;
    CUevent event_ = nullptr;
  };
};

} // namespace

void enter_raw(Entries& entries) {
  enter<Raw<0>>(entries, "raw");
  enter<Raw<1>>(entries, "raw_again");
}

} // namespace peers
