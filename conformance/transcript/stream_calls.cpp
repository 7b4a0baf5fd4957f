// SPDX-License-Identifier: MIT
// Callbacks, attributes and lists of memory operations of streams, and what each kind of free waits for.

#include "everywhere.hpp"

#include <array>
#include <sys/mman.h>

namespace transcript {
namespace {

using namespace std::chrono_literals;

void callbacks(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  struct Told {
    std::atomic<int> calls = 0, status = 77;
    std::atomic<CUstream> stream = nullptr;
  } told;
  const auto tell = [](CUstream on, CUresult status, void* data) {
    auto& here = *static_cast<Told*>(data);
    here.stream = on;
    here.status = status;
    ++here.calls;
  };
  lab.is("add", cu.StreamAddCallback(stream, tell, &told, 0));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  lab.shows("calls", told.calls.load());
  lab.shows("status", told.status.load());
  lab.shows("stream_is_the_stream", told.stream.load() == CUstream(stream));
  lab.is("flags", cu.StreamAddCallback(stream, tell, &told, 1));
  lab.is("null", cu.StreamAddCallback(stream, nullptr, &told, 0));
  lab.is("null_stream", cu.StreamAddCallback(nullptr, tell, &told, 0));
  cu.CtxSynchronize();
  lab.shows("null_stream.stream_is_null", told.stream.load() == nullptr);
  {
    Gate gate(lab, stream);
    lab.is("held", cu.StreamAddCallback(stream, tell, &told, 0));
    lab.is("held.query", cu.StreamQuery(stream));
  }
  cu.StreamSynchronize(stream);
  everywhere_and_captured(lab, "add", [&](CUstream on) { return cu.StreamAddCallback(on, tell, &told, 0); });
}

void attributes(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab), second(lab);
  CUstreamAttrValue value{};
  for (int which = 0; which <= 16; ++which) {
    value = {};
    const auto attribute = number<CUstreamAttrID>(which);
    const CUresult got = cu.StreamGetAttribute(stream, attribute, &value);
    lab.is("get." + std::to_string(which), got);
    lab.is("set." + std::to_string(which), cu.StreamSetAttribute(stream, attribute, &value));
  }
  lab.is("get.unknown", cu.StreamGetAttribute(stream, number<CUstreamAttrID>(99), &value));
  value = {};
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  constexpr auto policy = CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
  lab.is("set", cu.StreamSetAttribute(stream, policy, &value));
  lab.is("copy", cu.StreamCopyAttributes(second, stream));
  value = {};
  lab.is("get", cu.StreamGetAttribute(second, policy, &value));
  lab.shows("get.value", static_cast<int>(value.syncPolicy));
  value.syncPolicy = number<CUsynchronizationPolicy>(9);
  lab.is("set.unknown_policy", cu.StreamSetAttribute(stream, policy, &value));
  value.syncPolicy = CU_SYNC_POLICY_AUTO;
  everywhere_and_captured(lab, "get", [&](CUstream on) { return cu.StreamGetAttribute(on, policy, &value); });
  everywhere_and_captured(lab, "set", [&](CUstream on) { return cu.StreamSetAttribute(on, policy, &value); });
  everywhere_and_captured(lab, "copy", [&](CUstream on) { return cu.StreamCopyAttributes(on, second); });
}

// The values of a new stream.
void more_attributes(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUstreamAttrValue value{};
  const auto get = [&](CUstreamAttrID attribute) {
    value = {};
    lab.must(cu.StreamGetAttribute(stream, attribute, &value), "cuStreamGetAttribute");
  };
  get(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
  lab.shows("window.bytes", value.accessPolicyWindow.num_bytes);
  get(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY);
  lab.shows("policy", static_cast<int>(value.syncPolicy));
  get(CU_LAUNCH_ATTRIBUTE_PRIORITY);
  lab.shows("priority", value.priority);
  get(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP);
  lab.shows("domain_map", std::to_string(value.memSyncDomainMap.default_) + ", " +
                              std::to_string(value.memSyncDomainMap.remote));
  get(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
  lab.shows("domain", static_cast<int>(value.memSyncDomain));
}

// Other values than `attributes` sets.
void changed_attributes(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUstreamAttrValue value{};
  constexpr auto policy = CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
  for (const auto wish : {CU_SYNC_POLICY_SPIN, CU_SYNC_POLICY_YIELD, CU_SYNC_POLICY_BLOCKING_SYNC}) {
    value = {};
    value.syncPolicy = wish;
    lab.is("set.policy_" + std::to_string(static_cast<int>(wish)),
           cu.StreamSetAttribute(stream, policy, &value));
  }
  everywhere_and_captured(lab, "set", [&](CUstream on) { return cu.StreamSetAttribute(on, policy, &value); });
  value = {};
  value.priority = -1;
  lab.is("set.priority", cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  value = {};
  value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  lab.is("set.domain", cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
  const auto values = [&](const std::string& name) {
    int priority = 0;
    lab.is(name + ".get.priority", cu.StreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    lab.shows(name + ".get.priority.value", value.priority);
    lab.must(cu.StreamGetPriority(stream, &priority), "cuStreamGetPriority");
    lab.shows(name + ".priority", priority);
    lab.is(name + ".get.domain", cu.StreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
    lab.shows(name + ".get.domain.value", static_cast<int>(value.memSyncDomain));
    lab.is(name + ".get.map", cu.StreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value));
    lab.shows(name + ".get.map.value", std::to_string(value.memSyncDomainMap.default_) + ", " +
                                           std::to_string(value.memSyncDomainMap.remote));
    lab.is(name + ".get.policy", cu.StreamGetAttribute(stream, policy, &value));
    lab.shows(name + ".get.policy.value", static_cast<int>(value.syncPolicy));
    lab.is(name + ".get.window",
           cu.StreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    lab.shows(name + ".get.window.bytes", value.accessPolicyWindow.num_bytes);
  };
  values("changed");
  for (const int priority : {-100, -3, 0, 5}) {
    value = {};
    value.priority = priority;
    lab.is("set.priority_" + std::to_string(priority),
           cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    lab.must(cu.StreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value), "cuStreamGetAttribute");
    lab.shows("set.priority_" + std::to_string(priority) + ".value", value.priority);
  }
  for (const int remote : {0, 2, 3, 4, 9}) {
    value = {};
    value.memSyncDomainMap.remote = static_cast<unsigned char>(remote);
    lab.is("set.map_" + std::to_string(remote),
           cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value));
  }
  value = {};
  value.memSyncDomain = number<CUlaunchMemSyncDomain>(7);
  lab.is("set.unknown_domain", cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
  CUdeviceptr memory = 0;
  lab.must(cu.MemAlloc(&memory, 4096), "cuMemAlloc");
  for (const float ratio : {0.5F, 2.0F}) {
    value = {};
    value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(memory);
    value.accessPolicyWindow.num_bytes = 4096;
    value.accessPolicyWindow.hitRatio = ratio;
    value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_STREAMING;
    lab.is(ratio < 1 ? "set.window" : "set.window.ratio",
           cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
  }
  values("changed_again");
  Stream second(lab);
  value = {};
  value.priority = -2;
  lab.must(cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value), "cuStreamSetAttribute");
  lab.is("copy", cu.StreamCopyAttributes(second, stream));
  lab.must(cu.StreamGetAttribute(second, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value), "cuStreamGetAttribute");
  lab.shows("copy.priority", value.priority);
  lab.must(cu.StreamGetAttribute(second, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value),
           "cuStreamGetAttribute");
  lab.shows("copy.domain", static_cast<int>(value.memSyncDomain));
  lab.must(cu.StreamGetAttribute(second, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value),
           "cuStreamGetAttribute");
  lab.shows("copy.window.bytes", value.accessPolicyWindow.num_bytes);
}

// Values at the bounds, and changes in a capture.
void bounds_of_attributes(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUdeviceptr memory = 0;
  lab.must(cu.MemAlloc(&memory, 4096), "cuMemAlloc");
  CUstreamAttrValue value{};
  const auto window = [&](float ratio, CUdeviceptr at, std::size_t bytes) {
    value = {};
    value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(at);
    value.accessPolicyWindow.num_bytes = bytes;
    value.accessPolicyWindow.hitRatio = ratio;
    value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    return cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value);
  };
  lab.is("window", window(1, memory, 4096));
  lab.is("window.negative_ratio", window(-0.5F, memory, 4096));
  lab.is("window.null", window(0.5F, 0, 4096));
  lab.is("window.beyond_the_memory", window(0.5F, memory, std::size_t{64} << 20));
  lab.is("window.large", window(0.5F, memory, std::size_t{1} << 40));
  value.accessPolicyWindow.num_bytes = 4096;
  value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_PERSISTING;
  lab.is("window.persisting_miss",
         cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
  for (const int domain : {3, 4}) {
    value = {};
    value.memSyncDomainMap = {static_cast<unsigned char>(domain), 1};
    lab.is("map.default_" + std::to_string(domain),
           cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value));
  }
  for (const auto attribute :
       {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_PRIORITY,
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN}) {
    value = {};
    everywhere_and_captured(lab, "set_" + std::to_string(static_cast<int>(attribute)),
                            [&](CUstream on) { return cu.StreamSetAttribute(on, attribute, &value); });
  }
  Stream second(lab);
  lab.is("copy", cu.StreamCopyAttributes(second, stream));
  lab.must(cu.StreamGetAttribute(second, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value),
           "cuStreamGetAttribute");
  lab.shows("copy.map", std::to_string(value.memSyncDomainMap.default_) + ", " +
                            std::to_string(value.memSyncDomainMap.remote));
}

// Crashes a device.
void null_attribute(Lab& lab) {
  Stream stream(lab);
  lab.is("set", lab.cu.StreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, nullptr));
}

void memory_operations(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  unsigned* const first = lab.word();
  unsigned* const second = lab.word();
  const auto write = [](unsigned* word, unsigned value) {
    CUstreamBatchMemOpParams operation{};
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = Lab::address(word);
    operation.writeValue.value = value;
    return operation;
  };
  CUstreamBatchMemOpParams list[] = {write(first, 3), write(second, 4)};
  lab.is("call", cu.StreamBatchMemOp(stream, 2, list, 0));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  lab.shows("values", std::to_string(*first) + ", " + std::to_string(*second));
  lab.is("nothing", cu.StreamBatchMemOp(stream, 0, list, 0));
  lab.is("too_many", cu.StreamBatchMemOp(stream, 257, list, 0));
  lab.is("flags", cu.StreamBatchMemOp(stream, 2, list, 1));
  list[1].operation = number<CUstreamBatchMemOpType>(99);
  lab.is("unknown", cu.StreamBatchMemOp(stream, 2, list, 0));
  list[1] = write(second, 5);
  list[1].writeValue.address = 0;
  lab.is("null", cu.StreamBatchMemOp(stream, 2, list, 0));
  list[1] = write(second, 6);
  list[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  list[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  lab.is("wait", cu.StreamBatchMemOp(stream, 2, list, 0));
  lab.is("wait.query", cu.StreamQuery(stream));
  std::atomic_ref<unsigned>(*second).store(6);
  lab.is("wait.synchronize", cu.StreamSynchronize(stream));
  list[1] = write(second, 7);
  everywhere_and_captured(lab, "call", [&](CUstream on) { return cu.StreamBatchMemOp(on, 2, list, 0); });
}

} // namespace

std::vector<Scenario> stream_calls_scenarios() {
  return {{"streams.callbacks", callbacks, Place::child},
          {"streams.attributes", attributes, Place::child},
          {"streams.more_attributes", more_attributes, Place::child},
          {"streams.changed_attributes", changed_attributes, Place::child},
          {"streams.bounds_of_attributes", bounds_of_attributes, Place::child},
          {"streams.null_attribute", null_attribute, Place::alone},
          {"streams.memory_operations", memory_operations, Place::child}};
}

} // namespace transcript
