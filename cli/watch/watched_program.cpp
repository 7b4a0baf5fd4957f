// SPDX-License-Identifier: MIT
#include "watch/watched_program.hpp"

#include "exit_code.hpp"
#include "program_arguments.hpp"
#include "protocol/jitter_plan.hpp"
#include "protocol/protocol.hpp"
#include "report/printable.hpp"
#include "watch/program.hpp"
#include "watch/report_folder.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace cli {

namespace {

/// What the auditor has to do in addition.
unsigned features_for(const WatchOptions& options) {
  unsigned features = 0;
  if (options.hang > 0) features |= watch::probes | watch::blocking_calls;
  if (options.cost) features |= watch::blocking_calls | watch::costs;
  if (!options.jitter.empty()) features |= watch::jitter;
  if (!options.order.empty()) features |= watch::memory_use | watch::blocking_calls;
  if (options.guards_host_memory()) features |= watch::host_uses;
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

} // namespace

WatchedProgram::WatchedProgram(const WatchOptions& options)
    : options_(options), features_(features_for(options)) {
  WatchableProgram program;
  if (!options.program.empty()) program = watchable_program(options.program.front());
  path_ = program.path;
  auditors_ = options.program.empty() ? auditing_library() : with_auditor(auditing_library());
  tunables_ = tunables_for(static_storage_of(program));
}

pid_t WatchedProgram::start(StandIn& stand_in, const std::string& folder) const {
  const std::vector<char*> arguments = arguments_of(options_.program);
  return stand_in.start([&] {
    setenv("LD_AUDIT", auditors_.c_str(), 1);
    setenv("CUEVENT_WATCH", folder.c_str(), 1);
    setenv("GLIBC_TUNABLES", tunables_.c_str(), 1);
    setenv("CUEVENT_WATCH_STACKS", options_.stacks.c_str(), 1);
    if (!options_.jitter.empty()) setenv(watch::jitter_variable, options_.jitter.c_str(), 1);
    if (!options_.reports.empty())
      setenv(reports_variable, std::filesystem::absolute(options_.reports).c_str(), 1);
    if (features_ != 0)
      setenv("CUEVENT_WATCH_FEATURES", std::to_string(features_).c_str(), 1);
    else
      unsetenv("CUEVENT_WATCH_FEATURES"); // of another `cuevent watch`
    execv(path_.c_str(), arguments.data());
    const int error = errno;
    watch::print_text("cuevent: " + path_ + ": " + std::strerror(error) + '\n');
    _exit(error == ENOENT ? not_found : not_started);
  });
}

std::string WatchedProgram::variables(const std::string& folder) const {
  return "GLIBC_TUNABLES=" + tunables_ + " LD_AUDIT=" + auditors_ + " CUEVENT_WATCH=" + folder +
         (features_ == 0 ? "" : " CUEVENT_WATCH_FEATURES=" + std::to_string(features_));
}

} // namespace cli
