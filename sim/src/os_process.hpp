// SPDX-License-Identifier: MIT
// Other processes of the system, and the files that they let this one open. What another process gives is
// input: it is checked before it is used, and nothing waits for the other process.
#pragma once

#include <cstddef>
#include <string>

namespace cuevent::sim {

/// A process of the system. A number is given away again; the time of the start tells two processes apart.
struct OsProcess {
  int id = 0;
  unsigned long long start = 0; ///< in ticks since the system began

  bool operator==(const OsProcess&) const = default;
};

/// Used under the computer's lock.
OsProcess this_os_process();
/// False for one that has ended and was not waited for yet.
bool lives(const OsProcess&);

/// What a process tells about a file that it lets others open.
struct OfferedFile {
  OsProcess process;
  int number = -1; ///< its descriptor there
  unsigned long long inode = 0;
  std::size_t bytes = 0;
};

/// The beginning of the link of an open file of this kind.
std::string name_of_link(const char* kind);

/// Makes a file without a name, whose size nobody can change. -1 if the system makes none. Other processes
/// see its kind.
int make_offered_file(const char* kind, std::size_t bytes);
/// Whether it is such a file: reading what it shows is safe then, whatever its maker does.
bool has_fixed_size(int file);
unsigned long long inode_of(int file);
/// The same, for other processes. The number is -1 if the system makes none.
OfferedFile offer_file(const char* kind, std::size_t bytes);
/// Nobody can open it any more. The program may have closed the descriptor, whose number may be a file of its
/// own by now: such a file stays open.
void withdraw(OfferedFile&);

/// Opens the file of another process of this user. -1, with `errno` set, if it is not the file that was
/// offered.
int open_offered_file(const char* kind, const OfferedFile&);

/// A check of all bytes of a handle but the last four, which have it.
unsigned sum_of_handle(const void*, std::size_t bytes);

/// Bytes that a mapping of this many takes.
std::size_t whole_pages(std::size_t bytes);

} // namespace cuevent::sim
