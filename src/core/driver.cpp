// SPDX-License-Identifier: MIT
#include <cuevent/driver.hpp>

#include <cuevent/text.hpp>

#include "core/driver_log.hpp"
#include "core/fork_lock.hpp"
#include "core/kept_table.hpp"
#include "core/result_of.hpp"
#include "core/virtual_clock.hpp"

#include "../../environment/unknown_variables.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
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
#include <string_view>
#include <sys/auxv.h>
#include <thread>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr int oldest_version = 12000;

constexpr const char* forked =
    "this process was forked after the driver was initialized, so the driver cannot be used: fork before "
    "the first use of CUDA, or call exec in the child";

/// The content of a table slot that has no function to call.
template <CUresult result, class Function>
struct Absent;
template <CUresult result, class... Arguments>
struct Absent<result, CUresult (*)(Arguments...)> {
  static CUresult call(Arguments...) { return result; }
};
template <class Function>
constexpr Function missing = Absent<CUDA_ERROR_NOT_SUPPORTED, Function>::call;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

long long steady_now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep(long long nanoseconds) { std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds)); }

template <class Function>
Function resolve(GetProcAddress get_proc_address, const char* name, int version) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult result =
      get_proc_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  return result == CUDA_SUCCESS ? reinterpret_cast<Function>(address) : nullptr;
}

[[noreturn]] void fail_too_old(int version) {
  const std::string has =
      version > 0 ? "this driver supports CUDA " + version_text(version) : "this driver is older";
  throw CallRequiresNewerDriver("cuGetProcAddress",
                                ("cuevent needs a driver for CUDA " + version_text(oldest_version) +
                                 " or later, and " + has + ": update the NVIDIA driver")
                                    .c_str());
}

