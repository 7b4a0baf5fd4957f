// SPDX-License-Identifier: MIT
// Kernels of the watched programs. The simulated driver takes only their names from here: what they do is set
// with CUEVENT_SIM_ENDLESS_KERNEL and CUEVENT_SIM_FAULTY_KERNEL.
#pragma once

/// fault() writes to an illegal address. spin(unsigned*) ends when the word is not zero, at the latest after
/// 20 s.
inline constexpr char kernels[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry step() { ret; }
.visible .entry fault() {
  .reg .u64 %where;
  .reg .u32 %one;
  mov.u64 %where, 16;
  mov.u32 %one, 1;
  st.global.u32 [%where], %one;
  ret;
}
.visible .entry _Z4spinPj(.param .u64 told) {
  .reg .u64 %told, %start, %spent;
  .reg .u32 %value;
  .reg .pred %end;
  ld.param.u64 %told, [told];
  mov.u64 %start, %globaltimer;
again:
  ld.volatile.global.u32 %value, [%told];
  setp.ne.u32 %end, %value, 0;
  @%end bra done;
  mov.u64 %spent, %globaltimer;
  sub.u64 %spent, %spent, %start;
  setp.lt.u64 %end, %spent, 20000000000;
  @%end bra again;
done:
  ret;
}
)";
