// SPDX-License-Identifier: MIT
#include "partner.hpp"

#include "answer.hpp"
#include "watchdog.hpp"
#include "worker_lines.hpp"

#include "../transcript/ipc_handle.hpp"
#include "../transcript/start_again.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <unistd.h>

namespace conformance {
namespace {

void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw transcript::LoadFailure(std::string(what) + " of the other process: CUresult " +
                                  std::to_string(static_cast<int>(result)));
}

std::string ask_process(const transcript::Started& partner, const std::string& request) {
  const std::string line = request + "\n";
  if (write(partner.to, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(no_partner);
  std::string answer;
  while (!answer.ends_with('\n')) {
    char buffer[256];
    const ssize_t got = read(partner.from, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(no_partner);
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  answer.pop_back();
  return answer;
}

} // namespace

Partner::Partner(const Api& api) : cu_(api) {
  CUdevice device = 0;
  void* memory = nullptr;
  must(cu_.Init(0), "cuInit");
  must(cu_.DeviceGet(&device, 0), "cuDeviceGet");
  must(cu_.DevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  must(cu_.CtxSetCurrent(context_), "cuCtxSetCurrent");
  must(cu_.MemHostAlloc(&memory, gate_slots * sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc");
  for (CUstream& stream : streams_)
    must(cu_.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  words_ = static_cast<unsigned*>(memory);
}

std::string Partner::make_and_export(CUevent& event, unsigned flags) {
  CUipcEventHandle handle{};
  const unsigned all = flags | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (cu_.EventCreate(&event, all) != CUDA_SUCCESS) return "";
  return cu_.IpcGetEventHandle(&handle, event) == CUDA_SUCCESS ? transcript::to_hex(handle) : "";
}

void Partner::end() {
  cu_.CtxSynchronize();
  for (CUevent& event : events_) {
    if (event != nullptr) cu_.EventDestroy(event);
    event = nullptr;
  }
}

std::string Partner::answer(const std::string& request) {
  std::istringstream words(request);
  std::string verb, text;
  std::size_t first = 0;
  words >> verb >> first >> text;
  const auto second = [&text] { return static_cast<std::size_t>(std::stoul(text)); };
  const auto store = [this](std::size_t gate, unsigned value) {
    std::atomic_ref<unsigned>(words_[gate]).store(value);
  };
  const auto store_all = [&store](unsigned value) {
    for (std::size_t gate = 0; gate < gate_slots; ++gate)
      store(gate, value);
    return std::string();
  };
  cu_.CtxSetCurrent(context_);
  if (verb == "begin") return store_all(0);
  if (verb == "gates") return store_all(1);
  if (verb == "gate") return store(first, 1), std::string();
  if (verb == "end") return end(), std::string();
  if (verb == "export") return make_and_export(events_[first], static_cast<unsigned>(second()));
  if (verb == "open") {
    const CUresult result = cu_.IpcOpenEventHandle(&events_[first], transcript::from_hex(text));
    return std::to_string(static_cast<int>(result));
  }
  if (verb == "record") return short_form(cu_.EventRecord(events_[first], streams_[second()]));
  if (verb == "wait") return short_form(cu_.StreamWaitEvent(streams_[second()], events_[first], 0));
  if (verb == "query") return short_form(cu_.EventQuery(events_[first]));
  if (verb == "synchronize") return short_form(cu_.EventSynchronize(events_[first]));
  if (verb == "destroy") return short_form(cu_.EventDestroy(std::exchange(events_[first], nullptr)));
  if (verb == "stream") return short_form(cu_.StreamQuery(streams_[first]));
  if (verb == "hold") {
    const auto gate = reinterpret_cast<CUdeviceptr>(words_ + second());
    return short_form(cu_.StreamWaitValue32(streams_[first], gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  throw std::logic_error("the other process does not know: " + request);
}

Ask start_partner(const Api& api, const std::string& library) {
  void* other = nullptr; // the simulated driver has two processes in one
  if (api.GetProcAddress("cueventOtherProcess", &other, 12000, 0, nullptr) == CUDA_SUCCESS &&
      other != nullptr) {
    const auto partner =
        std::make_shared<Partner>(Api::resolved_by(reinterpret_cast<PFN_cuGetProcAddress_v12000>(other)));
    return [partner](const std::string& request) { return partner->answer(request); };
  }
  const transcript::Started partner = transcript::start_again({partner_argument, library});
  if (const std::string hello = ask_process(partner, "begin"); !hello.empty())
    throw transcript::LoadFailure(hello);
  return [partner](const std::string& request) { return ask_process(partner, request); };
}

void serve_as_partner(const std::string& library) {
  Watchdog watchdog;
  std::string line;
  try {
    Partner partner(Api::load(library));
    watchdog.guard(partner.gates(), gate_slots);
    while (std::getline(std::cin, line)) {
      watchdog.call_begins();
      const std::string answer = partner.answer(line);
      watchdog.call_ends();
      std::puts(answer.c_str());
      std::fflush(stdout);
    }
  } catch (const transcript::LoadFailure& failure) {
    std::puts(failure.what());
    std::fflush(stdout);
  }
  _exit(0); // what happens at exit is no part of a program
}

} // namespace conformance
