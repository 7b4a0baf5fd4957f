// SPDX-License-Identifier: MIT
// The other process of programs with imported events. It has streams and gates of its own, and opens
// events that the first process exports, or exports events. A request is one line, and so is the answer.
#pragma once

#include "program.hpp"

#include "../transcript/api.hpp"

#include <functional>
#include <string>

namespace conformance {

using transcript::Api;

class Partner {
public:
  /// Creates the context, the streams and the memory. Throws LoadFailure.
  explicit Partner(const Api&);
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  /// - `begin`: closes all gates; `gate K` and `gates` open one or all; `end`: destroys all events
  /// - `export E FLAGS`: creates event E; the answer is its handle, or nothing
  /// - `open E HANDLE`: the answer is the number of the result
  /// - `record E P`, `wait E P`, `query E`, `synchronize E`, `destroy E`, `stream P`,
  ///   `hold P K`: the answer is in the short form
  std::string answer(const std::string& request);

  unsigned* gates() { return words_; }

private:
  std::string make_and_export(CUevent&, unsigned flags);
  void end();

  const Api cu_;
  CUcontext context_ = nullptr;
  CUstream streams_[partner_streams] = {};
  CUevent events_[event_slots] = {};
  unsigned* words_ = nullptr; ///< the gates
};

using Ask = std::function<std::string(const std::string& request)>;

/// Starts the other process. The simulated driver has one in the same process. If the other process dies,
/// so does this one.
Ask start_partner(const Api&, const std::string& library);

/// Does the work of the other process, and does not return.
[[noreturn]] void serve_as_partner(const std::string& library);

} // namespace conformance
