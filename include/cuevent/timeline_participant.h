// SPDX-License-Identifier: MIT
/* A process that takes part in a TimelineSemaphore without CUDA. Plain C; no library is needed. With
 * -std=c11 instead of -std=gnu11, define _GNU_SOURCE.
 *
 *   struct cuevent_timeline timeline;
 *   if (cuevent_timeline_open(&timeline, fd) != 0) return 1;   // a descriptor from export_handle()
 *   cuevent_timeline_wait(timeline.page, 1, 1000000000);       // at most 1 s
 *   cuevent_timeline_signal(timeline.page, 2);
 *   cuevent_timeline_close(&timeline);
 *
 * - Functions that can fail return 0 or a negative errno.
 * - The page is a sealed memfd of 16,384 bytes. All processes store into it, so pass it only to processes
 *   that you trust as you trust your own threads.
 * - Each participant holds a lock on one byte of the memfd. The lock belongs to the descriptor, so it goes
 *   with the descriptor through a socket, and the kernel drops it when the last process that has the
 *   descriptor dies. No process number is used.
 * - After a fork, close `lock` and `memory` in the child. Otherwise the parent seems to live as long as the
 *   child does.
 *
 * Thread-safety: the caller orders the functions that change a struct cuevent_timeline with its other
 * uses.
 * Context: needs none and changes none.
 * During capture: harmless; no driver call. */
#ifndef CUEVENT_TIMELINE_PARTICIPANT_H
#define CUEVENT_TIMELINE_PARTICIPANT_H

#include <cuevent/timeline_page.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  cuevent_timeline_free = 0,     /* never taken, or its participant has left */
  cuevent_timeline_expected = 1, /* exported, not imported yet */
  cuevent_timeline_joined = 2,
  cuevent_timeline_state_bits = 3
};

/* One participant in one process. */
struct cuevent_timeline {
  struct cuevent_timeline_page* page;
  int memory; /* a descriptor without locks, which the mapping holds, and which looks at locks */
  int lock;   /* the descriptor that holds the lock of `place`; -1 while the page was never exported */
  unsigned place;
};

static inline struct flock cuevent_timeline_byte(unsigned place, short type) {
  struct flock byte;
  memset(&byte, 0, sizeof byte);
  byte.l_type = type;
  byte.l_whence = SEEK_SET;
  byte.l_start = place;
  byte.l_len = 1;
  return byte;
}

/* Whether any descriptor except `fd` itself holds the lock of the place. Yes if the kernel does not say. */
static inline int cuevent_timeline_is_locked(int fd, unsigned place) {
  enum { ofd_getlk = 36 }; /* F_OFD_GETLK, which C libraries show for _GNU_SOURCE only */
  struct flock byte = cuevent_timeline_byte(place, F_WRLCK);
  return fcntl(fd, ofd_getlk, &byte) != 0 || byte.l_type != F_UNLCK;
}

static inline int cuevent_timeline_set_lock(int fd, unsigned place, short type) {
  enum { ofd_setlk = 37 }; /* F_OFD_SETLK */
  struct flock byte = cuevent_timeline_byte(place, type);
  return fcntl(fd, ofd_setlk, &byte) == 0 ? 0 : -errno;
}

/* Returns 1 if a participant other than `own` has died, or if a handle was closed before it was imported. */
static inline int cuevent_timeline_other_died(const struct cuevent_timeline* timeline, unsigned own) {
  for (unsigned i = 0; i < cuevent_timeline_places; ++i) {
    const uint32_t before = __atomic_load_n(&timeline->page->place[i], __ATOMIC_ACQUIRE);
    if ((before & cuevent_timeline_state_bits) == cuevent_timeline_free || i == own) continue;
    /* A place that was left between the two loads is not dead, and then its number or state differs. */
    if (!cuevent_timeline_is_locked(timeline->memory, i) &&
        __atomic_load_n(&timeline->page->place[i], __ATOMIC_ACQUIRE) == before)
      return 1;
  }
  return 0;
}

