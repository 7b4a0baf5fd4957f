// SPDX-License-Identifier: MIT
// Calls the stand-ins for cuBLAS and cuBLASLt as a program does, and prints nothing if the answers are right.
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
int cublasCreate_v2(void** handle);
int cublasDestroy_v2(void* handle);
int cublasSetStream_v2(void* handle, CUstream);
int cublasGetStream_v2(void* handle, CUstream*);
int cublasSetWorkspace_v2(void* handle, void*, std::size_t);
int cublasSgemm_v2(void* handle, int, int, int, int, int, const float*, const float*, int, const float*, int,
                   const float*, float*, int);
int cublasSdot_v2(void* handle, int, const float*, int, const float*, int, float*);
int cublasLtMatrixLayoutCreate(void** layout, int, std::uint64_t, std::uint64_t, std::int64_t);
int cublasLtMatrixLayoutDestroy(void* layout);
int cublasLtMatmulDescCreate(void** description, int, int);
int cublasLtMatmulDescSetAttribute(void* description, int, const void*, std::size_t);
int cublasLtMatmulDescDestroy(void* description);
int cublasLtMatmul(void* handle, void* description, const void*, const void*, void*, const void*, void*,
                   const void*, const void*, void*, void*, void*, const void*, void*, std::size_t, CUstream);
}

#define EXPECT(call, wanted)                                                                                 \
  do {                                                                                                       \
    if (const long long got = static_cast<long long>(call); got != (wanted)) {                               \
      std::fprintf(stderr, "line %d: %s is %lld\n", __LINE__, #call, got);                                   \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (false)

int main() {
  void* handle = nullptr;
  EXPECT(cublasCreate_v2(nullptr), 7);
  EXPECT(cublasCreate_v2(&handle), 0);
  CUstream stream = nullptr, found = nullptr;
  EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
  EXPECT(cublasSetStream_v2(handle, stream), 0);
  EXPECT(cublasGetStream_v2(handle, &found), 0);
  EXPECT(found == stream, true);
  CUdeviceptr memory = 0;
  EXPECT(cuMemAlloc(&memory, 3 * 64 * 64 * sizeof(float)), 0);
  auto* const a = reinterpret_cast<float*>(memory);
  float *const b = a + 64 * 64, *const c = b + 64 * 64;
  EXPECT(cublasSetWorkspace_v2(handle, a, 4096), 0);
  EXPECT(cublasSetWorkspace_v2(handle, a + 1, 4096), 7);

  // A product is one kernel on the stream of the handle, with the pointers as its parameters.
  const float one = 1, zero = 0;
  const auto multiply = [&](int m, int leading) {
    return cublasSgemm_v2(handle, 1, 0, m, 64, 64, &one, a, 64, b, 64, &zero, c, leading);
  };
  CUgraph graph = nullptr;
  EXPECT(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
  EXPECT(multiply(64, 64), 0);
  EXPECT(multiply(0, 64), 0); // no kernel
  EXPECT(multiply(-1, 64), 7);
  EXPECT(multiply(64, 63), 7);
  EXPECT(cuStreamEndCapture(stream, &graph), 0);
  CUgraphNode nodes[2] = {};
  std::size_t count = 2;
  EXPECT(cuGraphGetNodes(graph, nodes, &count), 0);
  EXPECT(count, 1);
  CUDA_KERNEL_NODE_PARAMS parameters{};
  EXPECT(cuGraphKernelNodeGetParams(nodes[0], &parameters), 0);
  EXPECT(*static_cast<const float**>(parameters.kernelParams[0]) == a, true);
  EXPECT(*static_cast<const float**>(parameters.kernelParams[1]) == b, true);
  EXPECT(*static_cast<const float**>(parameters.kernelParams[3]) == c, true);
  EXPECT(*static_cast<const int*>(parameters.kernelParams[8]), 64);

  // A result on the host is waited for. It is not a number.
  float result = 3;
  EXPECT(cublasSdot_v2(handle, 64, a, 1, b, 1, &result), 0);
  EXPECT(cuStreamQuery(stream), 0);
  EXPECT(result != result, true);

  // cuBLASLt takes a handle of cuBLAS.
  void *layout = nullptr, *narrow = nullptr, *description = nullptr;
  EXPECT(cublasLtMatrixLayoutCreate(&layout, 0, 64, 64, 64), 0);
  EXPECT(cublasLtMatrixLayoutCreate(&narrow, 0, 64, 32, 64), 0);
  EXPECT(cublasLtMatmulDescCreate(&description, 68, 0), 0);
  const int transposed = 1;
  EXPECT(cublasLtMatmulDescSetAttribute(description, 3, &transposed, 4), 0);
  EXPECT(cublasLtMatmulDescSetAttribute(description, 3, &transposed, 8), 7);
  const auto matmul = [&](void* of_d) {
    return cublasLtMatmul(handle, description, &one, a, layout, b, layout, &zero, c, layout, c, of_d, nullptr,
                          nullptr, 0, stream);
  };
  EXPECT(matmul(layout), 0);
  EXPECT(matmul(narrow), 7);
  EXPECT(cublasLtMatmulDescDestroy(description), 0);
  EXPECT(cublasLtMatrixLayoutDestroy(layout), 0);
  EXPECT(cublasLtMatrixLayoutDestroy(narrow), 0);
  EXPECT(cublasDestroy_v2(handle), 0);
  EXPECT(cublasDestroy_v2(nullptr), 1);
}
