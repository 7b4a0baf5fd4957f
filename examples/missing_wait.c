// SPDX-License-Identifier: MIT
/* A program with a mistake: one stream writes, another one reads, and nothing orders the two. It usually
   passes. With the argument "fixed", the reader waits. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static void check(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "CUresult %d\n", (int)result);
  exit(2);
}

int main(int argc, char** argv) {
  (void)argv;
  CUcontext context;
  CUstream writer, reader;
  CUevent written;
  CUdeviceptr memory;
  int *given, *seen;
  check(cuInit(0));
  check(cuDevicePrimaryCtxRetain(&context, 0));
  check(cuCtxSetCurrent(context));
  check(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING)); /* stream 1 */
  check(cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING)); /* stream 2 */
  check(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
  check(cuMemAlloc(&memory, sizeof(int)));
  check(cuMemsetD32(memory, 0, 1)); /* on the default stream, for which the others do not wait */
  check(cuCtxSynchronize());
  check(cuMemAllocHost((void**)&given, sizeof(int)));
  check(cuMemAllocHost((void**)&seen, sizeof(int)));
  *given = 7;

  check(cuMemcpyHtoDAsync(memory, given, sizeof(int), writer));
  check(cuEventRecord(written, writer));
  if (argc > 1) check(cuStreamWaitEvent(reader, written, CU_EVENT_WAIT_DEFAULT));
  check(cuMemcpyDtoHAsync(seen, memory, sizeof(int), reader));
  check(cuStreamSynchronize(reader));

  if (*seen == 7) return 0;
  fprintf(stderr, "read %d, not 7\n", *seen);
  return 1;
}