/* Returns 1 if any participant has died, or if a handle was closed before it was imported. */
static inline int cuevent_timeline_participant_died(const struct cuevent_timeline* timeline) {
  return cuevent_timeline_other_died(timeline, cuevent_timeline_places);
}

/* The error of a call that has just failed, negative. */
static inline int cuevent_timeline_error(void) {
  const int error = errno;
  return error > 0 ? -error : -EIO;
}

/* Another open file description of the same memfd: locks belong to a description. */
static inline int cuevent_timeline_reopen(int fd) {
  char name[32];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const int again = open(name, O_RDWR | O_CLOEXEC);
  return again >= 0 ? again : cuevent_timeline_error();
}

/* Returns a descriptor that holds the lock of a place that was free. -EUSERS: all places are taken. */
static inline int cuevent_timeline_new_place(const struct cuevent_timeline* timeline, uint32_t state) {
  const int fd = cuevent_timeline_reopen(timeline->memory);
  if (fd < 0) return fd;
  for (unsigned i = 0; i < cuevent_timeline_places; ++i) {
    uint32_t* const place = &timeline->page->place[i];
    uint32_t before = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if ((before & cuevent_timeline_state_bits) != cuevent_timeline_free) continue;
    if (cuevent_timeline_set_lock(fd, i, F_WRLCK) != 0) continue; /* another process takes or leaves it */
    before = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    /* The offset goes with the descriptor, and tells the importer its place. */
    if ((before & cuevent_timeline_state_bits) == cuevent_timeline_free &&
        lseek(fd, (off_t)i, SEEK_SET) == (off_t)i) {
      __atomic_store_n(place, before + 4 + state, __ATOMIC_RELEASE);
      return fd;
    }
    cuevent_timeline_set_lock(fd, i, F_UNLCK); /* its participant has just died */
  }
  close(fd);
  return -EUSERS;
}

