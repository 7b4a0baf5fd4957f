// SPDX-License-Identifier: MIT
/* The page of memory that the participants of a TimelineSemaphore share, and how hosts signal and wait. Plain
 * C; no library is needed. With -std=c11 instead of -std=gnu11, define _GNU_SOURCE. timeline_participant.h
 * makes and joins pages, and has an example.
 *
 * Functions that can fail return 0 or a negative errno. All processes store into the page.
 *
 * Thread-safety: the functions may run concurrently in all threads and processes.
 * Context: needs none and changes none.
 * During capture: harmless; no driver call. */
#ifndef CUEVENT_TIMELINE_PAGE_H
#define CUEVENT_TIMELINE_PAGE_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  cuevent_timeline_layout = 2,
  cuevent_timeline_places = 64,
  cuevent_timeline_entries = 1992, /* signals that may be pending at once */
  cuevent_timeline_bytes = 16384
};

/* The largest value of a semaphore, 2^63 - 1: the device compares the sign of a difference. */
static const uint64_t cuevent_timeline_max = UINT64_MAX >> 1;
/* The word of an abandoned semaphore, 2^63. Every wait for 1 to 2^63 - 1 is over, on hosts and devices. */
static const uint64_t cuevent_timeline_released = UINT64_C(1) << 63;
static const uint64_t cuevent_timeline_magic = UINT64_C(0x656e696c656d6974); /* "timeline" */

/* Layout 2. A later layout changes `layout` and keeps the first 16 bytes. */
struct cuevent_timeline_page {
  uint64_t magic;
  uint32_t layout;
  uint32_t places;
  uint8_t unused[48];
  /* A line of its own, because pollers read it. Devices and hosts store it. */
  uint64_t word;
  uint8_t unused_of_word[56];
  uint64_t submitted; /* the highest value that is signalled, or submitted to a stream */
  uint32_t wakes;     /* a futex: changes with each signal of a host, each submission, and abandonment */
  uint32_t sleepers;  /* threads that sleep on `wakes`; too high after a death, which costs a call */
  uint32_t abandoned; /* 0 or 1 */
  uint32_t used;      /* entries from here on were never taken */
  uint8_t unused_of_wakes[40];
  /* A place of a participant: its state in the low 2 bits, and above how often the place was taken. */
  uint32_t place[64];
  /* Signals. A signal is pending exactly while its value is above the word; otherwise the entry is free. With
   * the bit of cuevent_timeline_released, a host is about to raise the word. Without the bit, a stream
   * stores the value; the host that submits the store fills the entry before. */
  uint64_t entry[1992];
};

/* One load. UINT64_C(1) << 63 means abandoned. */
static inline uint64_t cuevent_timeline_value(const struct cuevent_timeline_page* page) {
  return __atomic_load_n(&page->word, __ATOMIC_ACQUIRE);
}

static inline int cuevent_timeline_is_abandoned(const struct cuevent_timeline_page* page) {
  return __atomic_load_n(&page->abandoned, __ATOMIC_ACQUIRE) != 0;
}