int version_of(GetProcAddress get_proc_address) {
  // This is the first driver call. The toolkit's stub library answers every call with the same
  // code, so this call detects the stub.
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult found =
      get_proc_address("cuDriverGetVersion", &address, 2020, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  if (found == CUDA_ERROR_STUB_LIBRARY) throw StubLibrary("cuGetProcAddress");
  if (found == CUDA_ERROR_NOT_INITIALIZED) throw NotInitialized("cuGetProcAddress", forked);
  if (found != CUDA_SUCCESS || address == nullptr) throw DriverUnavailable(found, "cuGetProcAddress");
  int version = 0;
  const CUresult result = reinterpret_cast<PFN_cuDriverGetVersion_v2020>(address)(&version);
  if (result != CUDA_SUCCESS) throw DriverUnavailable(result, "cuDriverGetVersion");
  if (version < oldest_version) fail_too_old(version);
  return version;
}

void initialise(const DriverTable& table) {
  const CUresult result = table.cuInit_v2000(0);
  if (result == CUDA_ERROR_NO_DEVICE) throw NoDevice("cuInit");
  if (result == CUDA_ERROR_NOT_INITIALIZED) throw NotInitialized("cuInit", forked);
  if (result == CUDA_ERROR_STUB_LIBRARY) throw StubLibrary("cuInit");
  if (result != CUDA_SUCCESS) throw DriverUnavailable(result, "cuInit");
}

/// From now on, every function of the table only returns `result`.
template <CUresult result>
void disable(DriverTable& table) noexcept {
  table.get_proc_address = Absent<result, GetProcAddress>::call;
  table.clock_now = steady_now; // the functions of a simulated driver cannot be used either
  table.pause = sleep;
#define CUEVENT_REQUIRED(name, since) table.name##_v##since = Absent<result, PFN_##name##_v##since>::call;
#include <cuevent/driver_symbols.inc>
}

/// All driver tables. Tables live forever, because anything may still refer to one.
class Tables {
public:
  static Tables& instance() {
    if (only == nullptr) throw std::bad_alloc();
    return *only;
  }
  [[gnu::constructor(first_constructor)]] static void make() noexcept { make_only(only); }

  /// Keeps one table per set of functions. The same functions are then the same driver, however
  /// they were found.
  const DriverTable* keep(std::unique_ptr<KeptTable> table) {
    std::unique_lock lock(mutex_);
    for (const auto& other : tables_)
      if (static_cast<const DriverTable&>(*other) == *table) return other.get();
    const auto kept = tables_.insert(tables_.begin() + working_, std::move(table));
    // Registered after cuInit, so this handler runs before the exit handler of that driver.
    // Objects destroyed later find no driver instead of a driver that is unloading.
    if (std::atexit([] { instance().end_newest(); }) != 0) {
      tables_.erase(kept);
      throw std::bad_alloc();
    }
    ++working_;
    KeptTable& added = **kept;
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
    for (const auto& table : tables_)
      disable<CUDA_ERROR_NOT_INITIALIZED>(*table);
  }

private:
  static inline constinit Tables* only = nullptr;

  void end_newest() noexcept {
    std::unique_lock lock(mutex_);
    KeptTable& newest = *tables_[static_cast<std::size_t>(--working_)];
    lock.unlock();
    stop_log(newest); // this code may be unloaded next
    lock.lock();
    disable<CUDA_ERROR_DEINITIALIZED>(newest);
  }

  ForkLock mutex_;
  std::vector<std::unique_ptr<KeptTable>> tables_;
  /// Tables from this index on have ended, because exit handlers run newest first.
  std::ptrdiff_t working_ = 0;
};

struct TableRow {
  const char* name;
  int since;
  bool optional;
};

/// In the order of the functions in a DriverTable. A loop takes much less code than a call for each of them.
constexpr TableRow table_rows[] = {
#define CUEVENT_REQUIRED(name, since) {#name, since, false},
#define CUEVENT_OPTIONAL(name, since) {#name, since, true},
#include <cuevent/driver_symbols.inc>
};
static_assert(offsetof(DriverTable, cuInit_v2000) + sizeof(void*) * std::size(table_rows) ==
              sizeof(DriverTable));

const DriverTable* make_table(GetProcAddress get_proc_address) {
  auto table = std::make_unique<KeptTable>();
  table->version = version_of(get_proc_address);
  table->get_proc_address = get_proc_address;
  std::size_t place = offsetof(DriverTable, cuInit_v2000);
  for (const TableRow& row : table_rows) {
    void* function = nullptr;
    if (!row.optional || table->version >= row.since)
      function = resolve<void*>(get_proc_address, row.name, row.since);
    if (function == nullptr && !row.optional)
      throw DriverUnavailable(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "cuGetProcAddress",
                              ("the driver has no " + std::string(row.name) +
                               ", so it is broken or not a CUDA driver: reinstall the NVIDIA driver")
                                  .c_str());
    std::memcpy(reinterpret_cast<char*>(static_cast<DriverTable*>(table.get())) + place, &function,
                sizeof function);
    place += sizeof function;
  }
#define CUEVENT_REQUIRED(name, since)
#define CUEVENT_OPTIONAL(name, since)                                                                        \
  if (table->name##_v##since == nullptr) table->name##_v##since = missing<PFN_##name##_v##since>;
#include <cuevent/driver_symbols.inc>
  if (table->cuEventElapsedTime_v12080 == missing<PFN_cuEventElapsedTime_v12080>)
    table->cuEventElapsedTime_v12080 = table->cuEventElapsedTime_v2000;

  // A simulated driver has its own clock. A real driver does not know these names.
  table->clock_now = resolve<long long (*)()>(get_proc_address, "cueventClockNow", oldest_version);
  table->pause = resolve<void (*)(long long)>(get_proc_address, "cueventPause", oldest_version);
  if (table->clock_now == nullptr || table->pause == nullptr) {
    table->clock_now = steady_now;
    table->pause = sleep;
  }
  initialise(*table);

  return Tables::instance().keep(std::move(table));
}

/// Whether the program was linked with -static or -static-pie: such a program names no loader.
bool is_static_program() noexcept {
  return dl_iterate_phdr( // begins with the program, so the first answer ends it
             [](dl_phdr_info* program, std::size_t, void*) {
               const auto* const end = program->dlpi_phdr + program->dlpi_phnum;
               const auto* const loader = std::find_if(
                   program->dlpi_phdr, end, [](const auto& header) { return header.p_type == PT_INTERP; });
               return loader == end ? 1 : 2;
             },
             nullptr) == 1;
}

GetProcAddress load(const std::string& library) {
  if (is_static_program()) // dlopen would end in a crash
    throw SharedObjectInitFailed("dlopen",
                                 "this program is linked with -static, so it cannot load a driver, which "
                                 "needs the shared C library: link without -static; the static library "
                                 "libcuevent.a is fine");
  // RTLD_NODELETE and no dlclose: the driver's handles and exit handlers outlive our objects.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = dlerror();
    throw SharedObjectInitFailed("dlopen",
                                 ("no driver: " + std::string(why != nullptr ? why : library) +
                                  ": install the NVIDIA driver, or set CUEVENT_DRIVER to a driver library")
                                     .c_str());
  }
  if (void* const entry = dlsym(handle, "cuGetProcAddress_v2"))
    return reinterpret_cast<GetProcAddress>(entry);

  void* const get_version = dlsym(handle, "cuDriverGetVersion");
  if (get_version == nullptr)
    throw SharedObjectInitFailed(
        "dlsym",
        (library + " is not a CUDA driver, because it has no cuGetProcAddress_v2: name another library")
            .c_str());
  int version = 0;
  reinterpret_cast<PFN_cuDriverGetVersion_v2020>(get_version)(&version);
  fail_too_old(version);
}

/// A warning, because the program may not know that it contains this library.
void warn_about_unknown_variables() noexcept {
  static constinit std::atomic<bool> warned{false};
  if (getauxval(AT_SECURE) != 0 || warned.exchange(true)) return;
  environment::for_each_unknown_variable(environment::Product::library, [](const char* text) {
    std::fprintf(stderr, "cuevent: warning: %s\n", text);
  });
}

std::string default_library() {
  warn_about_unknown_variables();
  const char* const named = secure_getenv("CUEVENT_DRIVER");
  return named != nullptr && *named != '\0' ? named
                                            : "libcuda.so.1"; // never libcuda.so: it can be the link stub
}

template <class... Source>
CUresult try_make(Driver& out, Source... source) noexcept {
  return thrown_by([&] {
    if constexpr (sizeof...(source) == 0)
      out = Driver::instance();
    else
      out = Driver(source...);
  });
}

} // namespace

