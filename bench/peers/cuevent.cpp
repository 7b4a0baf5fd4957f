// SPDX-License-Identifier: MIT
// cuevent, and the cost of creation if the context is owned or has to be made current.
#include "operations.hpp"

#include <cuevent/driver_event.hpp>

namespace peers {

namespace {

enum class ContextIs { borrowed, owned };

template <ContextIs context_is>
struct Cuevent {
  using Stream = CUstream;
  static Stream stream(CUstream stream) { return stream; }

  template <bool timed>
  class Event {
  public:
    explicit Event(const Lane& lane)
        : event_(context_is == ContextIs::owned ? lane.testbed.context : lane.testbed.borrowed,
                 timed ? cuevent::EventFlags::timing : cuevent::EventFlags::none) {}

    void record(CUstream stream) { event_.record(stream); }
    void wait(CUstream stream) const { event_.wait(stream); }
    bool query() const { return event_.query(); }
    void synchronize() const { event_.synchronize(); }
    float elapsed(const Event& end) const { return event_.elapsed_time(end.event_).count(); }

  private:
    cuevent::DriverEvent event_;
  };
};

/// No context is current when the turn begins.
class CreateDestroyPushed : public Workload {
public:
  explicit CreateDestroyPushed(Lane& lane) : lane_(lane) {}
  void prepare() override {
    CUcontext current = nullptr;
    lane_.testbed.check(table().cuCtxPopCurrent_v4000(&current), "cuCtxPopCurrent");
  }
  void finish() override {
    lane_.testbed.check(table().cuCtxPushCurrent_v4000(lane_.testbed.context.native_handle()),
                        "cuCtxPushCurrent");
  }

protected:
  const cuevent::DriverTable& table() const { return lane_.testbed.driver.table(); }
  Lane& lane_;
};

class CueventPushed : public CreateDestroyPushed {
public:
  using CreateDestroyPushed::CreateDestroyPushed;
  void run(int calls) override {
    for (int i = 0; i < calls; ++i) {
      cuevent::DriverEvent event(lane_.testbed.borrowed);
      hide(event);
    }
  }
};

/// The minimum of driver calls. With `asking`, adds the queries of a program that does not know which
/// context is current or whether the event's context still exists: pushing a dead context, or destroying an
/// event of one, can crash.
template <bool asking>
class RawPushed : public CreateDestroyPushed {
public:
  using CreateDestroyPushed::CreateDestroyPushed;
  void run(int calls) override {
    const cuevent::DriverTable& driver = this->table();
    CUcontext const context = this->lane_.testbed.context.native_handle();
    const auto exists = [&] {
      unsigned long long id = 0;
      return !asking || driver.cuCtxGetId_v12000(context, &id) == CUDA_SUCCESS;
    };
    for (int i = 0; i < calls; ++i) {
      CUcontext current = nullptr, popped = nullptr;
      CUevent event = nullptr;
      if (asking) expect(driver.cuCtxGetCurrent_v4000(&current) == CUDA_SUCCESS, "cuCtxGetCurrent");
      expect(current == nullptr && exists(), "cuCtxGetId");
      expect(driver.cuCtxPushCurrent_v4000(context) == CUDA_SUCCESS, "cuCtxPushCurrent");
      expect(driver.cuEventCreate_v2000(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS, "cuEventCreate");
      expect(driver.cuCtxPopCurrent_v4000(&popped) == CUDA_SUCCESS, "cuCtxPopCurrent");
      hide(event);
      expect(exists(), "cuCtxGetId");
      expect(driver.cuEventDestroy_v4000(event) == CUDA_SUCCESS, "cuEventDestroy");
    }
  }
};

} // namespace

void enter_cuevent(Entries& entries) {
  enter<Cuevent<ContextIs::borrowed>>(entries, "cuevent");
  entries.push_back(
      {"create_destroy", 512, {"cuevent_owned", make<CreateDestroy<Cuevent<ContextIs::owned>, false>>}});
  entries.push_back({"create_destroy", 512, {"cuevent_pushed", make<CueventPushed>}});
  entries.push_back({"create_destroy", 512, {"raw_pushed", make<RawPushed<false>>}});
  entries.push_back({"create_destroy", 512, {"raw_asking", make<RawPushed<true>>}});
}

} // namespace peers
