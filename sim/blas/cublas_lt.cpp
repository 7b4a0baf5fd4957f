// SPDX-License-Identifier: MIT
// Descriptors, heuristics that answer with one algorithm, and the product.
#include "products.hpp"

#include <cstring>
#include <new>

namespace cuevent::sim::blas {
namespace {

/// An attribute: where it is in its descriptor, and its size. A size of zero stands for no attribute.
struct Place {
  std::size_t offset = 0, bytes = 0;
};

// Programs may keep descriptors in memory of their own, which is as large as cublasLt.h says.

struct Layout {
  static constexpr std::size_t most_bytes = 64; // of version 12; there are more in 13
  std::int32_t type = 0, order = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
  std::int32_t batches = 1, batch_mode = 0;
  std::int64_t stride = 0, plane = 0;

  static Place place(int attribute) {
    switch (attribute) {
    case 0:
      return {offsetof(Layout, type), 4};
    case 1:
      return {offsetof(Layout, order), 4};
    case 2:
      return {offsetof(Layout, rows), 8};
    case 3:
      return {offsetof(Layout, columns), 8};
    case 4:
      return {offsetof(Layout, leading), 8};
    case 5:
      return {offsetof(Layout, batches), 4};
    case 6:
      return {offsetof(Layout, stride), 8};
    case 7:
      return {offsetof(Layout, plane), 8};
    case 8:
      return {offsetof(Layout, batch_mode), 4};
    default:
      return {};
    }
  }
};
static_assert(sizeof(Layout) <= Layout::most_bytes);

struct Description {
  static constexpr std::size_t most_bytes = 256;
  const void *bias = nullptr, *auxiliary = nullptr;
  const void *scale_a = nullptr, *scale_b = nullptr, *scale_c = nullptr, *scale_d = nullptr,
             *most_d = nullptr;
  const void *auxiliary_scale = nullptr, *auxiliary_most = nullptr, *scale_d_out = nullptr,
             *emulation = nullptr;
  std::int64_t bias_stride = 0, auxiliary_leading = 0, auxiliary_stride = 0, alpha_vector_stride = 0;
  std::int64_t alpha_stride = 0, beta_stride = 0;
  std::int32_t compute = 0, scale_type = 0, pointer_mode = 0;
  std::int32_t operation_a = 0, operation_b = 0, operation_c = 0, fill = 2, epilogue = 1;
  std::int32_t multiprocessors = 0, auxiliary_type = -1, bias_type = -1;
  std::int32_t modes[5] = {}, mode_d_out = 0; // of scales: of A, B, C, D, and the auxiliary output
  std::int8_t fast_accumulation = 0;

  static Place place(int attribute) {
    switch (attribute) {
    case 0:
      return {offsetof(Description, compute), 4};
    case 1:
      return {offsetof(Description, scale_type), 4};
    case 2:
      return {offsetof(Description, pointer_mode), 4};
    case 3:
      return {offsetof(Description, operation_a), 4};
    case 4:
      return {offsetof(Description, operation_b), 4};
    case 5:
      return {offsetof(Description, operation_c), 4};
    case 6:
      return {offsetof(Description, fill), 4};
    case 7:
      return {offsetof(Description, epilogue), 4};
    case 8:
      return {offsetof(Description, bias), 8};
    case 10:
      return {offsetof(Description, bias_stride), 8};
    case 11:
      return {offsetof(Description, auxiliary), 8};
    case 12:
      return {offsetof(Description, auxiliary_leading), 8};
    case 13:
      return {offsetof(Description, auxiliary_stride), 8};
    case 14:
      return {offsetof(Description, alpha_vector_stride), 8};
    case 15:
      return {offsetof(Description, multiprocessors), 4};
    case 17:
      return {offsetof(Description, scale_a), 8};
    case 18:
      return {offsetof(Description, scale_b), 8};
    case 19:
      return {offsetof(Description, scale_c), 8};
    case 20:
      return {offsetof(Description, scale_d), 8};
    case 21:
      return {offsetof(Description, most_d), 8};
    case 22:
      return {offsetof(Description, auxiliary_type), 4};
    case 23:
      return {offsetof(Description, auxiliary_scale), 8};
    case 24:
      return {offsetof(Description, auxiliary_most), 8};
    case 25:
      return {offsetof(Description, fast_accumulation), 1};
    case 26:
      return {offsetof(Description, bias_type), 4};
    case 31:
    case 32:
    case 33:
    case 34:
    case 35:
      return {offsetof(Description, modes) + 4 * static_cast<std::size_t>(attribute - 31), 4};
    case 36:
      return {offsetof(Description, scale_d_out), 8};
    case 37:
      return {offsetof(Description, mode_d_out), 4};
    case 38:
      return {offsetof(Description, emulation), 8};
    case 39:
      return {offsetof(Description, alpha_stride), 8};
    case 40:
      return {offsetof(Description, beta_stride), 8};
    default:
      return {};
    }
  }
};
static_assert(sizeof(Description) <= Description::most_bytes);

struct Preference {
  static constexpr std::size_t most_bytes = 80; // of version 12; there are more in 13
  std::uint64_t workspace = 0;
  std::uint32_t search = 0, reductions = ~0U, alignments[4] = {256, 256, 256, 256};
  float waves = 0;
  std::uint64_t implementations = ~std::uint64_t{0};

