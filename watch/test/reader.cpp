// SPDX-License-Identifier: MIT
// In which order the reader sees the calls of several threads: launches have records of their own.
#include "report/reader.hpp"

#include "protocol/protocol.hpp"
#include "protocol/ticks.hpp"
#include "report/symbols.hpp"
#include "written_calls.hpp"

#include <csignal>
#include <cstddef>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::uint64_t numbers = 0x1000; // the call with number 1 has the stream 0x1001

/// The file of this process, written as the auditor writes it.
class WrittenFile {
public:
  explicit WrittenFile(pid_t process = getpid()) {
    path_ = std::filesystem::temp_directory_path() / ("written-" + std::to_string(getpid()) + ".calls");
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(ftruncate(file, sizeof(watch::Region)) == 0);
    void* const place = mmap(nullptr, sizeof(watch::Region), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    REQUIRE(place != MAP_FAILED);
    region_ = static_cast<watch::Region*>(place);
    region_->version = watch::protocol_version;
    region_->record_mask = watch::record_limit - 1;
    region_->process = static_cast<std::uint32_t>(process);
    region_->first_tick = watch::ticks();
    file_ = std::make_unique<watch::CallFile>(path_);
  }
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;
  ~WrittenFile() { munmap(region_, sizeof(watch::Region)); }

  /// A record with a number among those of all threads. It can be completed later.
  watch::Record& begin(std::uint64_t call) {
    watch::Record& record = region_->records[region_->written.fetch_add(1) % watch::record_limit];
    write(record, call, "cuEventRecord");
    return record;
  }
  void complete(watch::Record& record) {
    record.stamp = static_cast<std::uint32_t>(&record - region_->records) + 1;
  }
  void record(std::uint64_t call) { complete(begin(call)); }

  /// A launch of the thread in this slot.
  void launch(unsigned slot, std::uint64_t call) {
    const std::uint64_t number = region_->threads[slot].launches++;
    watch::Record& record = region_->launches[slot].records[number % watch::launch_limit];
    write(record, call, "cuLaunchKernel");
    record.call.words[3] = region_->written;
    record.stamp = static_cast<std::uint32_t>(number) + 1;
  }

  const watch::CallFile& file() const { return *file_; }
  watch::Region& region() { return *region_; }

  std::string read(bool ended = false) {
    std::string seen;
    file_->read(
        [&](const watch::Call& call) { seen.append(std::to_string(call.stream().handle - numbers)) += ' '; },
        ended);
    return seen;
  }

private:
  void write(watch::Record& record, std::uint64_t call, const char* symbol) {
    record.call.entry = entry_named(symbol);
    record.call.count = 2;
    record.call.words[0] = record.call.words[1] = numbers + call;
    record.time = static_cast<std::uint32_t>(call); // it does not decide where the numbers do
  }

  std::string path_;
  watch::Region* region_;
  std::unique_ptr<watch::CallFile> file_;
};

/// Notices that a file is opened.
class Opened {
public:
  explicit Opened(const std::string& path) { REQUIRE(inotify_add_watch(file_, path.c_str(), IN_OPEN) >= 0); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() { close(file_); }
  bool any() const {
    char events[4096];
    return read(file_, events, sizeof events) > 0;
  }

private:
  int file_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
};

constexpr uid_t stranger = 65534;

class ProcessOfStranger {
public:
  ProcessOfStranger() {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    process_ = fork();
    if (process_ == 0) {
      if (setresuid(stranger, stranger, stranger) != 0 || write(ready[1], "x", 1) != 1) _exit(1);
      for (;;)
        pause();
    }
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
  }
  ProcessOfStranger(const ProcessOfStranger&) = delete;
  ProcessOfStranger& operator=(const ProcessOfStranger&) = delete;
  ~ProcessOfStranger() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  pid_t number() const { return process_; }

private:
  pid_t process_ = -1;
};

/// The name of the file with the debug information of a program. Empty if it names none.
std::string debug_link_of(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto at = [&](std::uint64_t offset, auto part) {
    if (offset + sizeof part <= text.size()) std::memcpy(&part, text.data() + offset, sizeof part);
    return part;
  };
  const auto header = at(0, Elf64_Ehdr{});
  const auto section = [&](unsigned i) { return at(header.e_shoff + i * sizeof(Elf64_Shdr), Elf64_Shdr{}); };
  const std::uint64_t names = section(header.e_shstrndx).sh_offset;
  for (unsigned i = 0; i < header.e_shnum; ++i)
    if (std::string_view(text.c_str() + names + section(i).sh_name) == ".gnu_debuglink")
      return text.c_str() + section(i).sh_offset;
  return {};
}

} // namespace

TEST_CASE("launches of two threads are seen where they were made") {
  WrittenFile file;
  file.launch(0, 1);
  file.record(2);
  file.launch(0, 3);
  file.launch(1, 4);
  file.record(5);
  file.launch(1, 6);
  CHECK(file.read() == "1 2 3 4 5 6 ");
  CHECK(file.read().empty());
}

TEST_CASE("a launch waits for the calls before it that are not complete") {
  WrittenFile file;
  file.launch(0, 1);
  watch::Record& late = file.begin(2); // its thread has not written it yet
  file.launch(1, 3);
  file.record(4);
  CHECK(file.read() == "1 ");
  file.complete(late);
  CHECK(file.read() == "2 3 4 ");
}

TEST_CASE("a process that has ended hides no launch behind a call that was never complete") {
  WrittenFile file;
  file.begin(1);
  file.launch(0, 2);
  file.record(3);
  CHECK(file.read().empty());
  CHECK(file.read(true) == "2 3 ");
}

TEST_CASE("a thread may launch again in a place that was read") {
  WrittenFile file;
  std::string expected;
  for (std::uint64_t call = 1; call <= 3 * watch::launch_limit; ++call) {
    file.launch(0, call);
    expected.append(std::to_string(call)).append(" ");
    if (call % watch::launch_limit != 0) continue;
    CHECK(file.read() == expected);
    expected.clear();
  }
}

TEST_CASE("a file that a process names is opened without waiting, if it is a regular one") {
  const WrittenFile written;
  const auto folder = std::filesystem::temp_directory_path() / ("modules-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& path :
       {(folder / "pipe").string(), folder.string(), std::string("/dev/zero"), (folder / "missing").string()})
    CHECK_FALSE(written.file().open_module(path).is_open());
  CHECK(written.file().open_module("/proc/self/exe").is_open());
  std::filesystem::remove_all(folder);
}

TEST_CASE("a pipe or a device that a process names is not even opened") {
  const WrittenFile written;
  const auto pipe = std::filesystem::temp_directory_path() / ("pipe-" + std::to_string(getpid()));
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const Opened opened(pipe);
  CHECK_FALSE(written.file().open_module(pipe).is_open());
  CHECK_FALSE(opened.any());
  close(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  CHECK(opened.any()); // so the test would notice
  std::filesystem::remove(pipe);
}

TEST_CASE("for a process of another user, root reads only files of root that all may read") {
  if (geteuid() != 0) SKIP("a second user is needed");
  const auto theirs = std::filesystem::temp_directory_path() / ("theirs-" + std::to_string(getpid()));
  const auto hidden = std::filesystem::temp_directory_path() / ("hidden-" + std::to_string(getpid()));
  for (const auto& path : {theirs, hidden})
    close(open(path.c_str(), O_CREAT | O_CLOEXEC, path == theirs ? 0644 : 0600));
  REQUIRE(chown(theirs.c_str(), stranger, stranger) == 0);
  const ProcessOfStranger child;
  {
    const WrittenFile written(child.number());
    CHECK(written.file().is_of_another_user());
    CHECK_FALSE(written.file().open_module(theirs).is_open());
    CHECK_FALSE(written.file().open_module(hidden).is_open());
    CHECK(written.file().open_module("/bin/sh").is_open());
    const WrittenFile own;
    CHECK(own.file().open_module(theirs).is_open());
    CHECK(own.file().open_module(hidden).is_open());
  }
  std::filesystem::remove(theirs);
  std::filesystem::remove(hidden);
}

TEST_CASE("for a process of another user, no debug file is read next to the path that it names") {
  if (geteuid() != 0) SKIP("a second user is needed");
  const std::string name = debug_link_of("/bin/sh");
  if (name.empty()) SKIP("/bin/sh names no debug file");
  const auto folder = std::filesystem::temp_directory_path() / ("debug-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink("/bin/sh", folder / "sh");
  const auto planted = folder / name;
  close(open(planted.c_str(), O_CREAT | O_CLOEXEC, 0644));
  const ProcessOfStranger child;
  for (const pid_t process : {child.number(), getpid()}) {
    WrittenFile written(process);
    watch::Region& region = written.region();
    region.module_count = 1;
    region.modules[0].path = 1;
    region.modules[0].base = 0x1000'0000;
    std::strcpy(region.path_text + 1, (folder / "sh").c_str());
    const Opened opened(planted);
    watch::Symbols symbols;
    CHECK(symbols.frames(written.file(), 0x1000'5000).front().library == folder / "sh");
    // Without libdw, no file of this process is opened either.
    CHECK_FALSE((opened.any() && written.file().is_of_another_user()));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file of calls that others could make shorter is not read twice") {
  const auto path = std::filesystem::temp_directory_path() / ("unsealed-" + std::to_string(getpid()));
  std::string text(watch::region_size(1), '\0');
  const std::uint32_t version = watch::protocol_version; // the text is not aligned as a Region
  std::memcpy(text.data() + offsetof(watch::Region, version), &version, sizeof version);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  close(file);
  CHECK_THROWS(watch::CallFile(path, watch::CallFile::Mode::again));
  CHECK_NOTHROW(watch::CallFile(path));
}

TEST_CASE("what passed by has a number and names") {
  WrittenFile written;
  CHECK(written.file().blind_spots().functions.empty());
  written.region().lost_threads = 3;
  written.region().lost_libraries = 2;
  written.region().newer[entry_named("cuLaunchKernel")] = 1;
  watch::BlindSpots spots = written.file().blind_spots();
  spots.add(written.file().blind_spots());
  CHECK(spots.calls == 6);
  CHECK(spots.libraries == 4);
  CHECK(spots.functions == std::set<std::string>{"cuLaunchKernel"});
}

TEST_CASE("what a region says about itself is bounded") {
  WrittenFile written;
  watch::Region& region = written.region();
  region.module_count = ~0U;
  region.modules[0].path = watch::path_room - 1;
  CHECK(written.file().program().empty());
  for (const std::uint32_t number : {1U, watch::frame_limit - 1, watch::frame_limit, ~0U}) {
    if (number < watch::frame_limit) region.frames[number] = ~std::uint64_t{0};
    CHECK(written.file().stack(number).size() <= watch::depth_limit);
    CHECK(written.file().python_stack(number).empty());
  }
  region.record_mask = 0; // it was read once
  CHECK(written.file().records() == watch::record_limit);
}
