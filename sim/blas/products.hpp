// SPDX-License-Identifier: MIT
// What the stand-ins for cuBLAS and cuBLASLt share: the codes, the types of numbers, and the launch of a
// product. They need no header of cuBLAS. Nothing here was measured: it follows cuBLAS's documentation.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cuevent::sim::blas {

/// The functions that programs call; list_blas.py reads the lines that begin with it.
#define BLAS extern "C" __attribute__((visibility("default")))

using Status = int; ///< cublasStatus_t
inline constexpr Status success = 0, not_initialized = 1, alloc_failed = 3, invalid_value = 7,
                        execution_failed = 13, not_supported = 15;

/// cublasOperation_t
inline constexpr int no_transpose = 0, transpose = 1, conjugate_transpose = 2;
inline bool is_operation(int operation) {
  return operation >= no_transpose && operation <= conjugate_transpose;
}

/// The types of cudaDataType_t that have products.
inline constexpr int f32 = 0, f64 = 1, f16 = 2, i8 = 3, c32 = 4, c64 = 5, bf16 = 14, f8_e4m3 = 28,
                     f8_e5m2 = 29;
/// As kernels are named, or null if no product is modelled for the type.
const char* name_of(int type);
inline bool is_f8(int type) { return type == f8_e4m3 || type == f8_e5m2; }

/// A program may pass a handle of cuBLAS to cuBLASLt.
struct Handle {
  static constexpr std::uint64_t living = 0x63756576656e7431;
  std::uint64_t mark = living;
  CUstream stream = nullptr;
  bool scalars_are_on_device = false; ///< CUBLAS_POINTER_MODE_DEVICE
  int math_mode = 0, atomics_mode = 0, multiprocessors = 0;
};

/// What a kernel gets. Unused ones are zero.
struct Launch {
  std::string kernel;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  const void* d = nullptr;
  const void* bias = nullptr;
  const void* auxiliary = nullptr;
  const void* alpha = nullptr; ///< if it is on the device
  const void* beta = nullptr;
  int m = 0, n = 0, k = 0, batches = 1;
};

/// "cublas_gemm_bf16_tn".
std::string product_name(int type, int operation_a, int operation_b);

/// Loads the kernels for the current context, or for the primary context of the first device. Not during a
/// capture.
Status load();

/// Does nothing if m, n or batches are zero.
Status launch(const Launch&, CUstream);

} // namespace cuevent::sim::blas
