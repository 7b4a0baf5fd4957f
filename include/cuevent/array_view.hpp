// SPDX-License-Identifier: MIT
// ArrayView: an array that a call reads and does not keep.
#pragma once

#include <cuevent/version.hpp>

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// A pointer to constant elements, and their number. Converts from std::span, std::vector,
/// std::array, a C array, an initializer list, and any other type with data() and size(). Use it
/// only as a parameter: it does not own the elements.
///
///     const EventRecordNode first = graph.add_record(event);
///     const std::vector<CUgraphNode> nodes = {first.native_handle()};
///     graph.add_wait(event, nodes); // or {nodes.data(), nodes.size()}
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
template <class T>
class ArrayView {
  static_assert(!std::is_const_v<T>,
                "the elements are always constant: ArrayView<T>, not ArrayView<const T>");

  /// Elements may differ only by const: a pointer to a base class would step over parts of them.
  template <class Container>
  using IfArray = std::enable_if_t<
      std::is_convertible_v<std::remove_pointer_t<decltype(std::declval<const Container&>().data())> (*)[],
                            const T (*)[]> &&
          std::is_convertible_v<decltype(std::declval<const Container&>().size()), std::size_t>,
      int>;

public:
  constexpr ArrayView() noexcept = default;
  constexpr ArrayView(const T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t Size>
  constexpr ArrayView(const T (&array)[Size]) noexcept : data_(array), size_(Size) {}
  /// The elements of the list live until the end of the full expression.
  constexpr ArrayView(std::initializer_list<T> list) noexcept : ArrayView(list.begin(), list.size()) {}
  template <class Container, IfArray<Container> = 0>
  constexpr ArrayView(const Container& container) noexcept
      : data_(container.data()), size_(static_cast<std::size_t>(container.size())) {}

  constexpr const T* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr const T* begin() const noexcept { return data_; }
  constexpr const T* end() const noexcept { return data_ + size_; }

private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
