// SPDX-License-Identifier: MIT
// Settings of core dumps.

#include "api.hpp"

#if CUDA_VERSION >= 12010
#include <cstring>
#include <unistd.h>

namespace cuevent::sim {

namespace {

constexpr std::size_t name_room = 1024; ///< of the names of files and pipes
constexpr int generation_flags = 7;     // CU_COREDUMP_GENERATION_FLAGS, since CUDA 12.5
constexpr unsigned lightweight_flags = 0x2f;

enum class Scope { context, process };

/// The setting, if it is yes or no.
bool* yes_or_no(CoreDumpSettings& settings, CUcoredumpSettings attribute) {
  switch (static_cast<int>(attribute)) {
  case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    return &settings.on_exception;
  case CU_COREDUMP_TRIGGER_HOST:
    return &settings.with_host;
  case CU_COREDUMP_LIGHTWEIGHT:
    return &settings.lightweight;
  case CU_COREDUMP_ENABLE_USER_TRIGGER:
    return &settings.by_pipe;
  default:
    return nullptr;
  }
}

/// How many bytes the value has. Only the process has a pipe.
std::size_t bytes_of(CUcoredumpSettings attribute, Scope scope) {
  const bool of_pipe = attribute == CU_COREDUMP_ENABLE_USER_TRIGGER || attribute == CU_COREDUMP_PIPE;
  refuse_if(attribute < CU_COREDUMP_ENABLE_ON_EXCEPTION || attribute > generation_flags ||
                (of_pipe && scope == Scope::context),
            CUDA_ERROR_INVALID_VALUE);
  if (attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_PIPE) return name_room;
  return attribute == generation_flags ? sizeof(int) : 1;
}

std::string pipe_name(const CoreDumpSettings& settings) {
  if (!settings.by_pipe) not_modelled("the pipe for core dumps, before one can be asked for");
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return "corepipe_" + std::string(host) + "_" + std::to_string(getpid());
}

void get(CoreDumpSettings& settings, CUcoredumpSettings attribute, void* value, std::size_t room) {
  if (const bool* const flag = yes_or_no(settings, attribute)) {
    std::memcpy(value, flag, 1);
  } else if (attribute == generation_flags) {
    std::memcpy(value, &settings.left_out, sizeof settings.left_out);
  } else if (attribute == CU_COREDUMP_FILE) {
    if (room < name_room) not_modelled("less room than 1024 bytes for a name: a device writes beyond it");
    std::strncpy(static_cast<char*>(value), settings.file.c_str(), room);
  } else {
    const std::string name = pipe_name(settings);
    refuse_if(room < name.size(), CUDA_ERROR_INVALID_VALUE);
    std::strncpy(static_cast<char*>(value), name.c_str(), room);
  }
}

/// The size of a file's name counts for a context only. Not measured: core_dumps.then
void set(CoreDumpSettings& settings, CUcoredumpSettings attribute, const void* value, std::size_t size,
         Scope scope) {
  if (bool* const flag = yes_or_no(settings, attribute)) {
    *flag = *static_cast<const unsigned char*>(value) != 0;
    if (attribute == CU_COREDUMP_LIGHTWEIGHT)
      settings.left_out =
          *flag ? settings.left_out | lightweight_flags : settings.left_out & ~lightweight_flags;
  } else if (attribute == generation_flags) {
    std::memcpy(&settings.left_out, value, sizeof settings.left_out);
  } else if (attribute == CU_COREDUMP_FILE) {
    const auto* const name = static_cast<const char*>(value);
    settings.file.assign(name, strnlen(name, scope == Scope::context ? size : name_room - 1));
  } else {
    pipe_name(settings);
    refuse(CUDA_ERROR_NOT_SUPPORTED); // once there is a pipe
  }
}

std::size_t checked_size(CUcoredumpSettings attribute, const std::size_t* size, Scope scope) {
  const std::size_t bytes = bytes_of(attribute, scope);
  refuse_if(size == nullptr, CUDA_ERROR_INVALID_VALUE);
  return bytes;
}

/// A null value asks for the size. Any size is taken for a name.
bool asks_for_size(const void* value, std::size_t& size, std::size_t bytes) {
  if (value == nullptr) {
    size = bytes;
    return true;
  }
  refuse_if(bytes != name_room && size != bytes, CUDA_ERROR_INVALID_VALUE);
  return false;
}

} // namespace

/// A wrong attribute is refused also without a current context.
CUresult Api::cuCoredumpGetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
  const std::size_t bytes = checked_size(attribute, size, Scope::context);
  const auto home = current_context();
  if (!asks_for_size(value, *size, bytes)) get(home->core_dumps, attribute, value, *size);
  return CUDA_SUCCESS;
}

CUresult Api::cuCoredumpSetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
  const std::size_t bytes = checked_size(attribute, size, Scope::context);
  const auto home = current_context();
  if (!asks_for_size(value, *size, bytes)) set(home->core_dumps, attribute, value, *size, Scope::context);
  return CUDA_SUCCESS;
}

/// Works before cuInit.
CUresult Api::cuCoredumpGetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
  const std::size_t bytes = checked_size(attribute, size, Scope::process);
  if (!asks_for_size(value, *size, bytes)) get(process_.core_dumps, attribute, value, *size);
  return CUDA_SUCCESS;
}

CUresult Api::cuCoredumpSetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
  if (!process_.initialized) crash("a setting of core dumps is changed before cuInit");
  const std::size_t bytes = checked_size(attribute, size, Scope::process);
  if (!asks_for_size(value, *size, bytes)) set(process_.core_dumps, attribute, value, *size, Scope::process);
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
#endif
