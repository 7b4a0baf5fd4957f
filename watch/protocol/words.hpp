// SPDX-License-Identifier: MIT
// The arguments of a call that its record holds: handles, and numbers of 32 bits. EntryData::words
// names them.
#pragma once

#include "protocol/calls.hpp"
#include "protocol/protocol.hpp"

#include <iterator>
#include <type_traits>

namespace watch {

inline void add(CallData& call, std::uint64_t word) {
  if (call.count < std::size(call.words)) call.words[call.count++] = word;
}

template <class T>
constexpr bool is_handle = false;
template <>
inline constexpr bool is_handle<CUevent> = true;
template <>
inline constexpr bool is_handle<CUcontext> = true;
template <>
inline constexpr bool is_handle<GreenContext*> = true;
template <>
inline constexpr bool is_handle<CUgraph> = true;
template <>
inline constexpr bool is_handle<CUgraphExec> = true;
template <>
inline constexpr bool is_handle<CUgraphNode> = true;

/// Whether `add_word` records an argument of this type.
template <class T>
constexpr bool is_result =
    std::is_pointer_v<T> && !std::is_const_v<std::remove_pointer_t<T>> &&
    (is_handle<std::remove_pointer_t<T>> || std::is_same_v<std::remove_pointer_t<T>, CUstream>);
template <class T>
constexpr bool is_word = is_result<T> || is_handle<T> || std::is_same_v<T, CUstream> ||
                         std::is_same_v<T, CUstreamCaptureMode*> ||
                         (std::is_integral_v<T> && sizeof(T) == 4) || std::is_enum_v<T>;

/// Whether a word that was an argument of this type can be the field.
template <class T>
constexpr bool can_be(Field field) {
  using Value = std::remove_pointer_t<T>;
  constexpr auto is_one = [](auto... types) {
    return ((std::is_same_v<T, decltype(types)> || std::is_same_v<Value, decltype(types)>) || ...);
  };
  switch (field) {
  case Field::none:
    return true;
  case Field::stream:
    return is_one(CUstream{});
  case Field::event:
  case Field::second_event:
    return is_one(CUevent{});
  case Field::graph:
  case Field::made_graph:
    return is_one(CUgraph{});
  case Field::exec:
    return is_one(CUgraphExec{});
  case Field::node:
    return is_one(CUgraphNode{});
  case Field::named_context:
    return is_one(CUcontext{}) || is_one(static_cast<GreenContext*>(nullptr));
  case Field::device:
    return is_one(CUdevice{});
  case Field::mode:
    return is_one(CUstreamCaptureMode{});
  case Field::flags:
    return is_one(0U);
  default:
    return false;
  }
}

/// Whether driver/generate counted the words of the function as `add_word` does. Words for which a record has
/// no room have no field.
template <class... Arguments>
constexpr bool are_named_as_recorded([[maybe_unused]] const std::array<Field, 4>& fields) {
  [[maybe_unused]] std::size_t at = 0;
  return ((!is_word<Arguments> || at == fields.size() || can_be<Arguments>(fields[at++])) && ...);
}

inline std::uint64_t stream_word(CUstream stream, bool per_thread_variant) {
  if (stream != nullptr) return reinterpret_cast<std::uintptr_t>(stream);
  return reinterpret_cast<std::uintptr_t>(per_thread_variant ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
}

/// Arguments without a meaning for any rule: addresses, sizes, lists, texts, structures.
template <bool PerThread, class T>
void add_word(CallData& call, T value) {
  if constexpr (std::is_same_v<T, CUstream>)
    add(call, stream_word(value, PerThread));
  else if constexpr (is_handle<T>)
    add(call, reinterpret_cast<std::uintptr_t>(value));
  else if constexpr (std::is_same_v<T, CUstreamCaptureMode*>)
    add(call, value != nullptr ? static_cast<std::uint64_t>(*value) : 0);
  else if constexpr (is_result<T>)
    add(call, 0); // a handle that the call will return
  else if constexpr (is_word<T>)
    add(call, static_cast<std::uint32_t>(value));
}

/// The handles that the call has returned. `index` counts the words as `add_word` does.
template <class T>
void add_result(CallData& call, std::uint8_t& index, T value) {
  if constexpr (is_result<T>) {
    if (index < 4 && value != nullptr) call.words[index] = reinterpret_cast<std::uintptr_t>(*value);
  }
  if constexpr (is_word<T>) ++index;
}

/// The kind of a handle, if its null is no valid value.
template <class T>
constexpr HandleKind kind_of_handle = HandleKind::none;
template <>
inline constexpr HandleKind kind_of_handle<CUevent> = HandleKind::event;
template <>
inline constexpr HandleKind kind_of_handle<CUgraph> = HandleKind::graph;
template <>
inline constexpr HandleKind kind_of_handle<CUgraphExec> = HandleKind::exec;
template <>
inline constexpr HandleKind kind_of_handle<CUgraphNode> = HandleKind::node;
template <>
inline constexpr HandleKind kind_of_handle<CUcontext> = HandleKind::context;
template <>
inline constexpr HandleKind kind_of_handle<GreenContext*> = HandleKind::green_context;
template <>
inline constexpr HandleKind kind_of_handle<CUfunction> = HandleKind::function;
template <>
inline constexpr HandleKind kind_of_handle<CUmodule> = HandleKind::module;
template <>
inline constexpr HandleKind kind_of_handle<CUlibrary> = HandleKind::library;
template <>
inline constexpr HandleKind kind_of_handle<CUkernel> = HandleKind::kernel;
template <>
inline constexpr HandleKind kind_of_handle<CUmemoryPool> = HandleKind::pool;
template <>
inline constexpr HandleKind kind_of_handle<CUuserObject> = HandleKind::user_object;
template <>
inline constexpr HandleKind kind_of_handle<CUarray> = HandleKind::array;
template <>
inline constexpr HandleKind kind_of_handle<CUmipmappedArray> = HandleKind::mipmapped_array;
template <>
inline constexpr HandleKind kind_of_handle<CUgraphicsResource> = HandleKind::graphics_resource;
template <>
inline constexpr HandleKind kind_of_handle<CUexternalSemaphore> = HandleKind::external_semaphore;

/// The mark of the first handle among the arguments that is null; 0 if none is.
template <class... Arguments>
std::uint8_t mark_of_null_handle(Arguments... arguments) {
  HandleKind found = HandleKind::none;
  [[maybe_unused]] const auto look = [&found](auto argument) {
    constexpr HandleKind kind = kind_of_handle<decltype(argument)>;
    if constexpr (kind != HandleKind::none)
      if (argument == nullptr && found == HandleKind::none) found = kind;
  };
  (look(arguments), ...);
  return static_cast<std::uint8_t>(static_cast<unsigned>(found) * Mark::null_handle);
}

template <class T>
constexpr bool has_stream = std::is_same_v<T, CUstream> || std::is_same_v<T, const CUlaunchConfig*> ||
                            std::is_same_v<T, CUDA_LAUNCH_PARAMS*>;

/// Of a launch or a copy: its stream, then its function, or the address of the host function. Launches as
/// before CUDA 4.0 name no stream.
template <bool PerThread, class... Arguments>
void add_words_of_work(CallData& call, Arguments... arguments) {
  const auto add_stream = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), CUstream>) add(call, stream_word(argument, PerThread));
    if constexpr (std::is_same_v<decltype(argument), const CUlaunchConfig*>)
      add(call, argument != nullptr ? stream_word(argument->hStream, PerThread) : 0);
    if constexpr (std::is_same_v<decltype(argument), CUDA_LAUNCH_PARAMS*>)
      add(call, argument != nullptr ? stream_word(argument->hStream, PerThread) : 0);
  };
  const auto add_function = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), CUfunction>)
      add(call, reinterpret_cast<std::uintptr_t>(argument));
    if constexpr (std::is_same_v<decltype(argument), CUDA_LAUNCH_PARAMS*>)
      add(call, argument != nullptr ? reinterpret_cast<std::uintptr_t>(argument->function) : 0);
  };
  const auto add_host_function = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), CUhostFn> ||
                  std::is_same_v<decltype(argument), CUstreamCallback>)
      add(call, reinterpret_cast<std::uintptr_t>(argument));
  };
  // Attribute 7 is a programmatic event, and attribute 12 a launch completion event.
  const auto add_events = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), const CUlaunchConfig*>)
      for (unsigned i = 0; argument != nullptr && argument->attrs != nullptr && i < argument->numAttrs; ++i)
        if (const unsigned id = static_cast<unsigned>(argument->attrs[i].id); id == 7 || id == 12)
          add(call, reinterpret_cast<std::uintptr_t>(argument->attrs[i].value.programmaticEvent.event));
  };
  if constexpr ((has_stream<Arguments> || ...))
    (add_stream(arguments), ...);
  else
    add(call, stream_word(nullptr, PerThread));
  (add_function(arguments), ...);
  (add_host_function(arguments), ...);
  (add_events(arguments), ...);
}

/// The words of a wait for a value, or of a write of a value.
template <bool PerThread, class Value>
void add_words_of_memory_operation(CallData& call, CUstream stream, CUdeviceptr address, Value value,
                                   unsigned flags) {
  add(call, stream_word(stream, PerThread));
  add(call, address);
  add(call, value);
  add(call, flags);
}

/// Whether the call depends on the context that is current.
inline bool depends_on_context(const CallData& call, Verb verb) {
  if (is_work(verb)) return is_default_stream(call.words[0]);
  return verb != Verb::event_query && verb != Verb::exchange_mode;
}

} // namespace watch
