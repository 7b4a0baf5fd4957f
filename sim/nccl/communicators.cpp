// SPDX-License-Identifier: MIT
// The functions that make, ask and end communicators, and groups.
#include "groups.hpp"

#include <charconv>
#include <cstring>
#include <string_view>

namespace cuevent::sim::nccl {

namespace {

/// What an id begins with. The rest are the digits of a meeting's name.
constexpr std::string_view id_begins = "cuevent-nccl-1:";

ncclUniqueId id_of(const Meeting::Name& name) {
  ncclUniqueId id{};
  const std::string text = std::string(id_begins) + Meeting::digits_of(name);
  text.copy(id.internal, sizeof id.internal - 1);
  return id;
}

Meeting::Name name_of(const ncclUniqueId& id) {
  const std::string_view text(id.internal, strnlen(id.internal, sizeof id.internal));
  Meeting::Name name{};
  bool is_right = text.size() == id_begins.size() + 32 && text.substr(0, id_begins.size()) == id_begins;
  for (std::size_t i = 0; i < name.size() && is_right; ++i) {
    const std::string_view digits = text.substr(id_begins.size() + 16 * i, 16);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + 16, name[i], 16);
    is_right = error == std::errc() && end == digits.data() + 16;
  }
  if (!is_right)
    fail(ncclInvalidArgument, "the id was not made by ncclGetUniqueId of the simulator's libnccl");
  return name;
}

bool blocks(const ncclConfig_t* config, bool otherwise) {
  if (config == nullptr) return otherwise;
  require(config->magic == nccl_config_magic && config->size >= sizeof *config,
          "the configuration was not initialised with NCCL_CONFIG_INITIALIZER");
  if (config->blocking == nccl_undefined) return otherwise;
  require(config->blocking == 0 || config->blocking == 1, "config.blocking has to be 0 or 1");
  return config->blocking == 1;
}

ncclResult_t initialize(ncclComm_t* made, int ranks, const ncclUniqueId& id, int rank,
                        const ncclConfig_t* config) {
  require(made != nullptr, "the pointer to the new communicator is null");
  require(ranks >= 1 && rank >= 0 && rank < ranks, "the rank has to be from 0 to the number of ranks - 1");
  if (static_cast<unsigned>(ranks) > most_ranks)
    fail(ncclInvalidUsage, "the simulator's libnccl has at most " + std::to_string(most_ranks) + " ranks");
  const Meeting::Name name = name_of(id);
  const auto added = std::make_shared<Communicator>(blocks(config, true));
  *made = added->handle();
  return begin_job(added,
                   [=] { added->meet(name, static_cast<unsigned>(ranks), static_cast<unsigned>(rank)); });
}

thread_local std::string last_error;

/// What a call without a group does with a communicator.
template <class Act>
ncclResult_t with(ncclComm_t handle, Act act) {
  return answer([&] {
    act(*Communicator::ready(handle));
    return ncclSuccess;
  });
}

ncclResult_t tell(ncclComm_t handle, int* number, int (*value)(const Communicator&)) {
  return with(handle, [&](const Communicator& of) {
    require(number != nullptr, "the pointer to the result is null");
    *number = value(of);
  });
}

} // namespace

ncclResult_t told(const Failure& failure) {
  last_error = failure.text;
  note_in_group(failure);
  return failure.result;
}

} // namespace cuevent::sim::nccl

using namespace cuevent::sim::nccl;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return answer([&] {
    require(id != nullptr, "the pointer to the id is null");
    *id = id_of(Meeting::create());
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* made, int ranks, ncclUniqueId id, int rank) {
  return answer([&] { return initialize(made, ranks, id, rank, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return answer([&] { return initialize(made, ranks, id, rank, config); });
}

/// All ranks have the same ids. The first one is enough.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* made, int ranks, int rank, int count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  return answer([&] {
    require(ids != nullptr && count >= 1, "there is no id");
    return initialize(made, ranks, ids[0], rank, config);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* made, int count, const int* devices) {
  return answer([&] {
    require(made != nullptr && count >= 1, "there is no communicator to make");
    const ncclUniqueId id = id_of(Meeting::create());
    return as_group([&] {
      expect(cuInit(0), "cuInit");
      for (int rank = 0; rank < count; ++rank) {
        CUdevice device = 0;
        CUcontext context = nullptr;
        require(cuDeviceGet(&device, devices == nullptr ? rank : devices[rank]) == CUDA_SUCCESS,
                "there is no such device");
        expect(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
        const CurrentContext current(context);
        initialize(made + rank, count, id, rank, nullptr);
      }
    });
  });
}

ncclResult_t ncclCommSplit(ncclComm_t of, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  return answer([&] {
    require(made != nullptr, "the pointer to the new communicator is null");
    require(color >= 0 || color == nccl_no_color, "the color has to be NCCL_SPLIT_NOCOLOR or at least 0");
    const auto parent = Communicator::ready(of);
    const CurrentContext current(parent->context());
    const auto added = std::make_shared<Communicator>(blocks(config, parent->is_blocking));
    *made = color < 0 ? nullptr : added->handle();
    return begin_job(added, [=] { added->meet_as_part_of(*parent, color, key); });
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return with(handle, [](Communicator& of) {
    require(!of.is_finalized.exchange(true), "the communicator is finalized already");
    if (of.is_blocking) of.finish();
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  return answer([&] {
    const auto of = Communicator::known(handle);
    if (of->state == ncclInProgress) of->abort(); // NCCL does so as well
    if (of->state == ncclSuccess) of->finish();
    of->forget();
    of->leave();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  return answer([&] {
    const auto of = Communicator::known(handle);
    of->abort();
    of->forget();
    of->leave();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return answer([&] {
    require(error != nullptr, "the pointer to the result is null");
    *error = Communicator::known(handle)->state;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  return tell(handle, count, [](const Communicator& of) { return static_cast<int>(of.ranks()); });
}
ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* device) {
  return tell(handle, device, [](const Communicator& of) { return static_cast<int>(of.device()); });
}
ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  return tell(handle, rank, [](const Communicator& of) { return static_cast<int>(of.rank()); });
}

ncclResult_t ncclGroupStart() {
  start_group();
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return answer(end_group); }

// Memory, versions and errors

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  return answer([&] {
    require(memory != nullptr && bytes != 0, "there is no memory to allocate");
    expect(cuMemAlloc(reinterpret_cast<CUdeviceptr*>(memory), bytes), "cuMemAlloc");
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* memory) {
  return answer([&] {
    if (memory != nullptr) expect(cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), "cuMemFree");
    return ncclSuccess;
  });
}

/// A registration changes nothing here, so any handle will do.
ncclResult_t ncclCommRegister(ncclComm_t handle, void* memory, std::size_t bytes, void** registration) {
  return with(handle, [&](const Communicator&) {
    require(memory != nullptr && bytes != 0 && registration != nullptr, "there is no memory to register");
    *registration = memory;
  });
}
ncclResult_t ncclCommDeregister(ncclComm_t handle, void*) {
  return with(handle, [](const Communicator&) {});
}

/// Of the version whose functions and kernel names these are.
ncclResult_t ncclGetVersion(int* version) {
  return answer([&] {
    require(version != nullptr, "the pointer to the version is null");
    *version = 23203;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  case ncclSystemError:
    return "unhandled system error";
  case ncclInternalError:
    return "internal error";
  case ncclInvalidArgument:
    return "invalid argument";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "operation in progress";
  case ncclTimeout:
    return "timeout";
  }
  return "unknown result code";
}

/// The text of the thread's last failure.
const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }
