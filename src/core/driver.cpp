// SPDX-License-Identifier: MIT
#include <cuevent/driver.hpp>

#include "core/driver_loading.hpp"
#include "core/driver_log.hpp"
#include "core/fork_lock.hpp"
#include "core/kept_table.hpp"
#include "core/virtual_clock.hpp"

#include "../../environment/unknown_variables.hpp"

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <iterator>
#include <link.h>
#include <memory>
#include <mutex>
#include <new>
#include <sys/auxv.h>
#include <thread>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr int oldest_version = 12000;

constexpr const char* forked =
    "this process was forked after the driver was initialized, so the driver cannot be used: fork before "
    "the first use of CUDA, or call exec in the child";

/// The content of a table slot that has no function to call. One function stands for all: in the calling
/// conventions of this library's platforms, a function without parameters leaves the arguments to its caller.
template <CUresult result>
#ifdef __clang__
__attribute__((no_sanitize("function")))
#endif
CUresult
absent() {
  return result;
}
using Address [[gnu::may_alias]] = void*;
template <CUresult result>
const Address no_function = reinterpret_cast<Address>(&absent<result>);

long long steady_now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep(long long nanoseconds) { std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds)); }

// The functions of a DriverTable from cuInit on, in their order. Loops over names without pointers take much
// less space than a call, a comparison and relocations for each function.
constexpr std::size_t first_place = offsetof(DriverTable, cuInit_v2000);
constexpr std::size_t table_places = (sizeof(DriverTable) - first_place) / sizeof(Address);
constexpr char written_names[] =
#define CUEVENT_REQUIRED(name, since) #name "\0"
#include <cuevent/driver_symbols.inc>
    ;
/// One after the other, without the "cu" that each begins with.
struct FunctionNames {
  constexpr FunctionNames() noexcept {
    std::size_t to = 0;
    const char* from = written_names;
    for (std::size_t i = 0; i < table_places; ++i) {
      for (from += 2; *from != '\0'; ++from)
        text[to++] = *from;
      text[to++] = *from++;
    }
  }
  char text[sizeof written_names - 1 - 2 * table_places]{};
};
constexpr FunctionNames function_names;
/// The version of each signature. Negative if the function is optional.
constexpr short function_versions[] = {
#define CUEVENT_REQUIRED(name, since) since,
#define CUEVENT_OPTIONAL(name, since) -since,
#include <cuevent/driver_symbols.inc>
};
static_assert(std::size(function_versions) == table_places);

Address* functions_of(DriverTable& table) noexcept {
  return reinterpret_cast<Address*>(reinterpret_cast<char*>(&table) + first_place);
}
const Address* functions_of(const DriverTable& table) noexcept {
  return reinterpret_cast<const Address*>(reinterpret_cast<const char*>(&table) + first_place);
}

bool is_missing(Address function) noexcept { return function == no_function<CUDA_ERROR_NOT_SUPPORTED>; }

/// From now on, every function of the table is `function`.
void disable(DriverTable& table, Address function) noexcept {
  table.get_proc_address = reinterpret_cast<GetProcAddress>(function);
  table.clock_now = steady_now; // the functions of a simulated driver cannot be used either
  table.pause = sleep;
  for (std::size_t i = 0; i < table_places; ++i)
    __atomic_store_n(&functions_of(table)[i], function, __ATOMIC_RELAXED);
}

void* resolve(GetProcAddress get_proc_address, const char* name, int version) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult result =
      get_proc_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  return result == CUDA_SUCCESS ? address : nullptr;
}

[[gnu::cold]] std::nullptr_t too_old(int version, LoadFailure& failed) noexcept {
  const char* const call = "cuGetProcAddress";
  char has[40] = "is older";
  if (version > 0)
    std::snprintf(has, sizeof has, "supports CUDA %d.%d", major_of(version), minor_of(version));
  return failed.set(
      static_cast<CUresult>(36), call, // CALL_REQUIRES_NEWER_DRIVER, which older headers lack
      "cuevent needs a driver for CUDA %d.%d or later, and this driver %s: update the NVIDIA driver",
      major_of(oldest_version), minor_of(oldest_version), has);
}

/// For a failed call without which there is no driver.
[[gnu::cold]] std::nullptr_t refused(CUresult result, const char* call, LoadFailure& failed) noexcept {
  failed.result = result;
  failed.call = call;
  if (result == CUDA_ERROR_NOT_INITIALIZED) failed.advice = forked;
  return nullptr;
}

/// Returns 0 if the driver cannot be used.
[[gnu::cold]] int version_of(GetProcAddress get_proc_address, LoadFailure& failed) noexcept {
  // This is the first driver call. The toolkit's stub library answers every call with the same
  // code, so this call detects the stub.
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult found =
      get_proc_address("cuDriverGetVersion", &address, 2020, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  const char* call = "cuGetProcAddress";
  CUresult result =
      found == CUDA_SUCCESS && address == nullptr ? CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND : found;
  int version = 0;
  if (result == CUDA_SUCCESS) {
    call = "cuDriverGetVersion";
    result = reinterpret_cast<PFN_cuDriverGetVersion_v2020>(address)(&version);
  }
  if (result == CUDA_SUCCESS && version >= oldest_version) return version;
  if (result == CUDA_SUCCESS)
    too_old(version, failed);
  else
    refused(result, call, failed);
  return 0;
}

/// All driver tables. Tables live forever, because anything may still refer to one.
class Tables {
public:
  static Tables& instance() noexcept { return only; }
  [[gnu::constructor(first_constructor)]] static void make() noexcept {
    only.guarded_ = lock_in_forks<Tables>();
  }

  /// Keeps one table per set of functions. The same functions are then the same driver, however
  /// they were found.
  [[gnu::cold]] const DriverTable* keep(std::unique_ptr<KeptTable> table) noexcept {
    std::unique_lock lock(mutex_);
    for (const KeptTable* other = newest_; other != nullptr; other = other->older)
      if (static_cast<const DriverTable&>(*other) == *table) return other;
    // Registered after cuInit, so this handler runs before the exit handler of that driver.
    // Objects destroyed later find no driver instead of a driver that is unloading.
    if (!guarded_ || std::atexit([] { only.end_newest(); }) != 0) return nullptr;
    KeptTable& added = *table.release();
    added.older = std::exchange(newest_, &added);
    lock.unlock();
    start_log(added);
    return &added;
  }

  template <class Lock>
  void each_fork_lock(Lock lock) {
    lock(mutex_);
  }
  /// The child does not have the driver's threads, and the driver's locks may be held.
  void forked() noexcept {
    for (KeptTable* table = newest_; table != nullptr; table = table->older)
      disable(*table, no_function<CUDA_ERROR_NOT_INITIALIZED>);
  }

private:
  static constinit Tables only;

  /// Exit handlers run newest first.
  [[gnu::cold]] void end_newest() noexcept {
    std::unique_lock lock(mutex_);
    KeptTable* newest = newest_;
    while (newest->ended)
      newest = newest->older;
    newest->ended = true;
    lock.unlock();
    stop_log(*newest); // this code may be unloaded next
    lock.lock();
    disable(*newest, no_function<CUDA_ERROR_DEINITIALIZED>);
  }

  ForkLock mutex_;
  KeptTable* newest_ = nullptr;
  bool guarded_ = false; // each fork holds the lock
};
constinit Tables Tables::only;

[[gnu::cold]] const DriverTable* make_table(GetProcAddress get_proc_address, LoadFailure& failed) noexcept {
  std::unique_ptr<KeptTable> owner(new (std::nothrow) KeptTable);
  KeptTable* const table = owner.get();
  if (table == nullptr) return nullptr;
  table->version = version_of(get_proc_address, failed);
  if (table->version == 0) return nullptr;
  table->get_proc_address = get_proc_address;
  const char* name = function_names.text;
  for (std::size_t i = 0; i < table_places; ++i) {
    const int written = function_versions[i];
    const int since = std::abs(written);
    void* function = nullptr;
    char full_name[64];
    std::snprintf(full_name, sizeof full_name, "cu%s", name);
    if (written > 0 || table->version >= since) function = resolve(get_proc_address, full_name, since);
    if (function == nullptr && written > 0)
      return failed.set(
          CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "cuGetProcAddress",
          "the driver has no %s, so it is broken or not a CUDA driver: reinstall the NVIDIA driver",
          full_name);
    functions_of(*table)[i] = function != nullptr ? function : no_function<CUDA_ERROR_NOT_SUPPORTED>;
    name += std::strlen(name) + 1;
  }
  PFN_cuEventElapsedTime_v12080 const elapsed = table->cuEventElapsedTime_v12080;
  if (is_missing(reinterpret_cast<Address>(elapsed)))
    table->cuEventElapsedTime_v12080 = table->cuEventElapsedTime_v2000;

  // A simulated driver has its own clock. A real driver does not know these names.
  void* const now = resolve(get_proc_address, "cueventClockNow", oldest_version);
  void* const pause = resolve(get_proc_address, "cueventPause", oldest_version);
  const bool simulated = now != nullptr && pause != nullptr;
  table->clock_now = simulated ? reinterpret_cast<long long (*)()>(now) : steady_now;
  table->pause = simulated ? reinterpret_cast<void (*)(long long)>(pause) : sleep;
  if (const CUresult result = table->cuInit_v2000(0); result != CUDA_SUCCESS)
    return refused(result, "cuInit", failed);
  return Tables::instance().keep(std::move(owner));
}

/// Whether the program was linked with -static or -static-pie: such a program names no loader.
[[gnu::cold]] bool is_static_program() noexcept {
  return dl_iterate_phdr( // begins with the program, so the first answer ends it
             [](dl_phdr_info* program, std::size_t, void*) {
               for (int i = 0; i < program->dlpi_phnum; ++i)
                 if (program->dlpi_phdr[i].p_type == PT_INTERP) return 2;
               return 1;
             },
             nullptr) == 1;
}

/// A warning, because the program may not know that it contains this library.
[[gnu::cold]] void warn_about_unknown_variables() noexcept {
  static constinit std::atomic<bool> warned{false};
  if (getauxval(AT_SECURE) != 0 || warned.exchange(true)) return;
  environment::for_each_unknown_variable(environment::Product::library, [](const char* text) {
    std::fprintf(stderr, "cuevent: warning: %s\n", text);
  });
}

const char* default_library() noexcept {
  warn_about_unknown_variables();
  const char* const named = secure_getenv("CUEVENT_DRIVER");
  return named != nullptr && *named != '\0' ? named
                                            : "libcuda.so.1"; // never libcuda.so: it can be the link stub
}

/// Null if the library cannot be loaded, or is no driver.
[[gnu::cold]] GetProcAddress open_library(const char* library, LoadFailure& failed) noexcept {
  constexpr CUresult no_library = CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  if (is_static_program()) // dlopen would end in a crash
    return failed.set(
        no_library, "dlopen",
        "this program is linked with -static, so it cannot load a driver, which needs the shared C library: "
        "link without -static; the static library libcuevent.a is fine");
  // RTLD_NODELETE and no dlclose: the driver's handles and exit handlers outlive our objects.
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return failed.set(no_library, "dlopen",
                      "no driver: %s: install the NVIDIA driver, or set CUEVENT_DRIVER to a driver library",
                      why != nullptr ? why : library);
  }
  if (void* const entry = dlsym(handle, "cuGetProcAddress_v2"))
    return reinterpret_cast<GetProcAddress>(entry);

  void* const get_version = dlsym(handle, "cuDriverGetVersion");
  if (get_version == nullptr)
    return failed.set(no_library, "dlsym",
                      "%s is not a CUDA driver, because it has no cuGetProcAddress_v2: name another library",
                      library);
  int version = 0;
  reinterpret_cast<PFN_cuDriverGetVersion_v2020>(get_version)(&version);
  return too_old(version, failed);
}

/// What Driver::instance() has found.
constinit std::atomic<const DriverTable*> default_table{nullptr};

} // namespace

std::nullptr_t LoadFailure::set(CUresult its_result, const char* its_call, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&made_advice, format, arguments) < 0) made_advice = nullptr;
  va_end(arguments);
  result = its_result;
  call = its_call;
  advice = made_advice;
  return nullptr;
}

const DriverTable* load_table(GetProcAddress get_proc_address, LoadFailure& failed) noexcept {
  if (get_proc_address != nullptr) return make_table(get_proc_address, failed);
  failed.kind = ErrorKind::usage;
  return failed.set(CUDA_ERROR_INVALID_VALUE, "cuGetProcAddress",
                    "the cuGetProcAddress function is null: pass the function of a driver");
}

const DriverTable* load_table(const char* library, LoadFailure& failed) noexcept {
  GetProcAddress const get_proc_address = open_library(library, failed);
  return get_proc_address != nullptr ? make_table(get_proc_address, failed) : nullptr;
}

const DriverTable* load_table(LoadFailure& failed) noexcept {
  const DriverTable* table = default_table.load(std::memory_order_acquire);
  if (table != nullptr) return table;
  table = load_table(default_library(), failed);
  const DriverTable* first = nullptr; // another thread's, if CUEVENT_DRIVER has changed
  return table == nullptr || default_table.compare_exchange_strong(first, table) ? table : first;
}

