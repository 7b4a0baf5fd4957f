// SPDX-License-Identifier: MIT
#include "sim/sim.hpp"

#include "core/name_text.hpp"
#include "exit_code.hpp"
#include "output_file.hpp"
#include "program_arguments.hpp"
#include "report/folder.hpp"
#include "report/printable.hpp"
#include "sim/sim_report.hpp"
#include "stand_in.hpp"
#include "standard_files.hpp"
#include "temporary_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cli {

namespace {

namespace fs = std::filesystem;

constexpr char report_variable[] = "CUEVENT_SIM_REPORT";
constexpr std::size_t most_printed = 20; // names; the file has all
constexpr off_t most_read = 4 << 20;     // the simulator writes less
constexpr off_t most_written = 1 << 20;  // as in sim/src/report.cpp

/// Of the build folder that this command is in, or as far from the command as in the installation, which may
/// have been moved.
fs::path simulator_folder() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path installed =
      here / fs::path(CUEVENT_WATCH_FOLDER).lexically_relative(CUEVENT_BIN_FOLDER) / "sim";
  for (const fs::path& folder : {here / "../sim", installed})
    if (fs::exists(folder / "libcuda.so.1")) return fs::canonical(folder);
  throw std::runtime_error("the simulated driver is not in " + installed.lexically_normal().string() +
                           ": install Debian's package libcuevent-sim, or build with -Dinstall_sim=true");
}

/// In front of the folders that the user names.
std::string library_path(const fs::path& folder) {
  const std::string own = folder;
  if (own.find_first_of(":;$") != std::string::npos)
    throw std::runtime_error(
        own + ": the loader cannot be told of a folder with this name. Move cuevent to another "
              "one");
  const char* const others = std::getenv("LD_LIBRARY_PATH");
  return others == nullptr || *others == '\0' ? own : own + ':' + others;
}

/// The library that gives programs the stand-ins, behind the user's libraries, or just these if it was not
/// built: the loader would complain about a missing one in each program.
std::string audit_libraries(const fs::path& folder) {
  const char* const others = std::getenv("LD_AUDIT");
  const std::string own = folder / "libcuevent-stand-ins.so";
  if (!fs::exists(own)) return others == nullptr ? "" : others;
  return others == nullptr || *others == '\0' ? own : std::string(others) + ':' + own;
}

/// The file to which the processes of the program write.
class Lines {
public:
  Lines() {
    if (const char* const named = std::getenv(report_variable); named != nullptr && *named != '\0') {
      path_ = fs::absolute(named); // of the user, or of a `cuevent sim` around this one
    } else {
      folder_.emplace("cuevent-sim-");
      path_ = folder_->path + "/report";
    }
    // Opened now: the program may remove it, and what is wrong with it is found before the program starts.
    file_ =
        watch::OpenFile(open(path_.c_str(), O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    struct stat status {};
    if (!file_.is_open() || fstat(file_.number(), &status) != 0)
      throw std::runtime_error(path_ + ": " + std::strerror(errno));
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_nlink != 1)
      throw std::runtime_error(path_ + ": not a file of this user without other names");
    begin_ = status.st_size;
  }
  const std::string& path() const { return path_; }

  /// Whether there was no room for a line, or the program has taken the file away.
  bool is_incomplete() const {
    struct stat status {};
    return fstat(file_.number(), &status) != 0 || status.st_size >= most_written || status.st_nlink == 0;
  }

  /// What has been written since.
  std::string read() const {
    std::string text;
    struct stat status {};
    if (fstat(file_.number(), &status) != 0 || status.st_size <= begin_) return text;
    text.resize(static_cast<std::size_t>(std::min(status.st_size - begin_, most_read)));
    const ssize_t length = pread(file_.number(), text.data(), text.size(), begin_);
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return text;
  }

private:
  std::optional<TemporaryFolder> folder_;
  std::string path_;
  watch::OpenFile file_;
  off_t begin_ = 0;
};

/// Returns success. If the program cannot be started, says why and returns the exit code.
ExitCode start(StandIn& stand_in, const SimOptions& options, const fs::path& folder,
               const std::string& lines) {
  const std::vector<char*> arguments = arguments_of(options.program);
  const std::string libraries = library_path(folder), driver = folder / "libcuda.so.1";
  const std::string audits = audit_libraries(folder);
  int ends[2]; // the new program closes the second one
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  const pid_t child = stand_in.start([&] {
    setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
    if (!audits.empty()) setenv("LD_AUDIT", audits.c_str(), 1);
    setenv("CUEVENT_DRIVER", driver.c_str(), 1);
    setenv(report_variable, lines.c_str(), 1);
    for (const auto& [name, value] : options.variables)
      setenv(name.c_str(), value.c_str(), 1);
    execvp(arguments.front(), arguments.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t told = write(ends[1], &error, sizeof error);
    _exit(not_started);
  });
  close(ends[1]);
  int error = 0;
  ssize_t told = 0;
  while ((told = read(ends[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  close(ends[0]);
  if (told != sizeof error) return success;
  waitpid(child, nullptr, 0);
  watch::print_text("cuevent: " + options.program.front() + ": " + std::strerror(error) + '\n');
  return error == ENOENT ? not_found : not_started;
}

} // namespace

int simulate(const SimOptions& options) {
  using namespace std::chrono_literals;
  fill_closed_descriptors();
  const fs::path folder = simulator_folder();
  StandIn stand_in(Reports::none);
  std::optional<OutputFile> file; // whatever is wrong with its name is found before the program starts
  try {
    if (!options.report.empty()) file.emplace(options.report);
  } catch (const OutputError& error) {
    watch::print_text(std::string("cuevent: ") + error.what() + '\n');
    return usage;
  }
  int status = 0;
  SimReport report("");
  {
    const Lines lines;
    if (const ExitCode failed = start(stand_in, options, folder, lines.path()); failed != success)
      return failed;
    for (std::optional<int> ended; !ended; status = ended.value_or(0)) {
      stand_in.wait(5ms);
      ended = stand_in.follow();
    }
    report = SimReport(lines.read());
    if (lines.is_incomplete())
      watch::print_text("cuevent sim: " + lines.path() +
                        ": the file is full or was removed, so what follows may not be all\n");
  }
  if (const std::string names = report.names_text(most_printed); !names.empty())
    watch::print_text("cuevent sim: " + names);
  if (const std::string kernels = report.kernels_text(options.verbose ? Names::all : Names::most_frequent);
      !kernels.empty())
    watch::print_text("cuevent sim: " + kernels);
  watch::print_text("cuevent sim: " + report.processes_text());
  if (file) {
    try {
      file->write(cuevent::printable_lines(report.names_text(~std::size_t{0}) +
                                           report.kernels_text(Names::all) + report.processes_text()));
      file->finish();
    } catch (const OutputError& error) {
      watch::print_text(std::string("cuevent sim: ") + error.what() + '\n');
      if (status == 0) return not_written;
    }
    file.reset();
  }
  return end_like(status);
}

} // namespace cli
