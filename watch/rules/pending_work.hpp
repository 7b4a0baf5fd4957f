// SPDX-License-Identifier: MIT
// Work of one kind on a stream, as far as the host does not know that it is done.
#pragma once

#include "order/order.hpp"

#include <cstdint>

namespace watch {

class PendingWork {
public:
  /// False if it is known already.
  bool add(const Point& point, const Order& order) {
    if (point.place <= newest_.place) return false;
    if (!is_pending(order)) oldest_ = point;
    newest_ = point;
    return true;
  }
  bool is_pending(const Order& order) const {
    return newest_.place != 0 && order.compare_with_host(newest_) != Ordered::before;
  }
  /// Whether some of it may come before what was last submitted to the stream.
  bool may_be_before(std::uint32_t stream, const Order& order) const {
    return is_pending(order) && order.is_before(oldest_, stream);
  }

private:
  Point oldest_ = {}, newest_ = {}; // place 0: none
};

} // namespace watch
