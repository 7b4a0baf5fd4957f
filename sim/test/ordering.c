// SPDX-License-Identifier: MIT
/* A program with a missing wait: prints the order in which the kernels of two streams ended, and how many
   milliseconds the first kernel ran. */

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    if ((call) != CUDA_SUCCESS) {                                                                            \
      fprintf(stderr, "%s failed\n", #call);                                                                 \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

static void CUDA_CB print_letter(void* letter) { putchar(*(const char*)letter); }

int main(void) {
  static char letters[] = "ab";
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUstream streams[2];
  CUevent start, end;
  float milliseconds = 0;
  int i;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module,
                         ".version 8.0\n.target sm_50\n.address_size 64\n.visible .entry work() { ret; }\n"));
  CHECK(cuModuleGetFunction(&function, module, "work"));
  CHECK(cuEventCreate(&start, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  for (i = 0; i < 2; ++i)
    CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  CHECK(cuEventRecord(start, streams[0]));
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[0], NULL, NULL));
  CHECK(cuEventRecord(end, streams[0]));
  for (i = 0; i < 16; ++i) {
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[i % 2], NULL, NULL));
    CHECK(cuLaunchHostFunc(streams[i % 2], print_letter, &letters[i % 2]));
  }
  CHECK(cuStreamSynchronize(streams[0]));
  CHECK(cuStreamSynchronize(streams[1]));
  CHECK(cuEventElapsedTime(&milliseconds, start, end));
  printf(" %.0f\n", milliseconds);
  return 0;
}
