// SPDX-License-Identifier: MIT
#pragma once

#include "os_process.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace cuevent::sim {

/// Which record of an event is the last one, and which are complete: a page that the processes of the event
/// share. Records are numbered, and one completes after the other. Another process can write anything here:
/// each number is only compared.
class EventPage {
public:
  /// Null if the system makes no page.
  static std::shared_ptr<EventPage> make(std::uint64_t records, std::uint64_t completed);
  /// Of another process. Null, with `errno` set, if the page is not there.
  static std::shared_ptr<EventPage> open(const OfferedFile&);
  EventPage(const EventPage&) = delete;
  EventPage& operator=(const EventPage&) = delete;
  ~EventPage();

  const OfferedFile& file() const { return file_; }

  std::uint64_t last() const { return words_->last.load(std::memory_order_acquire); }
  bool is_complete(std::uint64_t record) const {
    return words_->completed.load(std::memory_order_acquire) >= record;
  }
  /// Who submitted the last record.
  OsProcess recorder() const;
  /// Returns the number of the next record.
  std::uint64_t begin_record();
  void end_record(std::uint64_t number);

private:
  struct Words {
    std::atomic<std::uint64_t> last, completed, recorder, recorders_start;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  EventPage() = default;
  bool show(int file);

  Words* words_ = nullptr;
  OfferedFile file_;
};

} // namespace cuevent::sim
