// SPDX-License-Identifier: MIT
// Handles and products. Each product is one kernel, with its pointers as parameters, on the stream of its
// handle.
#include "products.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <set>

namespace cuevent::sim::blas {
namespace {

class Handles {
public:
  Handle* add() {
    auto* const handle = new Handle;
    const std::lock_guard lock(mutex_);
    living_.insert(handle);
    return handle;
  }

  bool has(Handle* handle) {
    const std::lock_guard lock(mutex_);
    return living_.count(handle) != 0;
  }

  void remove(Handle* handle) {
    {
      const std::lock_guard lock(mutex_);
      living_.erase(handle);
    }
    handle->mark = 0;
    delete handle;
  }

private:
  std::mutex mutex_;
  std::set<Handle*> living_;
};

Handles& handles() {
  static auto& all = *new Handles; // programs destroy handles when they end
  return all;
}

/// False for null. The simulator ends a program that uses a handle after its end.
bool is_usable(Handle* handle) {
  if (handle == nullptr) return false;
  if (handles().has(handle)) return true;
  std::fprintf(stderr,
               "cuevent sim: the program uses a handle of cuBLAS that was destroyed or never created. On a "
               "device the result is undefined\n");
  std::abort();
}

template <class Act>
Status with(Handle* handle, Act act) {
  return is_usable(handle) ? act(*handle) : not_initialized;
}

template <class Value>
Status answer(Handle* handle, Value* value, Value Handle::*member) {
  return with(handle, [=](Handle& all) {
    if (value == nullptr) return invalid_value;
    *value = all.*member;
    return success;
  });
}

/// A matrix of this many rows fits.
bool fits(int rows, int leading) { return leading >= std::max(1, rows); }

struct Matrix {
  const void* begin;
  int type;
  int leading;
};

Status product(Handle* handle, int operation_a, int operation_b, int m, int n, int k, const void* alpha,
               Matrix a, Matrix b, const void* beta, Matrix c, int batches) {
  return with(handle, [=](const Handle& all) {
    if (!is_operation(operation_a) || !is_operation(operation_b) || m < 0 || n < 0 || k < 0 || batches < 0 ||
        alpha == nullptr || beta == nullptr || !fits(operation_a == no_transpose ? m : k, a.leading) ||
        !fits(operation_b == no_transpose ? k : n, b.leading) || !fits(m, c.leading))
      return invalid_value;
    if (name_of(a.type) == nullptr || a.type != b.type || is_f8(a.type)) return not_supported;
    Launch how;
    how.kernel = product_name(a.type, operation_a, operation_b);
    how.a = a.begin;
    how.b = b.begin;
    how.c = c.begin;
    how.d = c.begin;
    if (all.scalars_are_on_device) how.alpha = alpha, how.beta = beta;
    how.m = m, how.n = n, how.k = k, how.batches = batches;
    return launch(how, all.stream);
  });
}

/// An operation of another kind. The sizes are of its result.
Status other(Handle* handle, const char* operation, int type, Launch how) {
  return with(handle, [&](const Handle& all) {
    if (how.m < 0 || how.n < 0 || how.k < 0 || how.batches < 0) return invalid_value;
    if (!all.scalars_are_on_device) how.alpha = how.beta = nullptr;
    how.kernel = std::string("cublas_") + operation + '_' + name_of(type);
    return launch(how, all.stream);
  });
}

/// A number that nothing computed is not a number.
void write_nothing(void* result, int type) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const bool is_complex = type == c32 || type == c64;
  for (int part = 0; part < (is_complex ? 2 : 1); ++part) {
    if (type == f64 || type == c64)
      static_cast<double*>(result)[part] = nan;
    else if (type == f32 || type == c32)
      static_cast<float*>(result)[part] = static_cast<float>(nan);
    else
      static_cast<std::uint16_t*>(result)[part] = 0x7fff; // in both formats of 16 bits
  }
}

/// Waits if the result is the host's, as cuBLAS does.
Status dot(Handle* handle, int n, const void* x, const void* y, void* result, int type) {
  return with(handle, [=](const Handle& all) {
    if (result == nullptr) return invalid_value;
    Launch how;
    how.a = x, how.b = y, how.m = n < 0 ? 0 : n, how.n = 1;
    if (all.scalars_are_on_device) how.d = result;
    if (const Status launched = other(handle, "dot", type, how); launched != success) return launched;
    if (all.scalars_are_on_device) return success;
    if (cuStreamSynchronize(all.stream) != CUDA_SUCCESS) return execution_failed;
    write_nothing(result, type);
    return success;
  });
}

} // namespace

// Handles

BLAS Status cublasCreate_v2(Handle** handle) {
  if (handle == nullptr) return invalid_value;
  const Status loaded = load();
  if (loaded == success) *handle = handles().add();
  return loaded;
}

