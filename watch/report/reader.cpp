// SPDX-License-Identifier: MIT
#include "report/reader.hpp"

#include "report/system_processes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace watch {

using watch::Region;

namespace {

/// Where the last segment of a mapped file ends, counted from its beginning. 0 if it cannot be read.
std::uint64_t size_in_memory(const std::string& path) {
  static std::map<std::string, std::uint64_t> known;
  if (const auto found = known.find(path); found != known.end()) return found->second;
  std::uint64_t end = 0;
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (file.read(reinterpret_cast<char*>(&header), sizeof header) &&
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0)
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr part{};
      file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof part));
      if (file.read(reinterpret_cast<char*>(&part), sizeof part) && part.p_type == PT_LOAD)
        end = std::max<std::uint64_t>(end, part.p_vaddr + part.p_memsz);
    }
  return known[path] = end;
}

} // namespace

CallFile::CallFile(const std::string& path, Mode mode) : takes_out_(mode == Mode::once) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) < sizeof(Region)) {
    if (file >= 0) close(file);
    throw std::runtime_error(path + " is not a file of calls that this version of cuevent can read");
  }
  void* const place = mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (place == MAP_FAILED) throw std::runtime_error(path + ": " + std::strerror(errno));
  region_ = static_cast<Region*>(place);
  if (mode == Mode::once) unlink(path.c_str()); // both have it mapped, and neither will open it again
  if (region_->version == watch::protocol_version) {
    find_process();
    clock_.emplace(region_->first_tick, region_->first_time);
    return;
  }
  munmap(region_, sizeof(Region));
  throw std::runtime_error(path +
                           " belongs to another version of cuevent: use the `cuevent watch` of that version");
}

void CallFile::find_process() {
  process_ = region_->process;
  const std::uint64_t here = name_space_of(getpid());
  if (here != 0 && region_->name_space != 0 && region_->name_space != here) {
    const pid_t number = number_here(process_, region_->name_space);
    is_visible_ = number != 0;
    if (is_visible_) process_ = static_cast<unsigned>(number);
  }
  if (const auto state = state_of(static_cast<pid_t>(process_)); state && is_visible_) begun_ = state->begun;
}

CallFile::~CallFile() { release(); }

void CallFile::release() {
  if (region_ != nullptr) munmap(region_, sizeof(Region));
  region_ = nullptr;
}

watch::Call CallFile::call_of(const watch::CallData& data, std::uint32_t time) {
  watch::Call call = decoded(data);
  call.time = clock_->time_of_record(time);
  if (watch::can_block(call.verb())) call.duration = clock_->duration(call.ticks);
  return call;
}

void CallFile::take_launches() {
  if (!takes_out_) return;
  for (watch::LaunchRing& ring : region_->launches) {
    const std::uint64_t first = ring.taken.load(std::memory_order_relaxed);
    std::uint64_t next = first;
    for (;; ++next) {
      const watch::Record& record = ring.records[next % watch::launch_limit];
      if (record.stamp.load(std::memory_order_acquire) != static_cast<std::uint32_t>(next) + 1) break;
      launches_.push_back({record.call.words[3], record.time, record.call});
    }
    if (next != first) ring.taken.store(next, std::memory_order_release);
  }
  std::stable_sort(launches_.begin(), launches_.end(), [](const Launch& a, const Launch& b) {
    return std::pair(a.before, a.time) < std::pair(b.before, b.time);
  });
}

std::size_t CallFile::see_launches(std::uint64_t before, const std::function<void(const watch::Call&)>& see) {
  std::size_t count = 0;
  for (; !launches_.empty() && launches_.front().before <= before; launches_.pop_front(), ++count)
    see(call_of(launches_.front().call, launches_.front().time));
  return count;
}

std::size_t CallFile::read(const std::function<void(const watch::Call&)>& see, bool ended) {
  std::uint64_t next = takes_out_ ? region_->read.load(std::memory_order_relaxed) : next_;
  const std::uint64_t written = region_->written.load();
  if (region_->overwrites != 0 && written > watch::record_limit)
    next = std::max(next, written - watch::record_limit);
  clock_->update();
  const auto stamp_of = [](std::uint64_t number) { return static_cast<std::uint32_t>(number) + 1; };
  const auto is_complete = [&](std::uint64_t number) {
    return region_->records[number % watch::record_limit].stamp.load(std::memory_order_acquire) ==
           stamp_of(number);
  };
  // Not without an end: other processes write too.
  std::uint64_t end = next;
  while (end - next < watch::record_limit && (ended ? end < region_->written.load() : is_complete(end)))
    ++end;
  take_launches(); // after these records are known: so no launch is missing that came before one of them
  std::size_t count = 0;
  for (; next < end; ++next) {
    count += see_launches(next, see);
    const watch::Record& record = region_->records[next % watch::record_limit];
    const bool was_complete = is_complete(next);
    const watch::CallData call = record.call;
    const std::uint32_t time = record.time;
    std::atomic_thread_fence(std::memory_order_acquire);
    // The stamp is another one if the record was overwritten meanwhile.
    const bool is_torn = record.stamp.load(std::memory_order_relaxed) != stamp_of(next);
    if (takes_out_) region_->read.store(next + 1, std::memory_order_release);
    if (was_complete && !is_torn && (call.entry < watch::entry_count || call.entry >= watch::memory_entry))
      see(call_of(call, time)), ++count;
  }
  count += see_launches(ended ? ~std::uint64_t{0} : end, see);
  next_ = next;
  return count;
}

