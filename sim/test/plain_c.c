// SPDX-License-Identifier: MIT
/* A program that links libcuda and never heard of cuevent: it runs on whichever driver the loader finds. */

#include <cuda.h>
#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    CUresult result_ = (call);                                                                               \
    if (result_ != CUDA_SUCCESS) {                                                                           \
      const char* name_ = NULL;                                                                              \
      cuGetErrorName(result_, &name_);                                                                       \
      fprintf(stderr, "%s: %s\n", #call, name_ != NULL ? name_ : "?");                                       \
      return 1;                                                                                              \
    }                                                                                                        \
  } while (0)

static volatile int gate_open = 0;
static void CUDA_CB gate(void* unused) {
  (void)unused;
  while (!__atomic_load_n(&gate_open, __ATOMIC_ACQUIRE)) {
  }
}

int main(void) {
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUevent start, end;
  CUdeviceptr memory;
  CUmodule module;
  CUfunction function;
  char name[64];
  unsigned values[64];
  unsigned back[64];
  float milliseconds = -1;
  int version = 0;
  int i;

  /* A program may link a function that is not modelled, as long as it does not call the function. */
  {
    CUresult (*linked)(CUexternalMemory*, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*) = cuImportExternalMemory;
    void* found = NULL;
    CUdriverProcAddressQueryResult status;
    CHECK(cuGetProcAddress("cuImportExternalMemory", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    if (memcmp(&found, &linked, sizeof found) != 0) return 1;
  }
  CHECK(cuInit(0));
  CHECK(cuDriverGetVersion(&version));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDeviceGetName(name, sizeof name, device));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxPushCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&start, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  CHECK(cuMemAlloc(&memory, sizeof values));
  CHECK(cuModuleLoadData(&module,
                         ".version 6.0 .target sm_50 .address_size 64 .visible .entry nothing() { ret; }"));
  CHECK(cuModuleGetFunction(&function, module, "nothing"));

  for (i = 0; i < 64; ++i)
    values[i] = (unsigned)i;
  CHECK(cuEventRecord(start, stream));
  CHECK(cuMemcpyHtoDAsync(memory, values, sizeof values, stream));
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
  CHECK(cuLaunchHostFunc(stream, gate, NULL));
  CHECK(cuEventRecord(end, stream));
  if (cuEventQuery(end) != CUDA_ERROR_NOT_READY) return 2;
  __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
  CHECK(cuEventSynchronize(end));
  CHECK(cuEventElapsedTime(&milliseconds, start, end));
  CHECK(cuMemcpyDtoH(back, memory, sizeof back));
  for (i = 0; i < 64; ++i)
    if (back[i] != values[i]) return 3;
  if (!(milliseconds > 0)) return 4;
  printf("%s, driver %d: %s\n", name, version, "events work");

  CHECK(cuEventDestroy(start));
  CHECK(cuCtxPopCurrent(&context));
  return 0; /* and leaves the rest to the end of the process, as programs do */
}