/* Stores `value` unless the word is already as high. Returns whether it stored. */
static inline int cuevent_timeline_raise(uint64_t* word, uint64_t value) {
  uint64_t now = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (now < value)
    if (__atomic_compare_exchange_n(word, &now, value, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return 1;
  return 0;
}

/* Wakes the threads that sleep, after a change that they wait for. */
static inline void cuevent_timeline_wake(struct cuevent_timeline_page* page) {
  __atomic_fetch_add(&page->wakes, 1, __ATOMIC_RELEASE);
  /* An update and not a load: either it counts the sleeper, or the sleeper sees the change. */
  if (__atomic_fetch_add(&page->sleepers, 0, __ATOMIC_ACQ_REL) != 0)
    syscall(SYS_futex, &page->wakes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A thread that wants to sleep calls begin, looks once more at what it waits for, sleeps, and calls end. */
static inline uint32_t cuevent_timeline_begin_sleep(struct cuevent_timeline_page* page) {
  __atomic_fetch_add(&page->sleepers, 1, __ATOMIC_ACQ_REL);
  return __atomic_load_n(&page->wakes, __ATOMIC_ACQUIRE);
}
static inline void cuevent_timeline_end_sleep(struct cuevent_timeline_page* page) {
  __atomic_fetch_sub(&page->sleepers, 1, __ATOMIC_RELAXED);
}
/* Sleeps until the next wake after the begin, which returned `seen`, and at most for `nanoseconds`. The
 * store of a device wakes nobody. */
static inline void cuevent_timeline_sleep(struct cuevent_timeline_page* page, uint32_t seen,
                                          long long nanoseconds) {
  struct timespec limit;
  limit.tv_sec = nanoseconds / 1000000000;
  limit.tv_nsec = nanoseconds % 1000000000;
  syscall(SYS_futex, &page->wakes, FUTEX_WAIT, seen, &limit, NULL, 0);
}

/* How many entries were ever taken. Any process can store into the page, so the number is not believed. */
static inline uint32_t cuevent_timeline_used(const struct cuevent_timeline_page* page) {
  const uint32_t used = __atomic_load_n(&page->used, __ATOMIC_RELAXED);
  return used < (uint32_t)cuevent_timeline_entries ? used : (uint32_t)cuevent_timeline_entries;
}

/* Takes a free entry. Returns its index, or -ENOSPC. */
static inline int cuevent_timeline_take(struct cuevent_timeline_page* page, uint64_t content) {
  const uint64_t now = cuevent_timeline_value(page);
  for (int i = 0; i < cuevent_timeline_entries; ++i) {
    uint64_t* const entry = &page->entry[i];
    uint64_t before = __atomic_load_n(entry, __ATOMIC_RELAXED);
    uint32_t used;
    if ((before & cuevent_timeline_max) > now) continue;
    /* A release: whoever sees the new content also sees the word that made the entry free. */
    if (!__atomic_compare_exchange_n(entry, &before, content, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
      continue;
    /* An update and not a load: of two signals that take entries at once, one then sees the other. */
    used = __atomic_fetch_add(&page->used, 0, __ATOMIC_ACQ_REL);
    while (used <= (uint32_t)i && !__atomic_compare_exchange_n(&page->used, &used, (uint32_t)i + 1, 0,
                                                               __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return i;
  }
  return -ENOSPC;
}

/* Frees an entry. If its value was reached meanwhile, another signal may have the entry already. */
static inline void cuevent_timeline_take_back(struct cuevent_timeline_page* page, int entry,
                                              uint64_t content) {
  __atomic_compare_exchange_n(&page->entry[entry], &content, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Announces a signal of a stream, before the store of `value` to the word is submitted. If the store is not
 * submitted, take the entry back whose index this returns. -EINVAL: `value` is 0, above the largest value,
 * reached, or the value of another signal. -ECANCELED: the semaphore is abandoned. -ENOSPC: too many signals
 * are pending. */
static inline int cuevent_timeline_announce(struct cuevent_timeline_page* page, uint64_t value) {
  int own, refused = 0;
  uint32_t used;
  if (value == 0 || value > cuevent_timeline_max) return -EINVAL;
  if (cuevent_timeline_is_abandoned(page)) return -ECANCELED;
  if (cuevent_timeline_value(page) >= value) return -EINVAL;
  own = cuevent_timeline_take(page, value);
  if (own < 0) return own;
  used = cuevent_timeline_used(page);
  for (uint32_t i = 0; i < used && !refused; ++i) {
    const uint64_t other = __atomic_load_n(&page->entry[i], __ATOMIC_ACQUIRE);
    refused = (int)i != own && (other == value || other >= (cuevent_timeline_released | value));
  }
  /* Asked last: a host whose entry is gone has raised the word before. */
  if (!refused && cuevent_timeline_value(page) < value) return own;
  cuevent_timeline_take_back(page, own, value);
  return -EINVAL;
}

/* Signals from the host. -EINVAL: `value` is 0, above the largest value, not above the present value, or not
 * below a pending signal of a stream, which would lower the word. -ECANCELED: the semaphore is abandoned.
 * -ENOSPC: too many signals are pending. */
static inline int cuevent_timeline_signal(struct cuevent_timeline_page* page, uint64_t value) {
  int own, result = 0;
  uint32_t used;
  uint64_t now = cuevent_timeline_value(page);
  if (value > cuevent_timeline_max) return -EINVAL;
  if (cuevent_timeline_is_abandoned(page) || now == cuevent_timeline_released) return -ECANCELED;
  if (now >= value) return -EINVAL;
  own = cuevent_timeline_take(page, cuevent_timeline_released | value);
  if (own < 0) return own;
  used = cuevent_timeline_used(page);
  now = cuevent_timeline_value(page);
  for (uint32_t i = 0; i < used && result == 0; ++i) {
    const uint64_t other = __atomic_load_n(&page->entry[i], __ATOMIC_ACQUIRE);
    if (other > now && other <= value) result = -EINVAL;
  }
  if (result == 0 && !cuevent_timeline_raise(&page->word, value))
    result = cuevent_timeline_is_abandoned(page) ? -ECANCELED : -EINVAL;
  cuevent_timeline_take_back(page, own, cuevent_timeline_released | value);
  if (result != 0) return result;
  cuevent_timeline_raise(&page->submitted, value);
  cuevent_timeline_wake(page);
  return 0;
}

static inline long long cuevent_timeline_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Waits until the value is at least `value`. Sees a host's signal at once, and a device's up to 1 ms late.
 * -ETIMEDOUT: `nanoseconds` are over; a negative number means forever. -ECANCELED: the semaphore was
 * abandoned. */
static inline int cuevent_timeline_wait(struct cuevent_timeline_page* page, uint64_t value,
                                        long long nanoseconds) {
  const long long spin = 50000, yield = 1000000, longest = 1000000;
  const long long start = cuevent_timeline_now();
  for (;;) {
    const uint64_t now = cuevent_timeline_value(page);
    const long long waited = cuevent_timeline_now() - start;
    long long sleep = waited / 10 < longest ? waited / 10 : longest;
    /* Checked after the value, because a stream that was released by force may have signalled. */
    if (cuevent_timeline_is_abandoned(page)) return -ECANCELED;
    if (now >= value) return 0;
    if (nanoseconds >= 0 && waited >= nanoseconds) return -ETIMEDOUT;
    if (waited < spin) continue;
    if (waited < yield) {
      sched_yield();
      continue;
    }
    if (nanoseconds >= 0 && sleep > nanoseconds - waited) sleep = nanoseconds - waited;
    const uint32_t seen = cuevent_timeline_begin_sleep(page);
    if (cuevent_timeline_value(page) < value && !cuevent_timeline_is_abandoned(page))
      cuevent_timeline_sleep(page, seen, sleep);
    cuevent_timeline_end_sleep(page);
  }
}

/* Keeps an abandoned semaphore released: a stream's signal that was still queued lowers the word. Returns
 * whether it was lowered. Processes with cuevent do this until they end. */
static inline int cuevent_timeline_keep_released(struct cuevent_timeline_page* page) {
  if (cuevent_timeline_value(page) == cuevent_timeline_released) return 0;
  __atomic_store_n(&page->word, cuevent_timeline_released, __ATOMIC_RELEASE);
  cuevent_timeline_wake(page);
  return 1;
}

/* Releases everyone who waits, in all processes, on hosts and devices. It cannot be undone. */
static inline void cuevent_timeline_abandon(struct cuevent_timeline_page* page) {
  __atomic_store_n(&page->abandoned, 1, __ATOMIC_RELEASE);
  cuevent_timeline_keep_released(page);
}

#endif
