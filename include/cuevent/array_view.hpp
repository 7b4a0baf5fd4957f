// ArrayView: how a call takes an array that it reads and does not keep.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)
namespace cuevent {

/// A pointer to constant elements, and their number. It converts from a std::span, std::vector, std::array,
/// C array or initializer list of T, and from any other type with data() and size(). Use it as a parameter
/// only: it does not own the elements.
///
///     std::vector<CUgraphNode> nodes = ...;
///     graph.add_record(event, nodes);
///     graph.add_record(event, {nodes.data(), 2}); // the first two
///
/// Thread-safety: a value. Context, and during capture: harmless; calls no driver function.
template <class T>
class ArrayView {
  static_assert(!std::is_const_v<T>,
                "the elements are always constant: ArrayView<T>, not ArrayView<const T>");

  /// Only what differs by const converts, as a pointer to a base class would step over parts of elements.
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
  /// The list ends with the full expression, as the elements of other temporaries do.
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

} // namespace cuevent
#pragma GCC visibility pop
