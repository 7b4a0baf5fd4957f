// SPDX-License-Identifier: MIT
#include "event_page.hpp"

#include <cerrno>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace cuevent::sim {

namespace {

constexpr const char* event_file = "event";

} // namespace

bool EventPage::show(int file) {
  void* const shown = mmap(nullptr, whole_pages(1), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shown == MAP_FAILED) return false;
  words_ = static_cast<Words*>(shown);
  return true;
}

std::shared_ptr<EventPage> EventPage::make(std::uint64_t records, std::uint64_t completed) {
  std::shared_ptr<EventPage> made(new EventPage);
  OfferedFile& file = made->file_;
  file = offer_file(event_file, whole_pages(1));
  if (file.number < 0 || !made->show(file.number)) return nullptr;
  new (made->words_)
      Words{records, completed, static_cast<std::uint64_t>(file.process.id), file.process.start};
  return made;
}

std::shared_ptr<EventPage> EventPage::open(const OfferedFile& offered) {
  std::shared_ptr<EventPage> made(new EventPage);
  made->file_ = offered;
  made->file_.number = -1; // this process offers it to nobody
  const int file = open_offered_file(event_file, offered);
  if (file < 0) return nullptr;
  const bool shown = made->show(file);
  const int error = errno;
  close(file);
  errno = error;
  return shown ? made : nullptr;
}

EventPage::~EventPage() {
  withdraw(file_);
  if (words_ != nullptr) munmap(words_, whole_pages(1));
}

OsProcess EventPage::recorder() const {
  return {static_cast<int>(words_->recorder.load(std::memory_order_relaxed)),
          words_->recorders_start.load(std::memory_order_relaxed)};
}

std::uint64_t EventPage::begin_record() {
  const OsProcess self = this_os_process();
  words_->recorder.store(static_cast<std::uint64_t>(self.id), std::memory_order_relaxed);
  words_->recorders_start.store(self.start, std::memory_order_relaxed);
  return words_->last.fetch_add(1, std::memory_order_acq_rel) + 1;
}

void EventPage::end_record(std::uint64_t number) {
  std::uint64_t now = words_->completed.load(std::memory_order_relaxed);
  while (now < number && !words_->completed.compare_exchange_weak(now, number, std::memory_order_release,
                                                                  std::memory_order_relaxed)) {
  }
}

} // namespace cuevent::sim