  static Place place(int attribute) {
    switch (attribute) {
    case 0:
      return {offsetof(Preference, search), 4};
    case 1:
      return {offsetof(Preference, workspace), 8};
    case 3:
      return {offsetof(Preference, reductions), 4};
    case 5:
    case 6:
    case 7:
    case 8:
      return {offsetof(Preference, alignments) + 4 * static_cast<std::size_t>(attribute - 5), 4};
    case 9:
      return {offsetof(Preference, waves), 4};
    case 12:
      return {offsetof(Preference, implementations), 8};
    default:
      return {};
    }
  }
};
static_assert(sizeof(Preference) <= Preference::most_bytes);

struct Algorithm { // cublasLtMatmulAlgo_t, which programs copy
  std::uint32_t configuration[9] = {};
  std::uint32_t unused[7] = {};

  static Place place(int attribute) {
    if (attribute < 0 || attribute > 8) return {};
    return {offsetof(Algorithm, configuration) + 4 * static_cast<std::size_t>(attribute),
            attribute < 7 ? std::size_t{4} : std::size_t{2}};
  }
};
static_assert(sizeof(Algorithm) == 64);

struct Heuristic { // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  std::size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

template <class Descriptor>
Status set(Descriptor* descriptor, int attribute, const void* value, std::size_t bytes) {
  const Place place = Descriptor::place(attribute);
  if (descriptor == nullptr || value == nullptr || place.bytes == 0 || bytes != place.bytes)
    return invalid_value;
  std::memcpy(reinterpret_cast<char*>(descriptor) + place.offset, value, bytes);
  return success;
}

template <class Descriptor>
Status get(const Descriptor* descriptor, int attribute, void* value, std::size_t bytes,
           std::size_t* written) {
  const Place place = Descriptor::place(attribute);
  if (descriptor == nullptr || place.bytes == 0 || (bytes == 0 && written == nullptr) ||
      (bytes != 0 && (value == nullptr || bytes < place.bytes)))
    return invalid_value;
  if (written != nullptr) *written = place.bytes;
  if (bytes != 0) std::memcpy(value, reinterpret_cast<const char*>(descriptor) + place.offset, place.bytes);
  return success;
}

template <class Descriptor>
Status create(Descriptor** made, const Descriptor& value) {
  if (made == nullptr) return invalid_value;
  *made = new (std::nothrow) Descriptor(value);
  return *made == nullptr ? alloc_failed : success;
}

template <class Descriptor>
Status initialise(Descriptor* memory, std::size_t bytes, const Descriptor& value) {
  if (memory == nullptr || bytes < sizeof(Descriptor))
    return memory == nullptr ? invalid_value : alloc_failed;
  new (memory) Descriptor(value);
  return success;
}

Layout layout(int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  Layout made;
  made.type = type, made.rows = rows, made.columns = columns, made.leading = leading;
  return made;
}

Description description(int compute, int scale_type) {
  Description made;
  made.compute = compute, made.scale_type = scale_type;
  return made;
}

bool is_handle(const Handle* handle) { return handle != nullptr && handle->mark == Handle::living; }

/// Whether the shapes go together and there is a kernel.
Status check(const Handle* handle, const Description* what, const Layout* a, const Layout* b, const Layout* c,
             const Layout* d) {
  if (!is_handle(handle)) return not_initialized;
  if (what == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) return invalid_value;
  if (!is_operation(what->operation_a) || !is_operation(what->operation_b)) return invalid_value;
  const bool a_is_turned = what->operation_a != no_transpose, b_is_turned = what->operation_b != no_transpose;
  const std::uint64_t m = a_is_turned ? a->columns : a->rows, k = a_is_turned ? a->rows : a->columns;
  const std::uint64_t n = b_is_turned ? b->rows : b->columns;
  if ((b_is_turned ? b->columns : b->rows) != k || c->rows != m || c->columns != n || d->rows != m ||
      d->columns != n || a->batches != b->batches || a->batches != c->batches || a->batches != d->batches)
    return invalid_value;
  for (const Layout* each : {a, b, c, d})
    if (each->order != 0 || each->batch_mode != 0)
      return not_supported; // by columns, and batches with a stride
  const bool is_of_f8 = is_f8(a->type) && is_f8(b->type);
  if (name_of(a->type) == nullptr || (a->type != b->type && !is_of_f8)) return not_supported;
  if (is_of_f8) { // what cuBLAS's documentation says of an H100
    if (!a_is_turned || b_is_turned || (a->type == f8_e5m2 && b->type == f8_e5m2)) return not_supported;
    if (m % 16 != 0 || n % 16 != 0 || k % 16 != 0) return not_supported;
  }
  return success;
}

} // namespace

BLAS Status cublasLtCreate(Handle** handle) {
  if (handle == nullptr) return invalid_value;
  if (const Status loaded = load(); loaded != success) return loaded;
  *handle = new (std::nothrow) Handle;
  return *handle == nullptr ? alloc_failed : success;
}

BLAS Status cublasLtDestroy(Handle* handle) {
  if (!is_handle(handle)) return not_initialized;
  handle->mark = 0;
  delete handle;
  return success;
}

BLAS std::size_t cublasLtGetVersion() { return BLAS_VERSION; }
BLAS std::size_t cublasLtGetCudartVersion() { return BLAS_VERSION / 10000 * 1000; }

// Layouts

BLAS Status cublasLtMatrixLayoutCreate(Layout** made, int type, std::uint64_t rows, std::uint64_t columns,
                                       std::int64_t leading) {
  return create(made, layout(type, rows, columns, leading));
}
BLAS Status cublasLtMatrixLayoutInit_internal(Layout* memory, std::size_t bytes, int type, std::uint64_t rows,
                                              std::uint64_t columns, std::int64_t leading) {
  return initialise(memory, bytes, layout(type, rows, columns, leading));
}
BLAS Status cublasLtMatrixLayoutDestroy(Layout* layout) { return delete layout, success; }
BLAS Status cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value,
                                             std::size_t bytes) {
  return set(layout, attribute, value, bytes);
}
BLAS Status cublasLtMatrixLayoutGetAttribute(const Layout* layout, int attribute, void* value,
                                             std::size_t bytes, std::size_t* written) {
  return get(layout, attribute, value, bytes, written);
}

// Descriptions

BLAS Status cublasLtMatmulDescCreate(Description** made, int compute, int scale_type) {
  return create(made, description(compute, scale_type));
}
BLAS Status cublasLtMatmulDescInit_internal(Description* memory, std::size_t bytes, int compute,
                                            int scale_type) {
  return initialise(memory, bytes, description(compute, scale_type));
}
BLAS Status cublasLtMatmulDescDestroy(Description* what) { return delete what, success; }
BLAS Status cublasLtMatmulDescSetAttribute(Description* what, int attribute, const void* value,
                                           std::size_t bytes) {
  return set(what, attribute, value, bytes);
}
BLAS Status cublasLtMatmulDescGetAttribute(const Description* what, int attribute, void* value,
                                           std::size_t bytes, std::size_t* written) {
  return get(what, attribute, value, bytes, written);
}

// Preferences

BLAS Status cublasLtMatmulPreferenceCreate(Preference** made) { return create(made, Preference()); }
BLAS Status cublasLtMatmulPreferenceInit_internal(Preference* memory, std::size_t bytes) {
  return initialise(memory, bytes, Preference());
}
BLAS Status cublasLtMatmulPreferenceDestroy(Preference* preference) { return delete preference, success; }
BLAS Status cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value,
                                                 std::size_t bytes) {
  return set(preference, attribute, value, bytes);
}
BLAS Status cublasLtMatmulPreferenceGetAttribute(const Preference* preference, int attribute, void* value,
                                                 std::size_t bytes, std::size_t* written) {
  return get(preference, attribute, value, bytes, written);
}

