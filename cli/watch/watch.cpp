// SPDX-License-Identifier: MIT
#include "watch/watch.hpp"

#include "json_text.hpp"
#include "output_file.hpp"
#include "protocol/protocol.hpp"
#include "report/hang.hpp"
#include "report/printable.hpp"
#include "report/process_rules.hpp"
#include "report/report.hpp"
#include "report/system_processes.hpp"
#include "watch/ask.hpp"
#include "watch/jitter.hpp"
#include "watch/program.hpp"
#include "watch/report_folder.hpp"
#include "watch/shared_folder.hpp"
#include "watch/signals.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cli {

namespace {

/// The calls of all processes, and what is wrong with them.
class Watch {
public:
  Watch(const WatchOptions& options, const SharedFolder& folder, watch::WatchReport& report,
        watch::HangReports& hangs, HeldCalls& held)
      : options_(options), place_(folder), folder_(folder.folder()), report_(report), hangs_(hangs),
        held_(held) {}

  /// The process whose descendants are watched.
  void start(pid_t root) { others_.emplace(root); }

  ~Watch() {
    for (Process& process : processes_)
      process.file->abandon(); // it runs on, unwatched
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Takes out what there is. Returns whether there was anything.
  bool read() {
    for (auto& file : folder_.new_files()) {
      watched_.insert(static_cast<pid_t>(file->process()));
      if (others_) // in another namespace its number here is not known any more if it has ended
        watched_.insert(others_->seen_as(file->region().process, file->region().name_space));
      const bool has_probes = (file->region().features & watch::probes) != 0;
      for (Process& old : processes_)
        if (old.file->process() == file->process()) old.hang.reset(); // it has executed another program
      auto world = std::make_unique<watch::World>();
      std::optional<watch::OrderOptions> order;
      if (!options_.order.empty()) order = {options_.order == "all", &blind_};
      watch::add_rules(*world, {options_.cost, options_.leaks, file->is_forked(), order},
                       [this, file](const watch::Finding& finding) { report_.add(*file, finding); });
      auto hang = has_probes ? std::make_unique<watch::HangWatch>(*file, *world, hangs_) : nullptr;
      processes_.push_back({file, std::move(world), std::move(hang)});
    }
    bool found = false;
    for (Process& process : processes_)
      found = process.file->read([&](const watch::Call& call) { see(process, call); }) > 0 || found;
    return found;
  }

  /// Throws if processes that start now would not find the folder.
  void check_place() const { place_.check(); }

  /// Looks for processes that use the driver but record nothing.
  void find_unwatched() {
    if (others_) others_->look([this](pid_t process) { return watched_.contains(process); });
  }

  /// Reports processes in which nothing moves for that long.
  void find_hangs(std::chrono::nanoseconds limit) {
    for (Process& process : processes_)
      if (process.hang) {
        process.hang->update();
        process.hang->report_hang(limit);
        process.hang->keep_still(limit);
      }
  }

  /// Reports the processes in which something has been pending for that long. If there are none and
  /// `in_any_case`, it reports others.
  void report(std::chrono::nanoseconds at_least, bool in_any_case) {
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
    for (Process& process : processes_)
      if (process.hang && (in_any_case || std::find(chosen.begin(), chosen.end(), &process) != chosen.end()))
        process.hang->request_look();
    const auto deadline = watch::time_now() + watch::look_patience;
    for (Process* process : chosen)
      process->hang->report(process->file->has_ended() ? std::chrono::nanoseconds()
                                                       : std::max(deadline - watch::time_now(), {}));
    for (Process& process : processes_)
      if (in_any_case && process.hang && std::find(chosen.begin(), chosen.end(), &process) == chosen.end())
        process.hang->keep();
    if (chosen.empty() && in_any_case) std::fprintf(stderr, "cuevent watch: no process uses the driver\n");
  }

  /// Lets go of processes that have ended.
  void end_processes() {
    std::erase_if(processes_, [this](Process& process) {
      if (!process.file->has_ended()) return false;
      process.file->abandon(); // should it live on after all, it does not wait for a reader
      process.file->read([&](const watch::Call& call) { see(process, call); }, true);
      for (const watch::Call& call : process.file->unfinished())
        process.world->see(call);
      process.world->end(process.file->ended_by_itself() && !process.file->has_lost_calls());
      if (process.file->has_lost_calls())
        partly_.push_back({process.file->process(), "after a while its calls found no reader"});
      if (process.file->has_lost_threads())
        partly_.push_back({process.file->process(), "it has more than " +
                                                        std::to_string(watch::thread_limit) +
                                                        " threads, and not all were watched"});
      held_.end(*process.file);
      look_for_torch(*process.file);
      process.file->release();
      ended_.push_back(process.file); // the report tells processes apart by these addresses
      return true;
    });
  }

  /// The watch ends, and some processes run on.
  void leave_processes() {
    for (Process& process : processes_) {
      process.world->end(false);
      held_.end(*process.file);
      look_for_torch(*process.file);
    }
  }

  std::size_t processes() const { return processes_.size() + ended_.size(); }
  unsigned long calls() const { return calls_; }
  const watch::OrderBlindness& blind() const { return blind_; }
  bool has_torch_with_order() const { return has_torch_ && !options_.order.empty(); }

  /// Processes of which not all calls are known.
  const std::vector<watch::Unwatched>& partly_watched() const { return partly_; }

  /// Processes whose calls are not known.
  std::vector<watch::Unwatched> unwatched() const {
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

private:
  struct Process {
    std::shared_ptr<watch::CallFile> file;
    std::unique_ptr<watch::World> world;
    std::unique_ptr<watch::HangWatch> hang; // null without probes
  };

  void look_for_torch(const watch::CallFile& file) {
    has_torch_ = has_torch_ || file.has_loaded("libc10_cuda");
  }

  void see(const Process& process, const watch::Call& call) {
    if (call.entry == watch::hold_entry) return held_.see(*process.file, call);
    process.world->see(call);
    if (call.is_of_the_program()) ++calls_;
  }

  const WatchOptions& options_;
  const SharedFolder& place_;
  watch::CallFolder folder_;
  watch::WatchReport& report_;
  watch::HangReports& hangs_;
  HeldCalls& held_;
  std::vector<Process> processes_;
  std::vector<std::shared_ptr<watch::CallFile>> ended_;
  std::set<pid_t> watched_; // all that have ever had a file
  std::vector<watch::Unwatched> partly_;
  std::optional<watch::UnwatchedProcesses> others_;
  unsigned long calls_ = 0;
  watch::OrderBlindness blind_;
  bool has_torch_ = false; // which has an allocator of its own
};

/// "3 processes", "41,200 calls", "no finding".
std::string counted(std::size_t count, const std::string& one, const std::string& many) {
  if (count == 0) return "no " + one;
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, ",");
  return digits + ' ' + (count == 1 ? one : many);
}

/// What the rules about memory did not see.
std::string blindness_text(const watch::OrderBlindness& blind, bool has_torch) {
  std::string text;
  if (has_torch && blind.frees == 0)
    text += "; PyTorch's allocator hides its frees: set PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync";
  if (blind.kernels > 0)
    text += "; the driver has no parameter information for " + counted(blind.kernels, "launch", "launches") +
            " of kernels";
  if (blind.launches > 0)
    text += "; what " + counted(blind.launches, "launch", "launches") + " of graphs use is not known";
  return text;
}

/// What the watch has seen: silence alone would not tell a blind watch from a clean program.
std::string last_line(const Watch& watched, std::size_t findings, bool have_hangs) {
  const auto unwatched = watched.unwatched();
  std::string text = unwatched.empty() ? "no process used the driver" : "watched no process";
  if (watched.processes() > 0)
    text = "watched " + counted(watched.processes(), "process", "processes") + ", " +
           counted(watched.calls(), "call", "calls") + ", " + counted(findings, "finding", "findings");
  if (have_hangs) text += ", and it hangs";
  std::map<std::string, std::size_t> reasons;
  const auto add = [&](const std::vector<watch::Unwatched>& processes, const std::string& what) {
    for (const watch::Unwatched& process : processes)
      ++reasons[what + process.reason];
  };
  add(unwatched, " could not be watched: ");
  add(watched.partly_watched(), " could be watched only in part: ");
  text += blindness_text(watched.blind(), watched.has_torch_with_order());
  for (const auto& [reason, count] : reasons)
    text += "; " + counted(count, "process", "processes") + reason;
  return text;
}

nlohmann::ordered_json processes_json(const std::vector<watch::Unwatched>& processes) {
  auto json = nlohmann::ordered_json::array();
  for (const watch::Unwatched& process : processes)
    json.push_back({{"process", process.process}, {"reason", process.reason}});
  return json;
}

/// What the auditor has to do in addition.
unsigned features_for(const WatchOptions& options) {
  unsigned features = 0;
  if (options.hang > 0) features |= watch::probes | watch::blocking_calls;
  if (options.cost) features |= watch::blocking_calls;
  if (!options.jitter.empty()) features |= watch::jitter;
  if (!options.order.empty()) features |= watch::memory_use | watch::blocking_calls;
  return features;
}

/// Before the other auditors, apart from the one of a `cuevent watch` around this one: the loader would load
/// the same library twice.
std::string with_auditor(const std::string& library) {
  std::string auditors = library;
  const char* const others = std::getenv("LD_AUDIT");
  std::istringstream paths(others == nullptr ? "" : others);
  for (std::string path; std::getline(paths, path, ':');)
    if (!path.empty() && std::filesystem::path(path).filename() != "libcuevent-watch.so")
      auditors += ':' + path;
  return auditors;
}

/// With room for static thread-local memory. The loader lays it out when it loads an auditor, and libraries
/// that need more of it, such as an allocator that LD_PRELOAD names, find no room later.
std::string tunables_for(std::uint64_t static_storage) {
  const std::string name = "glibc.rtld.optional_static_tls=";
  const char* const old = std::getenv("GLIBC_TUNABLES");
  std::string tunables = old == nullptr ? "" : old;
  if (tunables.find(name) != std::string::npos) return tunables;
  if (!tunables.empty()) tunables += ':';
  return tunables + name + std::to_string(static_storage);
}

/// Otherwise a file of this command could become its standard error. The program still finds them closed.
void fill_closed_descriptors() {
  int file = 0;
  while ((file = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && file <= STDERR_FILENO) {
  }
  if (file > STDERR_FILENO) close(file);
}

pid_t start(const WatchOptions& options, const WatchableProgram& program, const std::string& auditors,
            const std::string& folder) {
  std::vector<char*> arguments;
  for (const std::string& argument : options.program)
    arguments.push_back(const_cast<char*>(argument.c_str())); // execv does not change them
  arguments.push_back(nullptr);
  const std::string tunables = tunables_for(static_storage_of(program));
  return start_process([&] {
    setenv("LD_AUDIT", auditors.c_str(), 1);
    setenv("CUEVENT_WATCH", folder.c_str(), 1);
    setenv("GLIBC_TUNABLES", tunables.c_str(), 1);
    setenv("CUEVENT_WATCH_STACKS", options.stacks.c_str(), 1);
    if (!options.jitter.empty()) setenv(watch::jitter_variable, options.jitter.c_str(), 1);
    if (!options.reports.empty())
      setenv(reports_variable, std::filesystem::absolute(options.reports).c_str(), 1);
    if (const unsigned features = features_for(options); features != 0)
      setenv("CUEVENT_WATCH_FEATURES", std::to_string(features).c_str(), 1);
    else
      unsetenv("CUEVENT_WATCH_FEATURES"); // of another `cuevent watch`
    execv(program.path.c_str(), arguments.data());
    const int error = errno;
    watch::print_text("cuevent: " + program.path + ": " + std::strerror(error) + '\n');
    _exit(error == ENOENT ? not_found : not_started);
  });
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Reads until the program has ended, or, without a program, until a signal says so. Returns the exit code.
int read_until_end(Watch& watched, pid_t child, std::chrono::nanoseconds hang) {
  using namespace std::chrono_literals;
  constexpr auto look_interval = 50ms;
  const auto report_interrupted = [&] {
    if (Requested::interrupted == 0) return;
    Requested::interrupted = 0;
    if (hang > 0s) watched.report(1s, false);
  };
  constexpr int last_turns = 8; // processes that the program leaves behind may write without an end
  unsigned idle = 0;
  auto next_look = std::chrono::steady_clock::now() + look_interval;
  for (;;) {
    const bool found = watched.read();
    watched.find_unwatched();
    if (Requested::report != 0) {
      Requested::report = 0;
      watched.report(0s, true);
    }
    report_interrupted();
    if (Requested::end != 0) {
      if (child == 0) {
        watched.end_processes();
        return 0;
      }
      kill(child, Requested::end);
      Requested::end = 0;
    }
    int status = 0;
    const pid_t ended = child == 0 ? 0 : waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR)
      throw std::runtime_error(std::string("waitpid: ") + std::strerror(errno));
    if (ended == child && child != 0) {
      for (int turn = 0; turn < last_turns && watched.read(); ++turn) {
      }
      report_interrupted();
      watched.end_processes();
      return exit_code_of(status);
    }
    if (const auto now = std::chrono::steady_clock::now(); now >= next_look) {
      watched.end_processes();
      watched.check_place();
      if (hang > 0s) watched.find_hangs(hang);
      next_look = now + look_interval;
    }
    idle = found ? 0 : idle + 1;
    // Also after a read: while the command polls, each record takes the program longer.
    std::this_thread::sleep_for(found ? 2ms : idle < 20 ? 200us : idle < 200 ? 1ms : 5ms);
  }
}

int explain(const std::string& name) {
  if (name == "all") {
    for (const watch::RulePage& page : watch::rule_pages())
      std::printf("%-26s the program %s\n", page.name, page.title);
    return 0;
  }
  const watch::RulePage* const page = watch::page_named(name);
  if (page == nullptr)
    throw std::runtime_error("there is no rule " + name + ". `cuevent watch --explain all` lists the rules");
  std::printf("%s: the program %s\n\nWhat the driver does\n  %s\n\nHow to fix it\n  %s\n", page->name,
              page->title, page->driver, page->fix);
  return 0;
}

/// A process in quiet mode that has not moved for that long is stuck.
constexpr std::chrono::seconds quiet_limit(10);

watch::HangReports::Keep keep_in(const std::optional<ReportFolder>& folder) {
  if (!folder) return {};
  return [&folder](const watch::CallFile& process, const nlohmann::ordered_json& report) {
    folder->write(process, report);
  };
}

/// What a process is doing that recorded its calls without a command.
int report_of(const std::string& path, const std::string& reports_folder) {
  watch::CallFile file(path, watch::CallFile::Mode::again);
  watch::CallText texts;
  std::optional<ReportFolder> folder;
  if (!reports_folder.empty()) folder.emplace(reports_folder, quiet_limit);
  watch::HangReports reports(texts, keep_in(folder));
  watch::World world;
  watch::HangWatch hang(file, world, reports);
  file.read([&](const watch::Call& call) { world.see(call); }, true);
  hang.add_lost_probes();
  hang.report(std::nullopt); // the process has looked, and waits for this report
  return 0;
}

int run_watched(const WatchOptions& options) {
  if (!options.explain.empty()) return explain(options.explain);
  if (!options.report.empty()) return report_of(options.report, options.reports);
  if (!options.ask.empty()) return ask_for_reports(options.ask);
  if (!options.check.empty()) return check_with_jitter(options);
  watch::Suppressions suppressions;
  for (const std::string& path : options.suppressions)
    suppressions.read(path);
  fill_closed_descriptors();
  // Whatever can be wrong with the options is found before the program starts.
  WatchableProgram program;
  std::string auditors;
  if (options.program.empty()) {
    auditors = auditing_library();
  } else {
    program = watchable_program(options.program.front());
    auditors = with_auditor(auditing_library());
  }
  std::optional<OutputFile> json_file;
  if (!options.json_file.empty()) json_file.emplace(options.json_file);
  handle_signals(options.program.empty() ? Interrupt::command : Interrupt::program,
                 options.hang > 0 ? Reports::on_signal : Reports::none);
  const SharedFolder folder(options.attach);
  watch::CallText texts;
  watch::WatchReport report(suppressions, texts);
  HeldCalls held(options.jitter, texts);
  const std::chrono::seconds hang(options.hang);
  std::optional<ReportFolder> reports;
  if (!options.reports.empty())
    reports.emplace(options.reports, std::min<std::chrono::nanoseconds>(quiet_limit, hang));
  watch::HangReports hangs(texts, keep_in(reports));
  int code = 0;
  {
    Watch watched(options, folder, report, hangs, held);
    pid_t child = 0;
    if (options.program.empty()) {
      const unsigned features = features_for(options);
      watch::print_text(
          "cuevent watch: start programs with\n  GLIBC_TUNABLES=" + tunables_for(static_storage_of({})) +
          " LD_AUDIT=" + auditors + " CUEVENT_WATCH=" + folder.path() +
          (features == 0 ? "" : " CUEVENT_WATCH_FEATURES=" + std::to_string(features)) +
          "\nCtrl-C ends the watch.\n");
    } else {
      child = start(options, program, auditors, folder.path());
      watched.start(child);
    }
    code = read_until_end(watched, child, hang);
    watched.leave_processes();
    report.print_summary();
    if (const std::string sentence = held.sentence(); !sentence.empty())
      watch::print_text("cuevent watch: " + sentence + '\n');
    const std::string seen = last_line(watched, report.findings(), hangs.have_hangs());
    watch::print_text("cuevent watch: " + seen + '\n');
    if (json_file) {
      nlohmann::ordered_json json{{"program", options.program},
                                  {"exit_code", code},
                                  {"seen", seen},
                                  {"processes", watched.processes()},
                                  {"calls", watched.calls()},
                                  {"unwatched", processes_json(watched.unwatched())},
                                  {"partly_watched", processes_json(watched.partly_watched())},
                                  {"findings", report.json()}};
      if (options.hang > 0) json["hangs"] = hangs.json();
      if (!options.jitter.empty()) json["jitter"] = held.json();
      try {
        json_file->write(json_text(json) + "\n");
        json_file->finish();
      } catch (const OutputError& error) { // the exit code stays the program's
        watch::print_text(std::string("cuevent watch: ") + error.what() + '\n');
      }
    }
  }
  return options.fail && (report.findings() > 0 || hangs.have_hangs()) ? 1 : code;
}

} // namespace

int watch(const WatchOptions& options) {
  try {
    return run_watched(options);
  } catch (const Stopped& stopped) {
    return 128 + stopped.signal;
  } catch (const CannotStart& error) {
    watch::print_text(std::string("cuevent: ") + error.what() + '\n');
    return error.code();
  }
}

} // namespace cli
