// SPDX-License-Identifier: MIT
#include "meeting.hpp"

#include "failure.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <mutex>
#include <string_view>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace cuevent::sim::nccl {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t layout_version = 0x6375'6576'6e63'0002;
/// How long a rank waits for others that have not come.
constexpr auto longest_wait = 300s;

/// What a rank has begun, one after another. A reader is at most a few places behind, because nobody gets far
/// without the others.
struct Line {
  static constexpr std::size_t kept = 16;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> what[kept];

  std::uint64_t begin(std::uint64_t each) {
    const std::uint64_t number = count.load(std::memory_order_relaxed) + 1;
    what[number % kept].store(each, std::memory_order_relaxed);
    count.store(number, std::memory_order_release);
    return number;
  }
  bool has(std::uint64_t number, std::uint64_t each) const {
    const std::uint64_t begun = count.load(std::memory_order_acquire);
    if (begun < number) return false;
    // A group may have many transfers between two ranks. What was overwritten is not compared.
    return begun - number >= kept - 1 || what[number % kept].load(std::memory_order_relaxed) == each;
  }
};

constexpr const char* folder = "/dev/shm";
constexpr std::string_view file_begins = "cuevent-nccl-";

std::string path_of(const Meeting::Name& name) {
  return std::string(folder) + '/' + std::string(file_begins) + Meeting::digits_of(name);
}

[[noreturn]] void fail_with_file(const std::string& path, const std::string& what) {
  fail(ncclSystemError, path + ": " + what);
}

/// A lock of one place in a file. It ends with the open file, so also if the process is killed.
struct flock lock_at(off_t place, off_t places = 1) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = place;
  lock.l_len = places;
  return lock;
}
constexpr off_t place_of_maker = most_ranks;

bool is_own_file(const struct stat& found) {
  return S_ISREG(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 077) == 0;
}

/// The files that this process made. Those that the ranks have not removed go with the process.
class MadeFiles {
public:
  static MadeFiles& instance() {
    static auto* const made = new MadeFiles; // used at the end of the process
    return *made;
  }
  /// Keeps the open file, whose lock says that its maker lives.
  void add(const std::string& path, int file) {
    const std::lock_guard lock(mutex_);
    std::erase_if(files_, [](const Made& each) {
      struct stat found {};
      const bool is_removed = fstat(each.file, &found) == 0 && found.st_nlink == 0;
      if (is_removed) close(each.file);
      return is_removed;
    });
    files_.push_back({path, file, getpid()});
  }

private:
  MadeFiles() {
    std::atexit([] {
      for (const Made& each : instance().files_)
        if (each.maker == getpid()) unlink(each.path.c_str()); // a fork has the files of its parent, too
    });
  }

  struct Made {
    std::string path;
    int file;
    pid_t maker;
  };
  std::mutex mutex_;
  std::vector<Made> files_;
};

/// Files of killed processes: nobody has a lock in them. Neither has a process that makes one, for a moment.
void remove_abandoned() {
  DIR* const all = opendir(folder);
  if (all == nullptr) return;
  constexpr int most_looked_at = 10'000; // other users may have any number
  for (int i = 0; i < most_looked_at; ++i) {
    const dirent* const entry = readdir(all);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name.substr(0, file_begins.size()) != file_begins) continue;
    const int file = openat(dirfd(all), entry->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) continue;
    struct stat found {};
    struct flock any = lock_at(0, 0); // to the end
    if (fstat(file, &found) == 0 && is_own_file(found) && std::time(nullptr) - found.st_mtime > 60 &&
        fcntl(file, F_OFD_GETLK, &any) == 0 && any.l_type == F_UNLCK)
      unlinkat(dirfd(all), entry->d_name, 0);
    close(file);
  }
  closedir(all);
}

} // namespace

/// A new file has zeros. An object of atomics begins its life with them.
struct Meeting::Memory {
  static constexpr std::size_t sent_kept = 2 * most_sent_parcels;

  struct Rank {
    std::atomic<std::uint32_t> is_there, ranks, device;
    Line collectives;
    Line transfers[2][most_ranks]; ///< by direction and by the other rank
    std::atomic<std::uint64_t> splits, names;
    std::atomic<std::int64_t> color[2], key[2]; ///< of a split, by its number
    std::atomic<std::uint64_t> name[2][2];
    std::atomic<std::uint64_t> shown[2], sent[most_ranks][sent_kept]; ///< numbers of the parcels
  };
  std::atomic<std::uint64_t> version;
  Rank of[most_ranks];

  /// By the collective's number. Nobody begins the next but one before all have read this one.
  unsigned char parcels[most_ranks][2][largest_parcel];
  /// By the receiver and the transfer's number. A sender is at most one kernel ahead of the receiver.
  unsigned char sent[most_ranks][most_ranks][sent_kept][largest_sent_parcel];
};