// The one algorithm, which needs no workspace

BLAS Status cublasLtMatmulAlgoGetHeuristic(const Handle* handle, const Description* what, const Layout* a,
                                           const Layout* b, const Layout* c, const Layout* d,
                                           const Preference* preference, int wanted, Heuristic* results,
                                           int* count) {
  if (preference == nullptr || wanted <= 0 || results == nullptr || count == nullptr) return invalid_value;
  *count = 0;
  if (const Status checked = check(handle, what, a, b, c, d); checked != success) return checked;
  results[0] = Heuristic{{}, 0, success, 1, {}};
  *count = 1;
  return success;
}

BLAS Status cublasLtMatmulAlgoInit(const Handle* handle, int, int, int, int, int, int, int id,
                                   Algorithm* algorithm) {
  if (!is_handle(handle)) return not_initialized;
  if (algorithm == nullptr || id != 0) return invalid_value;
  *algorithm = Algorithm();
  return success;
}

BLAS Status cublasLtMatmulAlgoCheck(const Handle* handle, const Description* what, const Layout* a,
                                    const Layout* b, const Layout* c, const Layout* d,
                                    const Algorithm* algorithm, Heuristic* result) {
  if (algorithm == nullptr || result == nullptr) return invalid_value;
  const Status checked = check(handle, what, a, b, c, d);
  if (checked == success) *result = Heuristic{*algorithm, 0, success, 1, {}};
  return checked;
}

