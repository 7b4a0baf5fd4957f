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

constexpr std::size_t most_launches = 1U << 20; // that wait for the records before them

/// Reads a part of the file. False if it is not there.
template <class T>
bool read_at(const OpenFile& file, std::uint64_t offset, T& part) {
  return pread(file.number(), &part, sizeof part, static_cast<off_t>(offset)) == sizeof part;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw std::runtime_error(path + " " + why);
}

/// Whether the number of records is one that the auditor chooses.
bool is_count(std::uint64_t records) {
  return records > 0 && records <= watch::record_limit && (records & (records - 1)) == 0;
}

} // namespace

CallFile::CallFile(const std::string& path, Mode mode, int folder) : takes_out_(mode == Mode::once) {
  const int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  // A name in /proc is a link to a file that is already open.
  file_ = OpenFile(openat(folder, path.c_str(), flags | (mode == Mode::once ? O_NOFOLLOW : 0)));
  struct stat status {};
  if (!file_.is_open() || fstat(file_.number(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse(path, "is not a file of calls that this version of cuevent can read");
  if (status.st_uid != geteuid())
    refuse(path, "belongs to user " + std::to_string(status.st_uid) + ": run the command as that user");
  std::uint32_t version = 0;
  std::uint64_t mask = 0;
  if (!read_at(file_, offsetof(Region, version), version) ||
      !read_at(file_, offsetof(Region, record_mask), mask))
    refuse(path, "is not a file of calls that this version of cuevent can read");
  if (version != watch::protocol_version)
    refuse(path, "belongs to another version of cuevent: use the `cuevent watch` of that version");
  const std::size_t size = is_count(mask + 1) ? region_size(mask + 1) : 0;
  if (size == 0 || static_cast<std::size_t>(status.st_size) < size)
    refuse(path, "is not a file of calls that this version of cuevent can read");
  // Otherwise its owner could end this command by making it shorter.
  const int seals = mode == Mode::again ? fcntl(file_.number(), F_GET_SEALS) : F_SEAL_SHRINK;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    refuse(path, "is not sealed: no auditing library of cuevent has made it");
  void* const place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (place == MAP_FAILED) refuse(path, std::string("cannot be mapped: ") + std::strerror(errno));
  region_ = static_cast<Region*>(place);
  record_mask_ = mask;
  if (mode == Mode::once) unlinkat(folder, path.c_str(), 0); // both have it open, and neither opens it again
  find_process();
  clock_.emplace(region_->first_tick, region_->first_time);
}

std::string CallFile::bytes(std::size_t offset, std::size_t most) const {
  std::string found(most, '\0');
  const ssize_t length = pread(file_.number(), found.data(), most, static_cast<off_t>(offset));
  found.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return found;
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
  find_user();
}

void CallFile::find_user() const {
  if (!is_visible_) return;
  if (const auto is_ours = is_of_this_user(static_cast<pid_t>(process_))) is_of_another_user_ = !*is_ours;
}

CallFile::~CallFile() { release(); }

void CallFile::release() {
  if (region_ != nullptr) munmap(region_, region_size(records()));
  region_ = nullptr;
  file_ = OpenFile();
}

watch::Call CallFile::call_of(const watch::CallData& data, std::uint32_t time) {
  watch::Call call = decoded(data);
  call.time = clock_->time_of_record(time);
  if (call.ticks != 0) call.duration = clock_->duration(call.ticks);
  return call;
}

void CallFile::take_launches() {
  if (!takes_out_) return;
  for (watch::LaunchRing& ring : region_->launches) {
    const std::uint64_t first = ring.taken.load(std::memory_order_relaxed);
    std::uint64_t next = first;
    for (; next - first < watch::launch_limit; ++next) {
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
  for (; !launches_.empty() && (launches_.front().before <= before || launches_.size() > most_launches);
       launches_.pop_front(), ++count)
    see(call_of(launches_.front().call, launches_.front().time));
  return count;
}

std::size_t CallFile::read(const std::function<void(const watch::Call&)>& see, bool ended) {
  std::uint64_t next = takes_out_ ? region_->read.load(std::memory_order_relaxed) : next_;
  const std::uint64_t written = region_->written.load();
  if (region_->overwrites != 0 && written > records()) next = std::max(next, written - records());
  clock_->update();
  const auto stamp_of = [](std::uint64_t number) { return static_cast<std::uint32_t>(number) + 1; };
  const auto is_complete = [&](std::uint64_t number) {
    return region_->records[number & record_mask_].stamp.load(std::memory_order_acquire) == stamp_of(number);
  };
  // Not without an end: other processes write too.
  std::uint64_t end = next;
  while (end - next < records() && (ended ? end < region_->written.load() : is_complete(end)))
    ++end;
  take_launches(); // after these records are known: so no launch is missing that came before one of them
  std::size_t count = 0;
  for (; next < end; ++next) {
    count += see_launches(next, see);
    const watch::Record& record = region_->records[next & record_mask_];
    const bool was_complete = is_complete(next);
    const watch::CallData call = record.call;
    const std::uint32_t time = record.time;
    std::atomic_thread_fence(std::memory_order_acquire);
    // The stamp is another one if the record was overwritten meanwhile.
    const bool is_torn = record.stamp.load(std::memory_order_relaxed) != stamp_of(next);
    if (takes_out_) region_->read.store(next + 1, std::memory_order_release);
    if (was_complete && !is_torn && (call.entry < watch::entry_count || call.entry >= watch::spent_entry))
      see(call_of(call, time)), ++count;
  }
  count += see_launches(ended ? ~std::uint64_t{0} : end, see);
  next_ = next;
  return count;
}

Fork CallFile::fork() const { return {std::min(Forked{region_->forked}, had_initialized), region_->parent}; }

std::vector<watch::Call> CallFile::unfinished() const {
  std::vector<watch::Call> calls;
  for (const watch::ThreadSlot& slot : region_->threads) {
    const watch::CallData call = slot.call; // the process may change it
    if (slot.thread.load() != 0 && slot.inside.load() != 0 && call.entry < watch::entry_count)
      calls.push_back(decoded(call)), calls.back().returned = false;
  }
  return calls;
}

bool CallFile::has_ended() const {
  if (!is_visible_) return false;
  find_user();
  const auto state = state_of(static_cast<pid_t>(process_));
  if (!state || state->begun != begun_) return true; // another process has the number now
  if (state->state != 'Z') return false;
  // So it is too if only the main thread has ended.
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/" + std::to_string(process_) + "/task", error);
  return error || std::distance(begin(threads), end(threads)) <= 1;
}

BlindSpots CallFile::blind_spots() const {
  BlindSpots found{region_->lost_threads.load(), region_->lost_libraries.load(), {}};
  for (std::size_t i = 0; i < entry_count; ++i)
    if (region_->newer[i].load() != 0) found.functions.insert(entry_data[i].name);
  return found;
}

/// The first word has the lengths of both parts.
std::vector<std::uint64_t> CallFile::stack_words(std::uint32_t number) const {
  if (number == 0 || number >= watch::frame_limit) return {};
  const std::size_t most =
      std::min<std::size_t>(1 + watch::depth_limit + watch::text_limit / 8, watch::frame_limit - number);
  const std::string read = bytes(offsetof(Region, frames) + number * sizeof(std::uint64_t), most * 8);
  std::vector<std::uint64_t> words(read.size() / 8);
  std::memcpy(words.data(), read.data(), words.size() * 8);
  return words;
}

std::vector<std::uint64_t> CallFile::stack(std::uint32_t number) const {
  auto words = stack_words(number);
  if (words.empty()) return words;
  const auto count = std::min<std::uint64_t>({words[0] & 0xFFFF'FFFF, watch::depth_limit, words.size() - 1});
  return {words.begin() + 1, words.begin() + 1 + static_cast<std::ptrdiff_t>(count)};
}

std::vector<std::string> CallFile::python_stack(std::uint32_t number) const {
  const auto words = stack_words(number);
  if (words.empty()) return {};
  const auto count = std::min<std::uint64_t>({words[0] & 0xFFFF'FFFF, watch::depth_limit, words.size() - 1});
  const auto length =
      std::min<std::uint64_t>({(words[0] >> 32) * 8, watch::text_limit, (words.size() - 1 - count) * 8});
  const std::string all(reinterpret_cast<const char*>(words.data() + 1 + count), length);
  std::istringstream text(all.substr(0, all.find('\0')));
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
  const std::uint32_t begin = module.path;
  if (begin > watch::path_room - watch::longest_path) return {};
  const std::string text = bytes(offsetof(Region, path_text) + begin, watch::longest_path);
  return text.substr(0, text.find('\0'));
}

OpenFile CallFile::open_module(const std::string& path) const {
  // What is not a regular file is not even opened: a device may do something then.
  const OpenFile found(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!found.is_open() || fstat(found.number(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const bool is_for_all = (status.st_mode & S_IROTH) != 0;
  const bool is_of_root = status.st_uid == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (is_of_another_user() && !(is_for_all && is_of_root)) return {};
  const std::string again = "/proc/self/fd/" + std::to_string(found.number());
  return OpenFile(open(again.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

/// Where the last segment of a mapped file ends, counted from its beginning. 0 if it cannot be read.
std::uint64_t CallFile::size_in_memory(const std::string& path) const {
  static std::map<std::pair<std::string, bool>, std::uint64_t> known;
  const std::pair key(path, is_of_another_user());
  if (const auto found = known.find(key); found != known.end()) return found->second;
  std::uint64_t end = 0;
  const OpenFile file = open_module(path);
  Elf64_Ehdr header{};
  if (file.is_open() && read_at(file, 0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0)
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr part{};
      if (read_at(file, header.e_phoff + i * sizeof part, part) && part.p_type == PT_LOAD)
        end = std::max<std::uint64_t>(end, part.p_vaddr + part.p_memsz);
    }
  return known[key] = end;
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
    const std::uint64_t base = module.base;
    if (address < base) continue;
    const std::string path = path_of(module);
    if (path.starts_with('/') && address - base < size_in_memory(path)) return {path, base};
  }
  return {};
}

std::vector<std::shared_ptr<CallFile>> CallFolder::new_files() {
  std::vector<std::shared_ptr<CallFile>> files;
  for (const std::string& name : folder_.names()) {
    const auto process = static_cast<unsigned>(std::atoi(name.c_str()));
    const auto remove = [&] { return unlinkat(folder_.descriptor(), name.c_str(), 0) == 0; };
    if (name.ends_with(".no-room") && remove())
      unwatched_.push_back({process, "there is no room for its calls in " + folder_.path() +
                                         ": a share of it is left to the program"});
    if (name.ends_with(".limited") && remove())
      unwatched_.push_back({process, "its files may not be as large as its calls need (ulimit -f)"});
    if (name.ends_with(".calls") && seen_.insert(name).second) try {
        files.push_back(std::make_shared<CallFile>(name, CallFile::Mode::once, folder_.descriptor()));
      } catch (const std::runtime_error& bad) {
        unwatched_.push_back({process, bad.what()});
      }
  }
  return files;
}

} // namespace watch
