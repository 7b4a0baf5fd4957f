// SPDX-License-Identifier: MIT
// The collectives, and what ranks send each other. Kernels compute nothing, and only what small broadcasts,
// all-gathers and transfers copy is moved. NCCL copies for a communicator of one rank, and so does the
// stand-in.
#include "groups.hpp"
#include "kernels.hpp"

#include <memory>
#include <optional>
#include <string>

namespace cuevent::sim::nccl { namespace {

constexpr int built_in_reductions = 5;

using Copies = Communicator::Collective::Copies;

struct Call {
  const char* name;
  std::optional<int> reduction;
  int root;
  Copies copies = Copies::nothing;
};

/// All ranks have to agree on the collective, on the bytes, and on the root.
std::uint64_t agreement(const char* name, std::size_t bytes, int root) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325; // FNV-1a
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100'0000'01B3; };
  for (; *name != 0; ++name)
    add(static_cast<unsigned char>(*name));
  add(bytes);
  add(static_cast<std::uint64_t>(root));
  return hash;
}

std::shared_ptr<Communicator> checked(ncclComm_t handle, int type) {
  auto to = Communicator::ready(handle);
  require(!to->is_finalized, "the communicator is finalized");
  require(bytes_of(type) != 0, "there is no such type");
  return to;
}

void require_rank(const Communicator& in, int rank) {
  require(rank >= 0 && static_cast<unsigned>(rank) < in.ranks(), "there is no such rank");
}

ncclResult_t collective(const Call& call, const void* send, void* receive, std::size_t count, int type,
                        ncclComm_t handle, CUstream stream) {
  return answer([&] {
    const auto to = checked(handle, type);
    require_rank(*to, call.root);
    const bool reduces = call.reduction.has_value();
    const int reduction = call.reduction.value_or(0);
    require(reduction >= 0 && reduction < built_in_reductions + to->reductions, "there is no such reduction");
    if (count == 0) return ncclSuccess;
    const std::size_t bytes = count * bytes_of(type);
    const bool is_root = to->rank() == static_cast<unsigned>(call.root);
    require(receive != nullptr || (call.name == std::string("Reduce") && !is_root),
            "the pointer to the result is null");
    require(send != nullptr || (call.copies == Copies::from_root && !is_root),
            "the pointer to the data is null");
    if (to->ranks() == 1) {
      const CurrentContext current(to->context());
      if (send != receive)
        expect(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(receive), reinterpret_cast<CUdeviceptr>(send),
                             bytes, stream),
               "cuMemcpyAsync");
      return ncclSuccess;
    }
    const std::string kernel =
        call.name +
        (reduces ? reduction_name(reduction, type, reduction >= built_in_reductions) : std::string());
    submit(to,
           {kernel, agreement(call.name, bytes, call.root), send, receive, count, call.copies, bytes,
            static_cast<unsigned>(call.root)},
           stream);
    return ncclSuccess;
  });
}

ncclResult_t transfer(Meeting::Direction direction, void* memory, std::size_t count, int type, int peer,
                      ncclComm_t handle, CUstream stream) {
  return answer([&] {
    const auto to = checked(handle, type);
    require_rank(*to, peer);
    submit(to, Meeting::Transfer{direction, static_cast<unsigned>(peer), count * bytes_of(type)}, memory,
           stream);
    return ncclSuccess;
  });
}

/// The part of a buffer that belongs to a rank.
void* part(const void* memory, int rank, std::size_t count, int type) {
  return const_cast<char*>(static_cast<const char*>(memory)) +
         static_cast<std::size_t>(rank) * count * bytes_of(type);
}

/// Collectives that NCCL makes of transfers.
template <class Submit>
ncclResult_t of_transfers(ncclComm_t handle, int type, int root, Submit submit_for) {
  return answer([&] {
    const auto in = checked(handle, type);
    require_rank(*in, root);
    const int ranks = static_cast<int>(in->ranks()), rank = static_cast<int>(in->rank());
    return as_group([&] {
      for (int peer = 0; peer < ranks; ++peer)
        submit_for(peer, rank);
    });
  });
}

}} // namespace cuevent::sim::nccl

using namespace cuevent::sim::nccl;

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int reduction,
                           ncclComm_t to, CUstream stream) {
  return collective({"AllReduce", reduction, 0}, send, receive, count, type, to, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, int type, int reduction, int root,
                        ncclComm_t to, CUstream stream) {
  return collective({"Reduce", reduction, root}, send, receive, count, type, to, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root,
                           ncclComm_t to, CUstream stream) {
  return collective({"Broadcast", std::nullopt, root, Copies::from_root}, send, receive, count, type, to,
                    stream);
}

ncclResult_t ncclBcast(void* memory, std::size_t count, int type, int root, ncclComm_t to, CUstream stream) {
  return ncclBroadcast(memory, memory, count, type, root, to, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int reduction,
                               ncclComm_t to, CUstream stream) {
  return collective({"ReduceScatter", reduction, 0}, send, receive, count, type, to, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, int type, ncclComm_t to,
                           CUstream stream) {
  return collective({"AllGather", std::nullopt, 0, Copies::from_all}, send, receive, count, type, to, stream);
}

ncclResult_t ncclSend(const void* memory, std::size_t count, int type, int peer, ncclComm_t to,
                      CUstream stream) {
  return transfer(Meeting::Direction::send, const_cast<void*>(memory), count, type, peer, to, stream);
}

ncclResult_t ncclRecv(void* memory, std::size_t count, int type, int peer, ncclComm_t to, CUstream stream) {
  return transfer(Meeting::Direction::receive, memory, count, type, peer, to, stream);
}

ncclResult_t ncclAlltoAll(const void* send, void* receive, std::size_t count, int type, ncclComm_t to,
                          CUstream stream) {
  return of_transfers(to, type, 0, [&](int peer, int) {
    ncclSend(part(send, peer, count, type), count, type, peer, to, stream);
    ncclRecv(part(receive, peer, count, type), count, type, peer, to, stream);
  });
}

ncclResult_t ncclGather(const void* send, void* receive, std::size_t count, int type, int root, ncclComm_t to,
                        CUstream stream) {
  return of_transfers(to, type, root, [&](int peer, int rank) {
    if (peer == root) ncclSend(send, count, type, root, to, stream);
    if (rank == root) ncclRecv(part(receive, peer, count, type), count, type, peer, to, stream);
  });
}

ncclResult_t ncclScatter(const void* send, void* receive, std::size_t count, int type, int root,
                         ncclComm_t to, CUstream stream) {
  return of_transfers(to, type, root, [&](int peer, int rank) {
    if (rank == root) ncclSend(part(send, peer, count, type), count, type, peer, to, stream);
    if (peer == root) ncclRecv(receive, count, type, root, to, stream);
  });
}

/// The scalar is not needed: nothing is computed.
ncclResult_t ncclRedOpCreatePreMulSum(int* reduction, void* scalar, int type, int, ncclComm_t handle) {
  return answer([&] {
    const auto of = checked(handle, type);
    require(reduction != nullptr && scalar != nullptr, "a pointer is null");
    *reduction = built_in_reductions + of->reductions++;
    return ncclSuccess;
  });
}

ncclResult_t ncclRedOpDestroy(int reduction, ncclComm_t handle) {
  return answer([&] {
    const auto of = Communicator::ready(handle);
    require(reduction >= built_in_reductions && reduction < built_in_reductions + of->reductions,
            "there is no such reduction");
    return ncclSuccess;
  });
}
