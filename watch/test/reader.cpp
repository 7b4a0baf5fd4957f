// SPDX-License-Identifier: MIT
// In which order the reader sees the calls of several threads: launches have records of their own.
#include "report/reader.hpp"

#include "protocol/protocol.hpp"
#include "protocol/ticks.hpp"
#include "written_calls.hpp"

#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr std::uint64_t numbers = 0x1000; // the call with number 1 has the stream 0x1001

/// The file of this process, written as the auditor writes it.
class WrittenFile {
public:
  WrittenFile() {
    path_ = std::filesystem::temp_directory_path() / ("written-" + std::to_string(getpid()) + ".calls");
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(ftruncate(file, sizeof(watch::Region)) == 0);
    void* const place = mmap(nullptr, sizeof(watch::Region), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    REQUIRE(place != MAP_FAILED);
    region_ = static_cast<watch::Region*>(place);
    region_->version = watch::protocol_version;
    region_->process = static_cast<std::uint32_t>(getpid());
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
