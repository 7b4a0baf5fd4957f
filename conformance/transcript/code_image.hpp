// SPDX-License-Identifier: MIT
// The code that is loaded, and given to the linker.
#pragma once

namespace transcript {

// `plain` needs nothing. `work` has parameters, 1,024 bytes of shared memory and a bound of 256 threads.
inline constexpr char code_image[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .global .align 8 .b8 table[24];
.visible .const .align 4 .u32 fixed = 5;
.visible .entry plain() { ret; }
.visible .entry work(.param .u32 a, .param .u64 b, .param .align 8 .b8 c[24], .param .u8 d)
.maxntid 256, 1, 1
{
  .shared .align 4 .b8 room[1024];
  .reg .u32 %a;
  .reg .u64 %where;
  ld.param.u32 %a, [a];
  ld.param.u64 %where, [b];
  st.shared.u32 [room], %a;
  bar.sync 0;
  ld.shared.u32 %a, [room];
  st.global.u32 [%where], %a;
  ld.const.u32 %a, [fixed];
  st.global.u32 [%where], %a;
  ld.global.u32 %a, [counter];
  st.global.u32 [%where], %a;
  ret;
}
)";

} // namespace transcript
