// SPDX-License-Identifier: MIT
#include "communicator.hpp"

#include "kernels.hpp"

#include <chrono>
#include <map>
#include <thread>
#include <utility>

/// In the simulator's control.
extern "C" const char* cueventSimGateNextKernel(int (*open)(void*, unsigned long long*),
                                                void (*release)(void*), void* state);

namespace cuevent::sim::nccl {

namespace {

struct Known {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<Communicator>> all;
};
Known& known_communicators() {
  static auto* const known = new Known; // used until the process ends
  return *known;
}

/// The capture of the stream, or 0.
unsigned long long capture_of(CUstream stream) {
  void* function = nullptr;
  expect(cuGetProcAddress("cuStreamGetCaptureInfo", &function, 11030, 0, nullptr), "cuGetProcAddress");
  using Function =
      CUresult(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, std::size_t*);
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  expect(reinterpret_cast<Function*>(function)(stream, &status, &id, nullptr, nullptr, nullptr),
         "cuStreamGetCaptureInfo");
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return 0;
  return id;
}

} // namespace

/// What a kernel waits for. The simulator asks under its lock.
class Communicator::Gate {
public:
  Gate(std::shared_ptr<Communicator> of, Collective collective)
      : of_(std::move(of)), collective_(std::move(collective)) {}
  Gate(std::shared_ptr<Communicator> of, std::vector<Meeting::Transfer> transfers)
      : of_(std::move(of)), transfers_(std::move(transfers)) {}

  static int open(void* state, unsigned long long* launch) {
    Gate& gate = *static_cast<Gate*>(state);
    return gate.of_->is_aborted_ ||
           (gate.transfers_.empty() ? gate.all_have_begun(*launch) : gate.other_sides_have_begun(*launch));
  }
  static void release(void* state) { delete static_cast<Gate*>(state); }

private:
  bool all_have_begun(unsigned long long& number) const {
    Meeting& meeting = *of_->meeting_;
    using Copies = Collective::Copies;
    const bool shows = collective_.copies == Copies::from_all ||
                       (collective_.copies == Copies::from_root && collective_.root == of_->rank());
    if (number == 0)
      number = meeting.begin(collective_.what, collective_.send, shows ? collective_.bytes : 0);
    if (!meeting.all_have_begun(number, collective_.what)) return false;
    char* const to = static_cast<char*>(collective_.receive);
    if (collective_.copies == Copies::from_root)
      meeting.read_parcel(number, collective_.root, to, collective_.bytes);
    if (collective_.copies == Copies::from_all)
      for (unsigned rank = 0; rank < of_->ranks(); ++rank)
        meeting.read_parcel(number, rank, to + rank * collective_.bytes, collective_.bytes);
    return true;
  }
  bool other_sides_have_begun(unsigned long long& launch) {
    if (launch == 0) {
      launch = ++launches_;
      for (const Meeting::Transfer& each : transfers_)
        begun_[launch].push_back(of_->meeting_->begin(each));
    }
    const std::vector<std::uint64_t>& numbers = begun_[launch];
    for (std::size_t i = 0; i < transfers_.size(); ++i)
      if (!of_->meeting_->other_side_has_begun(transfers_[i], numbers[i])) return false;
    begun_.erase(launch);
    return true;
  }

