// SPDX-License-Identifier: MIT
/* A participant that does not use CUDA: answers each odd value with the next even one. */
#define _GNU_SOURCE
#include "participant.h"

#include <cuevent/timeline_participant.h>

int main(void) {
  struct cuevent_timeline timeline;
  const int opened = cuevent_timeline_open(&timeline, handle_descriptor);
  if (opened != 0) {
    fprintf(stderr, "cuevent_timeline_open: %s\n", strerror(-opened));
    return 1;
  }
  struct cuevent_timeline held; /* a stream's signal of 5 is pending */
  if (cuevent_timeline_open(&held, data_descriptor) != 0) return 5;
  for (uint64_t value = 5; value < 8; ++value)
    if (cuevent_timeline_signal(held.page, value) != -EINVAL) return 6;
  if (cuevent_timeline_signal(held.page, 4) != 0) return 7;
  if (cuevent_timeline_wait(held.page, 5, 20000000000) != 0 || cuevent_timeline_signal(held.page, 6) != 0)
    return 8;
  cuevent_timeline_close(&held);
  for (uint64_t round = 0; round < rounds; ++round) {
    const int waited = cuevent_timeline_wait(timeline.page, 2 * round + 1, 20000000000);
    const int signalled = cuevent_timeline_signal(timeline.page, 2 * round + 2);
    if (waited != 0 || signalled != 0) {
      fprintf(stderr, "round %d: wait %d, signal %d\n", (int)round, waited, signalled);
      return 1;
    }
  }
  if (cuevent_timeline_signal(timeline.page, 1) != -EINVAL) return 2; /* would lower it */
  if (cuevent_timeline_wait(timeline.page, 2 * rounds + 1, 2000000) != -ETIMEDOUT) return 3;
  if (cuevent_timeline_participant_died(&timeline) != 0) return 4;
  cuevent_timeline_close(&timeline);
  return 0;
}
