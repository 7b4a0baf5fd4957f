// SPDX-License-Identifier: MIT
// Reads the files in which watched processes record their calls.
#pragma once

#include "report/blind_spots.hpp"
#include "report/folder.hpp"
#include "report/system_processes.hpp"
#include "report/tick_clock.hpp"
#include "rules/call.hpp"
#include "rules/fork_rules.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace watch {

/// The calls of one process, from its start, from its last exec or from the fork that made it.
class CallFile {
public:
  /// once: the only reader, for which the process waits. again: others may read the same calls later, from
  /// memory that nobody can make shorter.
  enum class Mode { once, again };

  /// Maps the file, whose owner has to be this user. `folder`: a descriptor to which the path is relative.
  /// Throws std::runtime_error if it is not such a file. All that the file says is input.
  explicit CallFile(const std::string& path, Mode mode = Mode::once, int folder = at_current_folder);
  CallFile(const CallFile&) = delete;
  CallFile& operator=(const CallFile&) = delete;
  ~CallFile();

  /// Takes out the calls and probes that are complete, in order. Returns how many. Of a process that has
  /// ended, it leaves out those that will never be complete.
  std::size_t read(const std::function<void(const watch::Call&)>& see, bool ended = false);

  /// The calls that the process was in when it ended.
  std::vector<watch::Call> unfinished() const;

  /// Gives its memory back. From here on, only `process` may be called.
  void release();

  /// The process writes no more.
  void abandon() { region_->abandoned.store(1); }

  /// What the process and this reader share. Not for what grows: see `words` and `text`.
  watch::Region& region() const { return *region_; }
  std::uint64_t records() const { return record_mask_ + 1; }
  /// What the file has from this offset on. It may be shorter than `most`.
  std::string bytes(std::size_t offset, std::size_t most) const;

  /// False too if it lives in a namespace in which it cannot be seen.
  bool has_ended() const;
  /// It has returned from main, or called exit.
  bool ended_by_itself() const { return region_->exited.load() != 0; }
  /// What the process that forked this one had done with the driver; none if it is no forked child.
  Fork fork() const;
  bool has_lost_calls() const { return region_->lost.load() != 0; }
  bool has_lost_threads() const { return region_->lost_threads.load() != 0; }
  /// What it did that was not watched. Not for records that found no room: nobody counts them.
  BlindSpots blind_spots() const;
  /// Its number here. If nothing is known about it here, its number in its own namespace.
  unsigned process() const { return process_; }
  /// The return addresses of a stack, innermost first.
  std::vector<std::uint64_t> stack(std::uint32_t number) const;
  /// Its Python frames, innermost first: `train.py:12 in step`.
  std::vector<std::string> python_stack(std::uint32_t number) const;
  /// The file that the process runs.
  std::string program() const { return path_of(region_->modules[0]); }
  /// Whether it has mapped a file whose name begins so.
  bool has_loaded(const std::string& name) const;
  /// The file that was mapped at this address most recently, and where it begins. Empty if unknown.
  std::pair<std::string, std::uint64_t> module_at(std::uint64_t address) const;
  /// A file that the process has mapped, as it says. Root reads only files of root for processes of other
  /// users. Nothing if it is not a regular file that may be read.
  OpenFile open_module(const std::string& path) const;
  /// It runs as another user, or did when it was seen last.
  bool is_of_another_user() const { return is_of_another_user_; }

private:
  static constexpr int at_current_folder = -100; // AT_FDCWD

  std::string path_of(const watch::Module& module) const;
  void find_process();
  void find_user() const;
  std::vector<std::uint64_t> stack_words(std::uint32_t number) const;
  std::uint64_t size_in_memory(const std::string& path) const;
  void take_launches();
  /// Those that come before the record with this number. Returns how many.
  std::size_t see_launches(std::uint64_t before, const std::function<void(const watch::Call&)>& see);
  watch::Call call_of(const watch::CallData& data, std::uint32_t time);

  OpenFile file_;
  watch::Region* region_ = nullptr;
  std::uint64_t record_mask_ = 0; // as it was when the file was mapped
  bool takes_out_;
  mutable bool is_of_another_user_ = false;
  std::uint64_t next_ = 0; // the record that is read next
  /// Launches from the LaunchRings, which come before the record `before`; in order.
  struct Launch {
    std::uint64_t before;
    std::uint32_t time;
    watch::CallData call;
  };
  std::deque<Launch> launches_;
  unsigned process_ = 0;
  bool is_visible_ = true;  // in the namespace for process numbers
  std::uint64_t begun_ = 0; // when the process began; 0 if it had ended already
  std::optional<TickClock> clock_;
};

/// All files of a folder.
class CallFolder {
public:
  explicit CallFolder(const Folder& folder) : folder_(folder) {}

  /// The files that have appeared since the last call.
  std::vector<std::shared_ptr<CallFile>> new_files();

  /// The processes that found no room for a file.
  const std::vector<Unwatched>& unwatched() const { return unwatched_; }

private:
  const Folder& folder_;
  std::set<std::string> seen_;
  std::vector<Unwatched> unwatched_;
};

} // namespace watch