std::vector<watch::Call> CallFile::unfinished() const {
  std::vector<watch::Call> calls;
  for (const watch::ThreadSlot& slot : region_->threads)
    if (slot.thread.load() != 0 && slot.inside.load() != 0 && slot.call.entry < watch::entry_count)
      calls.push_back(decoded(slot.call)), calls.back().returned = false;
  return calls;
}

bool CallFile::has_ended() const {
  if (!is_visible_) return false;
  const auto state = state_of(static_cast<pid_t>(process_));
  if (!state || state->begun != begun_) return true; // another process has the number now
  if (state->state != 'Z') return false;
  // So it is too if only the main thread has ended.
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/" + std::to_string(process_) + "/task", error);
  return error || std::distance(begin(threads), end(threads)) <= 1;
}

std::vector<std::uint64_t> CallFile::stack(std::uint32_t number) const {
  if (number == 0 || number >= watch::frame_limit) return {};
  const std::uint64_t* const begin = region_->frames + number;
  const auto count = std::min<std::uint64_t>(*begin & 0xFFFF'FFFF, watch::depth_limit);
  return {begin + 1, begin + 1 + count};
}

std::vector<std::string> CallFile::python_stack(std::uint32_t number) const {
  if (number == 0 || number >= watch::frame_limit) return {};
  const std::uint64_t* const begin = region_->frames + number;
  const auto count = std::min<std::uint64_t>(*begin & 0xFFFF'FFFF, watch::depth_limit);
  const auto length = std::min<std::uint64_t>((*begin >> 32) * 8, watch::text_limit);
  std::istringstream text(std::string(reinterpret_cast<const char*>(begin + 1 + count), length).c_str());
  std::vector<std::string> frames;
  for (std::string line; std::getline(text, line);) { //   File "train.py", line 12 in step
    const auto file = line.find("File \""), end = line.find("\", line "), name = line.rfind(" in ");
    if (file == std::string::npos || end == std::string::npos || name == std::string::npos || name < end)
      continue;
    const std::string path = line.substr(file + 6, end - file - 6);
    frames.push_back(path + ":" + line.substr(end + 8, name - end - 8) + line.substr(name));
  }
  return frames;
}

std::string CallFile::path_of(const watch::Module& module) const {
  if (module.path > watch::path_room - watch::longest_path) return {};
  const char* const text = region_->path_text + module.path;
  return {text, strnlen(text, watch::longest_path)};
}

bool CallFile::has_loaded(const std::string& name) const {
  const auto count = std::min(region_->module_count.load(), watch::module_limit);
  return std::any_of(region_->modules, region_->modules + count, [&](const watch::Module& module) {
    const std::string path = path_of(module);
    return path.compare(path.rfind('/') + 1, name.size(), name) == 0;
  });
}

std::pair<std::string, std::uint64_t> CallFile::module_at(std::uint64_t address) const {
  const auto count = std::min(region_->module_count.load(), watch::module_limit);
  for (std::uint32_t i = count; i-- > 0;) { // the later one, if both were mapped there
    const watch::Module& module = region_->modules[i];
    if (address < module.base) continue;
    const std::string path = path_of(module);
    if (path.starts_with('/') && address - module.base < size_in_memory(path)) return {path, module.base};
  }
  return {};
}

std::vector<std::shared_ptr<CallFile>> CallFolder::new_files() {
  std::vector<std::shared_ptr<CallFile>> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    const std::string path = entry.path();
    const auto process = static_cast<unsigned>(std::atoi(entry.path().filename().c_str()));
    if (path.ends_with(".no-room") && unlink(path.c_str()) == 0)
      unwatched_.push_back({process, "there is no room for its calls in " + path_});
    if (path.ends_with(".limited") && unlink(path.c_str()) == 0)
      unwatched_.push_back({process, "its files may not be as large as its calls need (ulimit -f)"});
    if (path.ends_with(".calls") && seen_.insert(path).second) try {
        files.push_back(std::make_shared<CallFile>(path));
      } catch (const std::runtime_error& bad) {
        unwatched_.push_back({process, bad.what()});
      }
  }
  return files;
}

} // namespace watch
