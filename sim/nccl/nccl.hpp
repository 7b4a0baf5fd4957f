// SPDX-License-Identifier: MIT
// The functions of NCCL that the stand-in models, in the form that programs were compiled with. nccl.h is not
// needed.
#pragma once

#include <cuda.h>

#include <climits>
#include <cstddef>

#define NCCL extern "C" __attribute__((visibility("default")))

enum ncclResult_t {
  ncclSuccess,
  ncclUnhandledCudaError,
  ncclSystemError,
  ncclInternalError,
  ncclInvalidArgument,
  ncclInvalidUsage,
  ncclRemoteError,
  ncclInProgress,
  ncclTimeout,
};

using ncclComm_t = struct ncclComm*;

struct ncclUniqueId {
  char internal[128];
};

/// The beginning of ncclConfig_t, which is the same in each version since 2.14.
struct ncclConfig_t {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking; ///< or nccl_undefined
};
inline constexpr unsigned nccl_config_magic = 0xCAFE'BEEF;
inline constexpr int nccl_undefined = INT_MIN;
inline constexpr int nccl_no_color = -1;

// Types and reductions are numbers here: programs may pass any.
inline constexpr int nccl_float32 = 7;
inline constexpr int nccl_sum = 0;

// Communicators
NCCL ncclResult_t ncclGetUniqueId(ncclUniqueId*);
NCCL ncclResult_t ncclCommInitRank(ncclComm_t*, int ranks, ncclUniqueId, int rank);
NCCL ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int ranks, ncclUniqueId, int rank, ncclConfig_t*);
NCCL ncclResult_t ncclCommInitRankScalable(ncclComm_t*, int ranks, int rank, int count, ncclUniqueId* ids,
                                           ncclConfig_t*);
NCCL ncclResult_t ncclCommInitAll(ncclComm_t*, int count, const int* devices);
NCCL ncclResult_t ncclCommSplit(ncclComm_t, int color, int key, ncclComm_t*, ncclConfig_t*);
NCCL ncclResult_t ncclCommFinalize(ncclComm_t);
NCCL ncclResult_t ncclCommDestroy(ncclComm_t);
NCCL ncclResult_t ncclCommAbort(ncclComm_t);
NCCL ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*);
NCCL ncclResult_t ncclCommCount(ncclComm_t, int*);
NCCL ncclResult_t ncclCommCuDevice(ncclComm_t, int*);
NCCL ncclResult_t ncclCommUserRank(ncclComm_t, int*);

// Groups
NCCL ncclResult_t ncclGroupStart();
NCCL ncclResult_t ncclGroupEnd();

// Collectives
NCCL ncclResult_t ncclAllReduce(const void*, void*, std::size_t, int type, int reduction, ncclComm_t,
                                CUstream);
NCCL ncclResult_t ncclReduce(const void*, void*, std::size_t, int type, int reduction, int root, ncclComm_t,
                             CUstream);
NCCL ncclResult_t ncclBroadcast(const void*, void*, std::size_t, int type, int root, ncclComm_t, CUstream);
NCCL ncclResult_t ncclBcast(void*, std::size_t, int type, int root, ncclComm_t, CUstream);
NCCL ncclResult_t ncclReduceScatter(const void*, void*, std::size_t, int type, int reduction, ncclComm_t,
                                    CUstream);
NCCL ncclResult_t ncclAllGather(const void*, void*, std::size_t, int type, ncclComm_t, CUstream);
NCCL ncclResult_t ncclSend(const void*, std::size_t, int type, int peer, ncclComm_t, CUstream);
NCCL ncclResult_t ncclRecv(void*, std::size_t, int type, int peer, ncclComm_t, CUstream);
NCCL ncclResult_t ncclAlltoAll(const void*, void*, std::size_t, int type, ncclComm_t, CUstream);
NCCL ncclResult_t ncclGather(const void*, void*, std::size_t, int type, int root, ncclComm_t, CUstream);
NCCL ncclResult_t ncclScatter(const void*, void*, std::size_t, int type, int root, ncclComm_t, CUstream);
NCCL ncclResult_t ncclRedOpCreatePreMulSum(int*, void* scalar, int type, int residence, ncclComm_t);
NCCL ncclResult_t ncclRedOpDestroy(int, ncclComm_t);

// Memory, versions and errors
NCCL ncclResult_t ncclMemAlloc(void**, std::size_t);
NCCL ncclResult_t ncclMemFree(void*);
NCCL ncclResult_t ncclCommRegister(ncclComm_t, void*, std::size_t, void** handle);
NCCL ncclResult_t ncclCommDeregister(ncclComm_t, void* handle);
NCCL ncclResult_t ncclGetVersion(int*);
NCCL const char* ncclGetErrorString(ncclResult_t);
NCCL const char* ncclGetLastError(ncclComm_t);