  const std::shared_ptr<Communicator> of_;
  const Collective collective_{};
  const std::vector<Meeting::Transfer> transfers_;
  unsigned long long launches_ = 0; ///< of a graph, more than one
  std::map<unsigned long long, std::vector<std::uint64_t>> begun_;
};

Communicator::Communicator(bool blocking) : is_blocking(blocking) {
  expect(cuInit(0), "cuInit");
  expect(cuCtxGetCurrent(&context_), "cuCtxGetCurrent");
  if (context_ == nullptr) expect(cuDevicePrimaryCtxRetain(&context_, 0), "cuDevicePrimaryCtxRetain");
  const CurrentContext current(context_);
  expect(cuCtxGetDevice(&device_), "cuCtxGetDevice");
}

ncclComm_t Communicator::handle() {
  Known& known = known_communicators();
  const std::lock_guard lock(known.mutex);
  const auto handle = reinterpret_cast<ncclComm_t>(this);
  known.all.emplace(handle, shared_from_this());
  return handle;
}

void Communicator::forget() {
  Known& known = known_communicators();
  const std::lock_guard lock(known.mutex);
  known.all.erase(reinterpret_cast<ncclComm_t>(this));
}

std::shared_ptr<Communicator> Communicator::known(ncclComm_t handle) {
  Known& known = known_communicators();
  const std::lock_guard lock(known.mutex);
  const auto found = known.all.find(handle);
  if (found == known.all.end())
    fail(ncclInvalidArgument, "the communicator does not exist: it was destroyed or aborted, or never made");
  return found->second;
}

std::shared_ptr<Communicator> Communicator::ready(ncclComm_t handle) {
  auto found = known(handle);
  if (found->state == ncclInProgress)
    fail(ncclInvalidArgument, "the communicator is not ready: call ncclCommGetAsyncError until it no longer "
                              "says ncclInProgress");
  if (found->state != ncclSuccess)
    fail(ncclInvalidUsage, "the initialisation of the communicator has failed");
  return found;
}

void Communicator::meet(const Meeting::Name& name, unsigned ranks, unsigned rank) {
  const CurrentContext current(context_);
  load_kernels();
  expect(cuEventCreate(&last_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  int domain = 0, bus = 0, slot = 0;
  expect(cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device_), "cuDeviceGetAttribute");
  expect(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device_), "cuDeviceGetAttribute");
  expect(cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device_), "cuDeviceGetAttribute");
  const auto place = static_cast<std::uint32_t>(domain << 16 | bus << 8 | slot);
  meeting_ = std::make_shared<Meeting>(name, ranks, rank, place);
  meeting_->wait_for_all([this] { return is_aborted_.load(); });
}

void Communicator::meet_as_part_of(Communicator& parent, int color, int key) {
  const Meeting::Split split =
      parent.meeting_->wait_for_split(color, key, [&] { return is_aborted_ || parent.is_aborted_; });
  if (color >= 0) meet(split.name, split.ranks, split.rank);
}

/// Kernels of one communicator run one after another, whatever streams they are on.
void Communicator::order(CUstream stream) {
  const unsigned long long capture = capture_of(stream);
  if (has_last_ && last_stream_ != stream && last_capture_ == capture)
    expect(cuStreamWaitEvent(stream, last_, 0), "cuStreamWaitEvent");
  last_capture_ = capture;
}

void Communicator::record(CUstream stream) {
  expect(cuEventRecord(last_, stream), "cuEventRecord");
  last_stream_ = stream;
  has_last_ = true;
}

void Communicator::launch(const std::string& name, void** parameters, std::unique_ptr<Gate> gate,
                          CUstream stream) {
  cueventSimGateNextKernel(Gate::open, Gate::release, gate.release());
  const CUresult launched = cuLaunchKernel(kernel(name), 1, 1, 1, 512, 1, 1, 0, stream, parameters, nullptr);
  cueventSimGateNextKernel(nullptr, nullptr, nullptr);
  expect(launched, "cuLaunchKernel");
  record(stream);
}

void Communicator::launch(const Collective& work, CUstream stream) {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(context_);
  order(stream);
  const void* send = work.send;
  void* receive = work.receive;
  std::size_t count = work.count;
  void* parameters[] = {static_cast<void*>(&send), static_cast<void*>(&receive), &count};
  launch(work.kernel, parameters, std::make_unique<Gate>(shared_from_this(), work), stream);
}

void Communicator::launch(const Transfers& work) {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(context_);
  const CUstream stream = *work.streams.begin();
  for (const CUstream other : work.streams)
    if (other != stream) {
      order(other);
      record(other);
      order(stream);
    }
  order(stream);
  std::vector<void*> memory = work.memory;
  memory.resize(shown_transfers);
  std::vector<void*> parameters;
  for (void*& each : memory)
    parameters.push_back(static_cast<void*>(&each));
  launch("SendRecv", parameters.data(), std::make_unique<Gate>(shared_from_this(), work.all), stream);
  for (const CUstream other : work.streams)
    if (other != stream) expect(cuStreamWaitEvent(other, last_, 0), "cuStreamWaitEvent");
}

void Communicator::finish() {
  const CUevent last = [&] {
    const std::lock_guard lock(mutex_);
    return has_last_ && last_capture_ == 0 ? last_ : nullptr;
  }();
  if (last == nullptr) return;
  const CurrentContext current(context_);
  expect(cuEventSynchronize(last), "cuEventSynchronize");
}

void Communicator::abort() { is_aborted_ = true; }

void Communicator::leave() {
  while (state == ncclInProgress) // the initialisation looks at is_aborted_
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (meeting_) meeting_->leave();
  const std::lock_guard lock(mutex_);
  if (last_ != nullptr) cuEventDestroy(std::exchange(last_, nullptr));
  has_last_ = false;
}

} // namespace cuevent::sim::nccl
