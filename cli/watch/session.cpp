// SPDX-License-Identifier: MIT
#include "watch/session.hpp"

#include "protocol/protocol.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace cli {

WatchSession::WatchSession(const WatchOptions& options, const SharedFolder& folder,
                           watch::WatchReport& report, watch::HangReports& hangs, HeldCalls& held)
    : options_(options), place_(folder), folder_(folder.folder()), report_(report), hangs_(hangs),
      held_(held) {}

WatchSession::~WatchSession() {
  for (Process& process : processes_)
    process.file->abandon(); // it runs on, unwatched
}

bool WatchSession::read() {
  for (const auto& file : folder_.new_files())
    add(file);
  bool found = false;
  for (Process& process : processes_)
    found = read(*process.file, *process.world) || found;
  return found;
}

void WatchSession::add(const std::shared_ptr<watch::CallFile>& file) {
  watched_.insert(static_cast<pid_t>(file->process()));
  if (others_) // in another namespace its number here is not known any more if it has ended
    watched_.insert(others_->seen_as(file->region().process, file->region().name_space));
  for (Process& old : processes_)
    if (old.file->process() == file->process()) old.hang.reset(); // it has executed another program
  auto world = std::make_unique<watch::World>();
  std::optional<watch::OrderOptions> order;
  const bool all = options_.reports_possible_order();
  if (!options_.order.empty()) order = {all, all && !options_.jitter.empty(), &blind_};
  watch::add_rules(*world, {options_.cost, options_.leaks, file->fork(), order},
                   [this, file](const watch::Finding& finding) { report_.add(*file, finding); });
  const bool has_probes = (file->region().features & watch::probes) != 0;
  auto hang = has_probes
                  ? std::make_unique<watch::HangWatch>(
                        *file, *world, hangs_, [this, file, seen = world.get()] { read(*file, *seen); })
                  : nullptr;
  processes_.push_back({file, std::move(world), std::move(hang)});
}

bool WatchSession::read(watch::CallFile& file, watch::World& world) {
  return file.read([&](const watch::Call& call) { see(file, world, call); }) > 0;
}

void WatchSession::see(const watch::CallFile& file, watch::World& world, const watch::Call& call) {
  if (call.entry == watch::hold_entry) return held_.see(file, call);
  world.see(call);
  if (call.is_of_the_program()) ++calls_;
}

void WatchSession::find_unwatched() {
  if (others_) others_->look([this](pid_t process) { return watched_.contains(process); });
}

void WatchSession::find_hangs(std::chrono::nanoseconds limit) {
  // First all: no report may be newer than a move of another process that its report does not tell.
  for (Process& process : processes_)
    if (process.hang) {
      process.hang->update();
      process.hang->note_move();
    }
  for (Process& process : processes_)
    if (process.hang) {
      process.hang->report_hang(limit);
      process.hang->keep_still(limit);
    }
}

void WatchSession::report(std::chrono::nanoseconds at_least, bool in_any_case) {
  std::vector<Process*> chosen;
  for (Process& process : processes_)
    if (process.hang) {
      process.hang->update();
      if (process.hang->stuck_for() > at_least) chosen.push_back(&process);
    }
  if (chosen.empty() && in_any_case)
    for (Process& process : processes_)
      if (process.hang) chosen.push_back(&process);
  if (chosen.size() > watch::reports_at_once) chosen.resize(watch::reports_at_once);
  const auto is_chosen = [&](const Process& process) {
    return std::find(chosen.begin(), chosen.end(), &process) != chosen.end();
  };
  for (Process& process : processes_)
    if (process.hang && (in_any_case || is_chosen(process))) process.hang->request_look();
  const auto deadline = watch::time_now() + watch::look_patience;
  for (Process* process : chosen)
    process->hang->report(process->file->has_ended() ? std::chrono::nanoseconds()
                                                     : std::max(deadline - watch::time_now(), {}));
  for (Process& process : processes_)
    if (in_any_case && process.hang && !is_chosen(process)) process.hang->keep();
  if (chosen.empty() && in_any_case) std::fprintf(stderr, "cuevent watch: no process uses the driver\n");
}

void WatchSession::end_processes() {
  std::erase_if(processes_, [this](Process& process) {
    if (!process.file->has_ended()) return false;
    process.file->abandon(); // should it live on after all, it does not wait for a reader
    process.file->read([&](const watch::Call& call) { see(*process.file, *process.world, call); }, true);
    if (process.hang) process.hang->note_move();
    for (const watch::Call& call : process.file->unfinished())
      process.world->see(call);
    process.world->end(process.file->ended_by_itself() && !process.file->has_lost_calls());
    note_what_is_missing(*process.file);
    take_leave_of(process);
    process.file->release();
    ended_.push_back(process.file); // the report tells processes apart by these addresses
    return true;
  });
}

void WatchSession::leave_processes() {
  for (Process& process : processes_) {
    process.world->end(false);
    take_leave_of(process);
  }
}

void WatchSession::take_leave_of(const Process& process) {
  held_.end(*process.file);
  passed_by_.add(process.file->blind_spots());
  has_torch_ = has_torch_ || process.file->has_loaded("libc10_cuda");
}

void WatchSession::note_what_is_missing(const watch::CallFile& file) {
  if (file.has_lost_calls()) partly_.push_back({file.process(), "after a while its calls found no reader"});
  if (file.has_lost_threads())
    partly_.push_back({file.process(), "it has more than " + std::to_string(watch::thread_limit) +
                                           " threads, and not all were watched"});
}

std::vector<watch::Unwatched> WatchSession::unwatched() const {
  auto all = folder_.unwatched();
  const auto is_known = [&](pid_t process) {
    return watched_.contains(process) || std::ranges::any_of(folder_.unwatched(), [&](const auto& other) {
             return other.process == static_cast<unsigned>(process);
           });
  };
  if (others_)
    for (const watch::Unwatched& other : others_->found(is_known))
      all.push_back(other);
  return all;
}

} // namespace cli
