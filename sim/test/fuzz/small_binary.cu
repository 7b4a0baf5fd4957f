// SPDX-License-Identifier: MIT
// The files in corpus/binary_code were made from this: with nvcc -arch=sm_90 -cubin of CUDA 13.0, with ptxas
// of CUDA 12.1, with nvcc -fatbin --compress-mode=size, with fatbinary --compress-mode=speed
// --compress-all, and with nvcc -rdc=true -c and ar.

struct Odd {
  char c[13];
};
extern "C" {
__device__ int counter = 7;
__device__ double table[3];
__constant__ float row[5] = {1, 2};
__global__ void __launch_bounds__(128) odd(char a, double b, Odd c, short d, int* out) {
  __shared__ int room[16];
  room[d & 15] = a;
  __syncthreads();
  *out = room[0] + (int)b + c.c[2] + counter + (int)table[0] + (int)row[a];
}
__global__ void none() {}
}
