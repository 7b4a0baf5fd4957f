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
constexpr unsigned without_host = 0x10, lightweight = 0x2f;

enum class Scope { context, process };

/// How many bytes the value has.
std::size_t bytes_of(CUcoredumpSettings attribute) {
  refuse_if(attribute < CU_COREDUMP_ENABLE_ON_EXCEPTION || attribute > generation_flags,
            CUDA_ERROR_INVALID_VALUE);
  if (attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_PIPE) return name_room;
  return attribute == generation_flags ? sizeof(int) : 1;
}

std::string default_pipe() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return "corepipe_" + std::string(host) + "_" + std::to_string(getpid());
}

void tell(const std::string& name, void* value, std::size_t room) {
  std::strncpy(static_cast<char*>(value), name.c_str(), room);
}

void tell(bool yes, void* value) { *static_cast<unsigned char*>(value) = yes ? 1 : 0; }

void get(const CoreDumpSettings& settings, CUcoredumpSettings attribute, void* value, std::size_t room) {
  switch (static_cast<int>(attribute)) {
  case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    std::memcpy(value, &settings.on_exception, 1);
    return;
  case CU_COREDUMP_TRIGGER_HOST:
    tell((settings.left_out & without_host) == 0, value);
    return;
  case CU_COREDUMP_LIGHTWEIGHT:
    tell((settings.left_out & lightweight) == lightweight, value);
    return;
  case CU_COREDUMP_ENABLE_USER_TRIGGER:
    std::memcpy(value, &settings.by_pipe, 1);
    return;
  case generation_flags:
    std::memcpy(value, &settings.left_out, sizeof settings.left_out);
    return;
  case CU_COREDUMP_FILE:
    if (room < name_room) not_modelled("less room than 1024 bytes for a name: a device writes beyond it");
    tell(settings.file, value, room);
    return;
  default:
    refuse_if(room < settings.pipe.size(), CUDA_ERROR_INVALID_VALUE);
    tell(settings.pipe, value, room);
  }
}

/// The size of a file's name counts for a context only.
void set(CoreDumpSettings& settings, CUcoredumpSettings attribute, const void* value, std::size_t size,
         Scope scope) {
  const auto byte = [value] { return *static_cast<const unsigned char*>(value); };
  const auto leave_out = [&settings](unsigned parts, bool out) {
    settings.left_out = out ? settings.left_out | parts : settings.left_out & ~parts;
  };
  const auto name = [value](std::size_t most) {
    const auto* const text = static_cast<const char*>(value);
    return std::string(text, strnlen(text, most));
  };
  switch (static_cast<int>(attribute)) {
  case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    settings.on_exception = byte();
    return;
  case CU_COREDUMP_TRIGGER_HOST:
    leave_out(without_host, byte() == 0);
    return;
  case CU_COREDUMP_LIGHTWEIGHT:
    leave_out(lightweight, byte() != 0);
    return;
  case CU_COREDUMP_ENABLE_USER_TRIGGER:
    settings.by_pipe = byte();
    if (settings.by_pipe == 0) return;
    settings.on_exception = 1;
    if (settings.pipe.empty()) settings.pipe = default_pipe();
    return;
  case generation_flags: // unknown ones too
    std::memcpy(&settings.left_out, value, sizeof settings.left_out);
    return;
  case CU_COREDUMP_FILE:
    settings.file = name(scope == Scope::context ? size : name_room - 1);
    return;
  default:
    refuse_if(settings.by_pipe != 0, CUDA_ERROR_NOT_SUPPORTED);
    settings.pipe = name(name_room - 1);
  }
}

std::size_t checked_size(CUcoredumpSettings attribute, const std::size_t* size) {
  const std::size_t bytes = bytes_of(attribute);
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

/// Only the process has a pipe.
void refuse_pipe(CUcoredumpSettings attribute) {
  refuse_if(attribute == CU_COREDUMP_ENABLE_USER_TRIGGER || attribute == CU_COREDUMP_PIPE,
            CUDA_ERROR_INVALID_VALUE);
}

} // namespace

/// A number that is no attribute is refused also without a current context.
CUresult Api::cuCoredumpGetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
  const std::size_t bytes = checked_size(attribute, size);
  const auto home = current_context();
  refuse_pipe(attribute);
  if (!asks_for_size(value, *size, bytes)) get(home->core_dumps, attribute, value, *size);
  return CUDA_SUCCESS;
}

CUresult Api::cuCoredumpSetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
  const std::size_t bytes = checked_size(attribute, size);
  const auto home = current_context();
  refuse_pipe(attribute);
  if (!asks_for_size(value, *size, bytes)) set(home->core_dumps, attribute, value, *size, Scope::context);
  return CUDA_SUCCESS;
}

/// Works before cuInit.
CUresult Api::cuCoredumpGetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
  const std::size_t bytes = checked_size(attribute, size);
  if (!asks_for_size(value, *size, bytes)) get(process_.core_dumps, attribute, value, *size);
  return CUDA_SUCCESS;
}

CUresult Api::cuCoredumpSetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
  if (!process_.initialized) crash("a setting of core dumps is changed before cuInit");
  const std::size_t bytes = checked_size(attribute, size);
  if (!asks_for_size(value, *size, bytes)) set(process_.core_dumps, attribute, value, *size, Scope::process);
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
#endif
