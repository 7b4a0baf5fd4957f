// SPDX-License-Identifier: MIT
/* What the participants of the tests agree on. */
#ifndef TEST_SHARING_PARTICIPANT_H
#define TEST_SHARING_PARTICIPANT_H

/* The descriptors that a participant inherits: SecondProcess. */
enum { handle_descriptor = 100, data_descriptor = 101 };
enum { rounds = 100, data_bytes = 1 << 20 };

#endif
