// SPDX-License-Identifier: MIT
// A program of the driver API alone, which the simulated driver runs.
#include <cuda.h>

int main() { return cuInit(0) == CUDA_SUCCESS ? 0 : 1; }