struct Meeting::Parcel {
  std::atomic<std::uint64_t>& number;
  unsigned char* bytes;
  std::size_t largest;

  static Parcel of_collective(Memory& in, unsigned rank, std::uint64_t number) {
    return {in.of[rank].shown[number % 2], in.parcels[rank][number % 2], largest_parcel};
  }
  static Parcel of_transfer(Memory& in, unsigned from, unsigned to, std::uint64_t number) {
    const std::size_t place = number % Memory::sent_kept;
    return {in.of[from].sent[to][place], in.sent[from][to][place], largest_sent_parcel};
  }
};

std::string Meeting::digits_of(const Name& name) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(name[0]),
                static_cast<unsigned long long>(name[1]));
  return text;
}

Meeting::Name Meeting::create() {
  Name name{};
  if (getrandom(name.data(), sizeof name, 0) != sizeof name) fail(ncclSystemError, "getrandom failed");
  remove_abandoned();
  const std::string path = path_of(name);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) fail_with_file(path, std::strerror(errno));
  struct flock own = lock_at(place_of_maker);
  const std::uint64_t version = layout_version;
  // A page that the file system has no memory for would end the process.
  const bool done = fcntl(file, F_OFD_SETLK, &own) == 0 && ftruncate(file, sizeof(Memory)) == 0 &&
                    fallocate(file, 0, 0, offsetof(Memory, parcels)) == 0 &&
                    pwrite(file, &version, sizeof version, offsetof(Memory, version)) == sizeof version;
  if (!done) {
    const std::string why = std::strerror(errno);
    unlink(path.c_str());
    close(file);
    fail_with_file(path, why);
  }
  MadeFiles::instance().add(path, file);
  return name;
}

Meeting::Meeting(const Name& name, unsigned ranks, unsigned rank, std::uint32_t device)
    : path_(path_of(name)), ranks_(ranks), rank_(rank) {
  const int file = open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    fail_with_file(path_, std::string(std::strerror(errno)) + ": the process that made the id has ended, or "
                                                              "all ranks have used the id");
  file_ = file;
  struct stat found {};
  const bool is_right = fstat(file, &found) == 0 && is_own_file(found) && found.st_size == sizeof(Memory);
  void* const memory =
      is_right ? mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (memory != MAP_FAILED) memory_ = static_cast<Memory*>(memory);
  std::string wrong;
  struct flock place = lock_at(rank);
  if (memory_ == nullptr || memory_->version != layout_version)
    wrong = "this is no file of a communicator that this user's processes made";
  else if (fcntl(file, F_OFD_SETLK, &place) != 0 || memory_->of[rank].is_there != 0)
    wrong = "rank " + std::to_string(rank) + " is there already";
  if (!wrong.empty()) {
    if (memory_ != nullptr) munmap(memory_, sizeof(Memory));
    close(file);
    if (memory_ == nullptr) fail_with_file(path_, wrong);
    fail(ncclInvalidUsage, wrong);
  }
  Memory::Rank& own = memory_->of[rank];
  own.ranks = ranks;
  own.device = device;
  own.is_there.store(1, std::memory_order_release);
}

Meeting::~Meeting() {
  munmap(memory_, sizeof(Memory));
  close(file_);
}

void Meeting::leave() {
  struct flock place = lock_at(rank_);
  place.l_type = F_UNLCK;
  fcntl(file_, F_OFD_SETLK, &place);
}

/// The lock of a rank ends with its process.
bool Meeting::is_there(unsigned rank) const {
  struct flock place = lock_at(rank);
  return rank == rank_ || fcntl(file_, F_OFD_GETLK, &place) != 0 || place.l_type != F_UNLCK;
}

/// Fails if one of the ranks that are `needed` ends before it holds.
template <class Holds>
void Meeting::wait_until(Holds holds, unsigned rank, Needed needed, const Stopped& stopped) const {
  const auto end = std::chrono::steady_clock::now() + longest_wait;
  while (!holds(memory_->of[rank])) {
    if (stopped()) fail(ncclInvalidUsage, "the communicator was aborted");
    if (std::chrono::steady_clock::now() > end)
      fail(ncclSystemError, "rank " + std::to_string(rank) + " did not come in time");
    // Its last stores come before the end of its lock.
    for (unsigned each = 0; each < ranks_; ++each)
      if ((needed == Needed::all || each == rank) && memory_->of[each].is_there != 0 && !is_there(each) &&
          !holds(memory_->of[rank]))
        fail(ncclRemoteError, "rank " + std::to_string(each) + " has ended or left the communicator");
    std::this_thread::sleep_for(1ms);
  }
}

