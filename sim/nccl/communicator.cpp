// SPDX-License-Identifier: MIT
#include "communicator.hpp"

#include "../runtime/in_driver.hpp"
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

/// Whether the memory was allocated, in the current context or another one. A wrong pointer would end this
/// process when its bytes are moved, and not the simulated device's work.
bool is_allocated(const void* memory, std::size_t bytes) {
  auto at = reinterpret_cast<CUdeviceptr>(memory);
  for (const CUdeviceptr end = at + bytes; at < end;) { // mapped memory may have several parts
    CUdeviceptr start = 0;
    std::size_t size = 0;
    if (cuMemGetAddressRange(&start, &size, at) != CUDA_SUCCESS) return false;
    at = start + size;
  }
  return true;
}

/// The capture of the stream, or 0.
unsigned long long capture_of(CUstream stream) {
  using Function =
      CUresult(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, std::size_t*);
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  expect(
      in_driver<Function>("cuStreamGetCaptureInfo", 11030, stream, &status, &id, nullptr, nullptr, nullptr),
      "cuStreamGetCaptureInfo");
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return 0;
  return id;
}

} // namespace

/// What a kernel waits for. The simulator asks under its lock.
class Communicator::Gate {
public:
  struct Moved {
    Meeting::Transfer transfer;
    void* memory; ///< or null if its bytes are not moved
  };

  Gate(std::shared_ptr<Communicator> of, Collective collective)
      : of_(std::move(of)), collective_(std::move(collective)) {}
  Gate(std::shared_ptr<Communicator> of, std::vector<Moved> transfers)
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
      for (const auto& [transfer, memory] : transfers_)
        begun_[launch].push_back(of_->meeting_->begin(transfer, memory));
    }
    const std::vector<std::uint64_t>& numbers = begun_[launch];
    for (std::size_t i = 0; i < transfers_.size(); ++i)
      if (!of_->meeting_->other_side_has_begun(transfers_[i].transfer, numbers[i])) return false;
    for (std::size_t i = 0; i < transfers_.size(); ++i)
      if (const auto& [transfer, memory] = transfers_[i]; transfer.direction == Meeting::Direction::receive)
        of_->meeting_->read_parcel(transfer, numbers[i], memory);
    begun_.erase(launch);
    return true;
  }

  const std::shared_ptr<Communicator> of_;
  const Collective collective_{};
  const std::vector<Moved> transfers_;
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
  Collective moved = work;
  const bool receives_all = work.copies == Collective::Copies::from_all;
  if (work.copies != Collective::Copies::nothing &&
      (work.bytes > Meeting::largest_parcel ||
       !is_allocated(receive, work.bytes * (receives_all ? ranks() : 1)) ||
       ((receives_all || work.root == rank()) && !is_allocated(send, work.bytes))))
    moved.copies = Collective::Copies::nothing;
  launch(work.kernel, parameters, std::make_unique<Gate>(shared_from_this(), moved), stream);
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
  std::vector<Gate::Moved> transfers;
  std::map<unsigned, std::size_t> sent; // to each rank
  for (const Meeting::Transfer& each : work.all)
    if (each.direction == Meeting::Direction::send) ++sent[each.peer];
  for (std::size_t i = 0; i < work.all.size(); ++i) {
    const Meeting::Transfer& each = work.all[i];
    const bool is_moved =
        each.bytes <= Meeting::largest_sent_parcel && is_allocated(work.memory[i], each.bytes) &&
        (each.direction == Meeting::Direction::receive || sent[each.peer] <= Meeting::most_sent_parcels);
    transfers.push_back({each, is_moved ? work.memory[i] : nullptr});
  }
  launch("SendRecv", parameters.data(), std::make_unique<Gate>(shared_from_this(), std::move(transfers)),
         stream);
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
