// SPDX-License-Identifier: MIT
// Exports the functions of NCCL that PyTorch imports and the stand-in lacks, so that PyTorch starts.
#include "../runtime/unmodelled.hpp"
#include "nccl.hpp"

#define NAME(symbol)                                                                                         \
  NCCL ncclResult_t symbol();                                                                                \
  ncclResult_t symbol() {                                                                                    \
    cueventUnmodelled(#symbol, __builtin_return_address(0));                                                 \
    return ncclInvalidUsage;                                                                                 \
  }
NAME(ncclCommGetUniqueId)
NAME(ncclCommGrow)
NAME(ncclCommMemStats)
NAME(ncclCommResume)
NAME(ncclCommRevoke)
NAME(ncclCommShrink)
NAME(ncclCommSuspend)
NAME(ncclCommWindowDeregister)
NAME(ncclCommWindowRegister)
NAME(ncclDevCommCreate)
NAME(ncclDevCommDestroy)
NAME(ncclGetLsaMultimemDevicePointer)
NAME(ncclGetPeerDevicePointer)
NAME(ncclGroupSimulateEnd)
NAME(ncclPutSignal)
NAME(ncclSignal)
NAME(ncclWaitSignal)
NAME(ncclWinGetUserPtr)