void Meeting::wait_for_all(const Stopped& stopped) const {
  for (unsigned rank = 0; rank < ranks_; ++rank)
    wait_until([](const Memory::Rank& each) { return each.is_there.load(std::memory_order_acquire) != 0; },
               rank, Needed::all, stopped);
  unlink(path_.c_str());
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    const Memory::Rank& each = memory_->of[rank];
    if (each.ranks != ranks_)
      fail(ncclInvalidUsage, "rank " + std::to_string(rank) + " says that there are " +
                                 std::to_string(each.ranks) + " ranks, and this one that there are " +
                                 std::to_string(ranks_));
    for (unsigned other = 0; other < rank; ++other)
      if (memory_->of[other].device == each.device)
        fail(ncclInvalidUsage, "Duplicate GPU detected: rank " + std::to_string(other) + " and rank " +
                                   std::to_string(rank) + " use the same device");
  }
}

void Meeting::show(const Parcel& parcel, std::uint64_t number, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes == 0 || bytes > parcel.largest) return;
  const off_t place = parcel.bytes - reinterpret_cast<unsigned char*>(memory_);
  if (fallocate(file_, 0, place, static_cast<off_t>(bytes)) != 0) return; // the file system is full
  std::memcpy(parcel.bytes, from, bytes);
  parcel.number.store(number, std::memory_order_release);
}

void Meeting::read(const Parcel& parcel, std::uint64_t number, void* to, std::size_t bytes) {
  if (to != nullptr && bytes <= parcel.largest && parcel.number.load(std::memory_order_acquire) == number)
    std::memcpy(to, parcel.bytes, bytes);
}

std::uint64_t Meeting::begin(std::uint64_t what, const void* parcel, std::size_t bytes) {
  Line& line = memory_->of[rank_].collectives;
  const std::uint64_t number = line.count + 1;
  show(Parcel::of_collective(*memory_, rank_, number), number, parcel, bytes);
  return line.begin(what);
}

void Meeting::read_parcel(std::uint64_t number, unsigned rank, void* to, std::size_t bytes) const {
  read(Parcel::of_collective(*memory_, rank, number), number, to, bytes);
}

bool Meeting::all_have_begun(std::uint64_t number, std::uint64_t what) const {
  return std::all_of(memory_->of, memory_->of + ranks_,
                     [&](const Memory::Rank& each) { return each.collectives.has(number, what); });
}

std::uint64_t Meeting::begin(const Transfer& own, const void* parcel) {
  Line& line = memory_->of[rank_].transfers[static_cast<int>(own.direction)][own.peer];
  if (own.direction == Direction::send) {
    const std::uint64_t number = line.count + 1;
    show(Parcel::of_transfer(*memory_, rank_, own.peer, number), number, parcel, own.bytes);
  }
  return line.begin(own.bytes);
}

void Meeting::read_parcel(const Transfer& own, std::uint64_t number, void* to) const {
  read(Parcel::of_transfer(*memory_, own.peer, rank_, number), number, to, own.bytes);
}

bool Meeting::other_side_has_begun(const Transfer& own, std::uint64_t number) const {
  const int other = own.direction == Direction::send ? 1 : 0;
  return memory_->of[own.peer].transfers[other][rank_].has(number, own.bytes);
}

Meeting::Split Meeting::wait_for_split(int color, int key, const Stopped& stopped) {
  const std::uint64_t number = ++splits_, place = number % 2;
  Memory::Rank& own = memory_->of[rank_];
  own.color[place] = color;
  own.key[place] = key;
  own.splits.store(number, std::memory_order_release);
  std::vector<std::pair<std::int64_t, unsigned>> members;
  for (unsigned rank = 0; rank < ranks_; ++rank) {
    wait_until([&](const Memory::Rank& each) { return each.splits >= number; }, rank, Needed::it, stopped);
    if (memory_->of[rank].color[place] == color) members.emplace_back(memory_->of[rank].key[place], rank);
  }
  if (color < 0) return {};
  std::sort(members.begin(), members.end());
  const unsigned leader = members.front().second;
  Memory::Rank& first = memory_->of[leader];
  if (leader == rank_) {
    const Name name = create();
    own.name[place][0] = name[0];
    own.name[place][1] = name[1];
    own.names.store(number, std::memory_order_release);
  }
  wait_until([&](const Memory::Rank& each) { return each.names >= number; }, leader, Needed::it, stopped);
  const auto at = std::find_if(members.begin(), members.end(),
                               [&](const auto& member) { return member.second == rank_; });
  return {{first.name[place][0], first.name[place][1]},
          static_cast<unsigned>(members.size()),
          static_cast<unsigned>(at - members.begin())};
}

} // namespace cuevent::sim::nccl
