// SPDX-License-Identifier: MIT
// Prints how many of 100 graphs have the handle of a destroyed event.
#include <cuda.h>
#include <stdio.h>

int main(void) {
  CUcontext context;
  CUevent events[100];
  CUgraph graph;
  int i, j, count = 0;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
  for (i = 0; i < 100; ++i)
    if (cuEventCreate(&events[i], 0)) return 1;
  for (i = 0; i < 100; ++i)
    if (cuEventDestroy(events[i])) return 1;
  for (i = 0; i < 100; ++i) {
    if (cuGraphCreate(&graph, 0)) return 1;
    for (j = 0; j < 100; ++j)
      count += (void*)graph == (void*)events[j];
  }
  printf("%d\n", count);
  return 0;
}