/* Returns null if it fails. */
static inline struct cuevent_timeline_page* cuevent_timeline_map(int fd) {
  void* const memory = mmap(NULL, /* NOLINT(modernize-use-nullptr): this is C */
                            cuevent_timeline_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return (struct cuevent_timeline_page*)(memory == MAP_FAILED ? NULL : memory); /* NOLINT */
}

/* Makes a semaphore with the value `initial`. */
static inline int cuevent_timeline_create(struct cuevent_timeline* out, uint64_t initial) {
  enum { cloexec = 1, allow_sealing = 2, noexec = 8, add_seals = 1033, seal_seal_shrink_grow = 7 };
  if (initial > cuevent_timeline_max) return -EINVAL;
  int fd = (int)syscall(SYS_memfd_create, "cuevent timeline", cloexec | allow_sealing | noexec);
  if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
    fd = (int)syscall(SYS_memfd_create, "cuevent timeline", cloexec | allow_sealing);
  if (fd < 0) return cuevent_timeline_error();
  struct cuevent_timeline made;
  memset(&made, 0, sizeof made);
  made.memory = fd;
  made.lock = -1;
  if (ftruncate(fd, cuevent_timeline_bytes) == 0 && fcntl(fd, add_seals, seal_seal_shrink_grow) == 0)
    made.page = cuevent_timeline_map(fd);
  if (!made.page) {
    const int error = cuevent_timeline_error();
    close(fd);
    return error;
  }
  made.page->magic = cuevent_timeline_magic;
  made.page->layout = cuevent_timeline_layout;
  made.page->places = cuevent_timeline_places;
  made.page->word = made.page->submitted = initial;
  *out = made;
  return 0;
}

/* Makes a descriptor to send to one process, or to inherit. It is closed by exec: clear FD_CLOEXEC to
 * inherit it. Close it after it was sent, because while you have it the receiver seems to live. */
static inline int cuevent_timeline_export(struct cuevent_timeline* timeline) {
  if (timeline->lock < 0) { /* the first export makes the creator a participant */
    const int own = cuevent_timeline_new_place(timeline, cuevent_timeline_joined);
    if (own < 0) return own;
    timeline->place = (unsigned)lseek(own, 0, SEEK_CUR);
    timeline->lock = own;
  }
  return cuevent_timeline_new_place(timeline, cuevent_timeline_expected);
}

/* Joins the semaphore of a descriptor from an export, and takes the descriptor over if it succeeds.
 * -EINVAL: not such a descriptor, or one that cannot be written to. -EPROTONOSUPPORT: another layout.
 * -EBUSY: it was imported before. */
static inline int cuevent_timeline_open(struct cuevent_timeline* out, int fd) {
  enum { get_seals = 1034, seal_shrink = 2, seals_of_writes = 8 | 16, smallest = 4096 };
  struct stat file;
  const int seals = fcntl(fd, get_seals);
  if (seals < 0 || (seals & (seal_shrink | seals_of_writes)) != seal_shrink || fstat(fd, &file) != 0 ||
      file.st_size < smallest || (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
    return -EINVAL;
  struct cuevent_timeline made;
  memset(&made, 0, sizeof made);
  made.memory = cuevent_timeline_reopen(fd);
  made.lock = fd;
  if (made.memory < 0) return made.memory;
  made.page = cuevent_timeline_map(made.memory);
  int result = 0;
  if (!made.page) {
    result = cuevent_timeline_error();
    close(made.memory);
    return result;
  }
  const off_t place = lseek(fd, 0, SEEK_CUR);
  const int is_known =
      made.page->layout == cuevent_timeline_layout && made.page->places == cuevent_timeline_places;
  if (made.page->magic != cuevent_timeline_magic || place < 0 || place >= cuevent_timeline_places ||
      (is_known && file.st_size < cuevent_timeline_bytes)) {
    result = -EINVAL;
  } else if (!is_known) {
    result = -EPROTONOSUPPORT;
  } else {
    made.place = (unsigned)place;
    uint32_t* const taken = &made.page->place[made.place];
    uint32_t before = __atomic_load_n(taken, __ATOMIC_ACQUIRE);
    const uint32_t after = before + (cuevent_timeline_joined - cuevent_timeline_expected);
    if ((before & cuevent_timeline_state_bits) != cuevent_timeline_expected ||
        cuevent_timeline_set_lock(fd, made.place, F_WRLCK) != 0 ||
        !__atomic_compare_exchange_n(taken, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      result = -EBUSY;
  }
  if (result != 0) {
    munmap(made.page, cuevent_timeline_bytes);
    close(made.memory);
    return result;
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC); /* after an exec, nobody would be there to signal or wait */
  *out = made;
  return 0;
}

/* Undoes cuevent_timeline_open() for the others, before a close with `lock` set to -1. */
static inline void cuevent_timeline_expect_again(struct cuevent_timeline* timeline) {
  __atomic_fetch_sub(&timeline->page->place[timeline->place],
                     cuevent_timeline_joined - cuevent_timeline_expected, __ATOMIC_RELEASE);
}

/* Leaves: the others do not take it for a death. */
static inline void cuevent_timeline_leave(struct cuevent_timeline* timeline) {
  if (timeline->lock < 0) return;
  __atomic_fetch_and(&timeline->page->place[timeline->place], ~(uint32_t)cuevent_timeline_state_bits,
                     __ATOMIC_RELEASE);
  close(timeline->lock);
  timeline->lock = -1;
}

/* Leaves and unmaps the page. */
static inline void cuevent_timeline_close(struct cuevent_timeline* timeline) {
  cuevent_timeline_leave(timeline);
  close(timeline->memory);
  munmap(timeline->page, cuevent_timeline_bytes);
  memset(timeline, 0, sizeof *timeline);
  timeline->memory = timeline->lock = -1;
}

#endif