BLAS Status cublasLtMatmulAlgoConfigSetAttribute(Algorithm* algorithm, int attribute, const void* value,
                                                 std::size_t bytes) {
  return set(algorithm, attribute, value, bytes);
}
BLAS Status cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute, void* value,
                                                 std::size_t bytes, std::size_t* written) {
  return get(algorithm, attribute, value, bytes, written);
}

BLAS Status cublasLtMatmul(const Handle* handle, const Description* what, const void* alpha, const void* a,
                           const Layout* layout_a, const void* b, const Layout* layout_b, const void* beta,
                           const void* c, const Layout* layout_c, void* d, const Layout* layout_d,
                           const Algorithm*, void*, std::size_t, CUstream stream) {
  if (const Status checked = check(handle, what, layout_a, layout_b, layout_c, layout_d); checked != success)
    return checked;
  if (alpha == nullptr || a == nullptr || b == nullptr || d == nullptr) return invalid_value;
  Launch how;
  how.kernel = product_name(layout_a->type, what->operation_a, what->operation_b);
  how.a = a, how.b = b, how.c = c, how.d = d, how.bias = what->bias, how.auxiliary = what->auxiliary;
  if (what->pointer_mode != 0) how.alpha = alpha, how.beta = beta;
  how.m = static_cast<int>(layout_d->rows), how.n = static_cast<int>(layout_d->columns);
  how.k = static_cast<int>(what->operation_a == no_transpose ? layout_a->columns : layout_a->rows);
  how.batches = layout_d->batches;
  return launch(how, stream);
}

} // namespace cuevent::sim::blas