bool has_real_clock(const DriverTable& table) noexcept { return table.pause == &sleep; }

constinit const DriverTable Driver::none_ = {
    0,
    Absent<CUDA_ERROR_INVALID_HANDLE, GetProcAddress>::call,
    steady_now,
    sleep,
#define CUEVENT_REQUIRED(name, since) Absent<CUDA_ERROR_INVALID_HANDLE, PFN_##name##_v##since>::call,
#include <cuevent/driver_symbols.inc>
};

const Driver& Driver::instance() {
  static const Driver driver(default_library());
  return driver;
}

Driver::Driver(const std::string& library) : Driver(load(library)) {}

Driver::Driver(GetProcAddress get_proc_address) : table_(nullptr) {
  if (get_proc_address == nullptr)
    throw InvalidValue("cuGetProcAddress",
                       "the cuGetProcAddress function is null: pass the function of a driver");
  table_ = make_table(get_proc_address);
}

CUresult Driver::try_load(Driver& out) noexcept { return try_make(out); }
CUresult Driver::try_load(Driver& out, const char* library) noexcept {
  return library != nullptr ? try_make(out, library) : CUDA_ERROR_INVALID_VALUE;
}
CUresult Driver::try_load(Driver& out, GetProcAddress get_proc_address) noexcept {
  return try_make(out, get_proc_address);
}

CUresult Driver::look_up(void*& out, const char* name, int version) const noexcept {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status{};
  if (version > table_->version) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result =
      table_->get_proc_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  if (result != CUDA_SUCCESS) return result;
  if (address == nullptr) return CUDA_ERROR_NOT_FOUND;
  out = address;
  return result;
}

void* Driver::find_entry_point(const char* name, int version) const {
  void* address = nullptr;
  const CUresult result = look_up(address, name, version);
  if (result == CUDA_SUCCESS) return address;
  if (version > table_->version)
    fail(CUDA_ERROR_NOT_SUPPORTED, "cuGetProcAddress",
         (std::string(name) + " needs a driver for CUDA " + version_text(version) +
          ", and this driver supports CUDA " + version_text(table_->version) + ": update the NVIDIA driver")
             .c_str());
  CUdriverProcAddressQueryResult status{};
  table_->get_proc_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  const std::string advice = status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                 ? std::string(name) + " did not exist in CUDA " + version_text(version) +
                                       ": request a version that has the signature"
                                 : "the driver has no function " + std::string(name) + ": check the name";
  fail(result, "cuGetProcAddress", advice.c_str());
}

std::string to_string(const Driver& driver) {
  return driver ? "driver of CUDA " + version_text(driver.version()) : "no driver";
}

void Driver::fail(CUresult result, const char* call, const char* advice) const {
  if (!*this) throw_error(result, call, "the Driver is empty: take one from Driver::instance()");
  if (result == CUDA_ERROR_NOT_INITIALIZED) throw NotInitialized(call, forked);
  int needed = 0; // the version that has the function, if this driver lacks it
#define CUEVENT_REQUIRED(name, since)
#define CUEVENT_OPTIONAL(name, since)                                                                        \
  if (needed == 0 && table_->name##_v##since == missing<PFN_##name##_v##since> &&                            \
      std::string_view(call) == #name)                                                                       \
    needed = since;
#include <cuevent/driver_symbols.inc>
  if (result == CUDA_ERROR_NOT_SUPPORTED && needed != 0)
    throw NotSupported(call, (std::string(call) + " needs a driver for CUDA " + version_text(needed) +
                              ", and this driver supports CUDA " + version_text(table_->version) +
                              ": update the NVIDIA driver")
                                 .c_str());
  throw_error(result, call, with_reasons(result, call, advice).c_str());
}

bool has_virtual_clock(const DriverTable& table) noexcept {
  long long (*const now)() = table.clock_now;
  return now != steady_now;
}

}} // namespace cuevent::CUEVENT_ABI