/// Waits for all work of the device, as cuBLAS does.
BLAS Status cublasDestroy_v2(Handle* handle) {
  return with(handle, [=](Handle&) {
    cuCtxSynchronize();
    handles().remove(handle);
    return success;
  });
}

BLAS Status cublasSetStream_v2(Handle* handle, CUstream stream) {
  return with(handle, [=](Handle& all) { return all.stream = stream, success; });
}
BLAS Status cublasGetStream_v2(Handle* handle, CUstream* stream) {
  return answer(handle, stream, &Handle::stream);
}

BLAS Status cublasSetMathMode(Handle* handle, int mode) {
  return with(handle, [=](Handle& all) { return all.math_mode = mode, success; });
}
BLAS Status cublasGetMathMode(Handle* handle, int* mode) { return answer(handle, mode, &Handle::math_mode); }

BLAS Status cublasSetAtomicsMode(Handle* handle, int mode) {
  return with(handle, [=](Handle& all) { return all.atomics_mode = mode, success; });
}
BLAS Status cublasGetAtomicsMode(Handle* handle, int* mode) {
  return answer(handle, mode, &Handle::atomics_mode);
}

BLAS Status cublasSetSmCountTarget(Handle* handle, int count) {
  return with(handle, [=](Handle& all) {
    if (count < 0) return invalid_value;
    return all.multiprocessors = count, success;
  });
}
BLAS Status cublasGetSmCountTarget(Handle* handle, int* count) {
  return answer(handle, count, &Handle::multiprocessors);
}

BLAS Status cublasSetPointerMode_v2(Handle* handle, int mode) {
  return with(handle, [=](Handle& all) {
    if (mode != 0 && mode != 1) return invalid_value;
    return all.scalars_are_on_device = mode == 1, success;
  });
}
BLAS Status cublasGetPointerMode_v2(Handle* handle, int* mode) {
  return with(handle, [=](const Handle& all) {
    if (mode == nullptr) return invalid_value;
    return *mode = all.scalars_are_on_device ? 1 : 0, success;
  });
}

/// The memory must be aligned to 256 bytes. The kernels here use none of it.
BLAS Status cublasSetWorkspace_v2(Handle* handle, void* workspace, std::size_t) {
  return with(handle, [=](Handle&) {
    return reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0 ? invalid_value : success;
  });
}

BLAS Status cublasGetVersion_v2(Handle*, int* version) {
  if (version == nullptr) return invalid_value;
  return *version = BLAS_VERSION, success;
}

BLAS Status cublasGetProperty(int property, int* value) {
  if (value == nullptr || property < 0 || property > 2) return invalid_value;
  constexpr int parts[] = {BLAS_VERSION / 10000, BLAS_VERSION / 100 % 100, BLAS_VERSION % 100};
  return *value = parts[property], success;
}

// Products of numbers of any type

BLAS Status cublasGemmEx(Handle* handle, int operation_a, int operation_b, int m, int n, int k,
                         const void* alpha, const void* a, int type_a, int leading_a, const void* b,
                         int type_b, int leading_b, const void* beta, void* c, int type_c, int leading_c, int,
                         int) {
  return product(handle, operation_a, operation_b, m, n, k, alpha, {a, type_a, leading_a},
                 {b, type_b, leading_b}, beta, {c, type_c, leading_c}, 1);
}

BLAS Status cublasGemmStridedBatchedEx(Handle* handle, int operation_a, int operation_b, int m, int n, int k,
                                       const void* alpha, const void* a, int type_a, int leading_a, long long,
                                       const void* b, int type_b, int leading_b, long long, const void* beta,
                                       void* c, int type_c, int leading_c, long long, int batches, int, int) {
  return product(handle, operation_a, operation_b, m, n, k, alpha, {a, type_a, leading_a},
                 {b, type_b, leading_b}, beta, {c, type_c, leading_c}, batches);
}

BLAS Status cublasGemmBatchedEx(Handle* handle, int operation_a, int operation_b, int m, int n, int k,
                                const void* alpha, const void* const* a, int type_a, int leading_a,
                                const void* const* b, int type_b, int leading_b, const void* beta,
                                void* const* c, int type_c, int leading_c, int batches, int, int) {
  return product(handle, operation_a, operation_b, m, n, k, alpha, {a, type_a, leading_a},
                 {b, type_b, leading_b}, beta, {c, type_c, leading_c}, batches);
}

BLAS Status cublasSgemmEx(Handle* handle, int operation_a, int operation_b, int m, int n, int k,
                          const float* alpha, const void* a, int type_a, int leading_a, const void* b,
                          int type_b, int leading_b, const float* beta, void* c, int type_c, int leading_c) {
  return product(handle, operation_a, operation_b, m, n, k, alpha, {a, type_a, leading_a},
                 {b, type_b, leading_b}, beta, {c, type_c, leading_c}, 1);
}

