// SPDX-License-Identifier: MIT
// The kernels of the tests. The simulated driver takes only their names from here: what they do is set with
// CUEVENT_SIM_ENDLESS_KERNEL and CUEVENT_SIM_FAULTY_KERNEL.
#pragma once

/// step() does nothing. touch(unsigned*) writes one word, so that a test sees whether it ran.
/// spin(unsigned*, unsigned long long) ends when the word is not zero, or after that many nanoseconds.
inline constexpr char kernels[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry step() { ret; }
.visible .entry touch(.param .u64 where) {
  .reg .u64 %where;
  .reg .u32 %one;
  ld.param.u64 %where, [where];
  mov.u32 %one, 1;
  st.global.u32 [%where], %one;
  ret;
}
.visible .entry write_illegal_address() {
  .reg .u64 %where;
  .reg .u32 %one;
  mov.u64 %where, 16;
  mov.u32 %one, 1;
  st.global.u32 [%where], %one;
  ret;
}
.visible .entry _Z4spinPjy(.param .u64 told, .param .u64 bound) {
  .reg .u64 %told, %bound, %start, %spent;
  .reg .u32 %value;
  .reg .pred %end;
  ld.param.u64 %told, [told];
  ld.param.u64 %bound, [bound];
  mov.u64 %start, %globaltimer;
again:
  ld.volatile.global.u32 %value, [%told];
  setp.ne.u32 %end, %value, 0;
  @%end bra done;
  mov.u64 %spent, %globaltimer;
  sub.u64 %spent, %spent, %start;
  setp.lt.u64 %end, %spent, %bound;
  @%end bra again;
done:
  ret;
}
)";