bool has_real_clock(const DriverTable& table) noexcept { return table.pause == &sleep; }

// Filled before any other code runs, because addresses in a constant would take relocations.
constinit DriverTable Driver::none_;
[[gnu::constructor(first_constructor)]] static void fill_empty_table() noexcept {
  disable(const_cast<DriverTable&>(Driver().table()), no_function<CUDA_ERROR_INVALID_HANDLE>);
}

bool operator==(const DriverTable& a, const DriverTable& b) noexcept {
  if (a.version != b.version || a.get_proc_address != b.get_proc_address || a.clock_now != b.clock_now ||
      a.pause != b.pause)
    return false;
  for (std::size_t i = 0; i < table_places; ++i)
    if (__atomic_load_n(&functions_of(a)[i], __ATOMIC_RELAXED) !=
        __atomic_load_n(&functions_of(b)[i], __ATOMIC_RELAXED))
      return false;
  return true;
}

const Driver& Driver::instance() {
  static const Driver driver(loaded());
  return driver;
}

Driver::Driver(GetProcAddress get_proc_address) : table_(&loaded(get_proc_address)) {}

void fail_unsupported(const DriverTable& table, const char* call, const char* name, int version) {
  cuevent::fail(
      CUDA_ERROR_NOT_SUPPORTED, call,
      "%s needs a driver for CUDA %d.%d, and this driver supports CUDA %d.%d: update the NVIDIA driver", name,
      major_of(version), minor_of(version), major_of(table.version), minor_of(table.version));
}

void Driver::fail(CUresult result, const char* call, const char* advice) const {
  if (!*this) throw_error(result, call, "the Driver is empty: take one from Driver::instance()");
  if (result == CUDA_ERROR_NOT_INITIALIZED) throw_error(result, call, forked);
  const char* name = function_names.text;
  for (std::size_t i = 0; result == CUDA_ERROR_NOT_SUPPORTED && i < table_places; ++i) {
    if (is_missing(functions_of(*table_)[i]) && std::strncmp(call, "cu", 2) == 0 &&
        std::strcmp(call + 2, name) == 0)
      fail_unsupported(*table_, call, call, std::abs(function_versions[i]));
    name += std::strlen(name) + 1;
  }
  throw_refused(result, call, advice);
}

bool has_virtual_clock(const DriverTable& table) noexcept {
  long long (*const now)() = table.clock_now;
  return now != steady_now;
}

}} // namespace cuevent::CUEVENT_ABI