BLAS Status cublasDotEx(Handle* handle, int n, const void* x, int type_x, int, const void* y, int type_y, int,
                        void* result, int type, int) {
  if (type_x != type || type_y != type || name_of(type) == nullptr || type == i8 || is_f8(type))
    return not_supported;
  return dot(handle, n, x, y, result, type);
}

BLAS Status cublasCdotc_v2(Handle* handle, int n, const void* x, int, const void* y, int, void* result) {
  return dot(handle, n, x, y, result, c32);
}
BLAS Status cublasZdotc_v2(Handle* handle, int n, const void* x, int, const void* y, int, void* result) {
  return dot(handle, n, x, y, result, c64);
}
BLAS Status cublasCdotu_v2(Handle* handle, int n, const void* x, int, const void* y, int, void* result) {
  return dot(handle, n, x, y, result, c32);
}
BLAS Status cublasZdotu_v2(Handle* handle, int n, const void* x, int, const void* y, int, void* result) {
  return dot(handle, n, x, y, result, c64);
}
BLAS Status cublasSdot_v2(Handle* handle, int n, const void* x, int, const void* y, int, void* result) {
  return dot(handle, n, x, y, result, f32);
}
BLAS Status cublasDdot_v2(Handle* handle, int n, const void* x, int, const void* y, int, void* result) {
  return dot(handle, n, x, y, result, f64);
}

// The same for each of four types, which are in the names

#define OF_TYPE(LETTER, type)                                                                                \
  BLAS Status cublas##LETTER##gemm_v2(Handle* handle, int operation_a, int operation_b, int m, int n, int k, \
                                      const void* alpha, const void* a, int leading_a, const void* b,        \
                                      int leading_b, const void* beta, void* c, int leading_c) {             \
    return product(handle, operation_a, operation_b, m, n, k, alpha, {a, type, leading_a},                   \
                   {b, type, leading_b}, beta, {c, type, leading_c}, 1);                                     \
  }                                                                                                          \
  BLAS Status cublas##LETTER##gemmStridedBatched(                                                            \
      Handle* handle, int operation_a, int operation_b, int m, int n, int k, const void* alpha,              \
      const void* a, int leading_a, long long, const void* b, int leading_b, long long, const void* beta,    \
      void* c, int leading_c, long long, int batches) {                                                      \
    return product(handle, operation_a, operation_b, m, n, k, alpha, {a, type, leading_a},                   \
                   {b, type, leading_b}, beta, {c, type, leading_c}, batches);                               \
  }                                                                                                          \
  BLAS Status cublas##LETTER##gemmBatched(Handle* handle, int operation_a, int operation_b, int m, int n,    \
                                          int k, const void* alpha, const void* a, int leading_a,            \
                                          const void* b, int leading_b, const void* beta, void* c,           \
                                          int leading_c, int batches) {                                      \
    return product(handle, operation_a, operation_b, m, n, k, alpha, {a, type, leading_a},                   \
                   {b, type, leading_b}, beta, {c, type, leading_c}, batches);                               \
  }                                                                                                          \
  BLAS Status cublas##LETTER##gemv_v2(Handle* handle, int operation, int m, int n, const void* alpha,        \
                                      const void* a, int leading, const void* x, int step_x,                 \
                                      const void* beta, void* y, int step_y) {                               \
    if (is_usable(handle) &&                                                                                 \
        (!is_operation(operation) || m < 0 || n < 0 || !fits(m, leading) || step_x == 0 || step_y == 0))     \
      return invalid_value;                                                                                  \
    return other(handle, "gemv", type, {{}, a, x, y, y, nullptr, nullptr, alpha, beta, m, n, 0, 1});         \
  }                                                                                                          \
  BLAS Status cublas##LETTER##trsm_v2(Handle* handle, int, int, int, int, int m, int n, const void* alpha,   \
                                      const void* a, int, void* b, int) {                                    \
    return other(handle, "trsm", type,                                                                       \
                 {{}, a, b, nullptr, b, nullptr, nullptr, alpha, nullptr, m, n, 0, 1});                      \
  }                                                                                                          \
  BLAS Status cublas##LETTER##trsmBatched(Handle* handle, int, int, int, int, int m, int n,                  \
                                          const void* alpha, const void* a, int, void* b, int,               \
                                          int batches) {                                                     \
    return other(handle, "trsm", type,                                                                       \
                 {{}, a, b, nullptr, b, nullptr, nullptr, alpha, nullptr, m, n, 0, batches});                \
  }

OF_TYPE(S, f32)
OF_TYPE(D, f64)
OF_TYPE(C, c32)
OF_TYPE(Z, c64)

} // namespace cuevent::sim::blas
