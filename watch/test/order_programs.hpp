// SPDX-License-Identifier: MIT
// What the programs of `cuevent watch --order` share. PAIR defines a mistake, and its twin in which it is
// corrected; HARMLESS_ORDER defines a program that is right.
#pragma once

#include "programs.hpp"

#include <kernels.hpp>

#include <cstdint>
#include <thread>

struct OrderProgram {
  const char* rule; // that finds the mistake, or "" for a program that is right
  const char* name;
  const char* what; // what is wrong
  bool needs_pools; // what the simulator may not model
  void (*run)(Gpu&, bool corrected);
};

inline std::vector<OrderProgram>& order_programs() {
  static std::vector<OrderProgram> all;
  return all;
}

struct ListedOrder {
  explicit ListedOrder(const OrderProgram& program) { order_programs().push_back(program); }
};

#define CUEVENT_ORDER_PROGRAM(rule, name, what, pools)                                                       \
  static void name(Gpu&, bool);                                                                              \
  static const ListedOrder listed_##name({rule, #name, what, pools, name});                                  \
  static void name([[maybe_unused]] Gpu& gpu, [[maybe_unused]] bool corrected)
/// The finding has to name the two lines that end with `//!`. `corrected` is true in the twin.
#define PAIR(rule, name, what) CUEVENT_ORDER_PROGRAM(rule, name, what, false)
#define POOL_PAIR(rule, name, what) CUEVENT_ORDER_PROGRAM(rule, name, what, true)
#define HARMLESS_ORDER(name, what) CUEVENT_ORDER_PROGRAM("", name, what, false)
#define HARMLESS_POOL(name, what) CUEVENT_ORDER_PROGRAM("", name, what, true)

constexpr std::size_t block = 4096;

inline CUdeviceptr on_device(std::size_t bytes = block) {
  CUdeviceptr memory = 0;
  expect(cuMemAlloc(&memory, bytes));
  return memory;
}
inline char* pinned(std::size_t bytes = block) {
  void* memory = nullptr;
  expect(cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE));
  return static_cast<char*>(memory);
}
inline CUdeviceptr from_pool(CUstream on, std::size_t bytes = block) {
  CUdeviceptr memory = 0;
  expect(cuMemAllocAsync(&memory, bytes, on));
  return memory;
}
inline void zero(CUdeviceptr memory, CUstream on) { expect(cuMemsetD8Async(memory, 0, block, on)); }
inline void finish(CUstream on) { expect(cuStreamSynchronize(on)); }

/// `later` waits for what `earlier` has got so far.
inline void order(const Gpu& gpu, CUstream earlier, CUstream later) {
  CUevent event = gpu.event();
  expect(cuEventRecord(event, earlier));
  expect(cuStreamWaitEvent(later, event, 0));
  expect(cuEventDestroy(event));
}

inline CUfunction kernel(const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  expect(cuModuleLoadData(&module, kernels));
  expect(cuModuleGetFunction(&function, module, name));
  return function;
}
