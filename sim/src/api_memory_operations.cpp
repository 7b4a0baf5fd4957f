// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "timing.hpp"

#include <cstdio>
#include <type_traits>

namespace cuevent::sim {

void Api::require_64_bit_operations() const {
  refuse_if(!computer_.options.memory_operations_64_bit, CUDA_ERROR_NOT_SUPPORTED);
}

/// Null if the address is accepted without memory. Nobody measured a launch of this node.
template <class Value>
Value* Api::word(CUdeviceptr at, Words accepted, unsigned access) {
  const auto address = static_cast<std::uintptr_t>(at);
  if (address == 0 && accepted != Words::in_memory) return nullptr;
  const auto in_hex = [&](const char* form) {
    char text[64];
    std::snprintf(text, sizeof text, form, static_cast<unsigned long long>(address));
    return reasons::made(text);
  };
  if (address % sizeof(Value) != 0)
    refuse(CUDA_ERROR_INVALID_VALUE, in_hex("Index 0: Address 0x%llx not aligned"));
  const bool in_memory = has_bytes(address, sizeof(Value), access);
  if (!in_memory && accepted == Words::aligned) return nullptr;
  if (!in_memory) refuse(CUDA_ERROR_INVALID_VALUE, in_hex("Batch memory address 0x%016llx is not valid"));
  return reinterpret_cast<Value*>(address);
}

template <class Value>
Work Api::write_work(CUdeviceptr to, Value value, unsigned flags, Words accepted) {
  refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE); // NO_MEMORY_BARRIER, too
  auto* const target = word<Value>(to, accepted, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  work.text = "write value " + std::to_string(value);
  work.duration = timing::write_value;
  if (target == nullptr) work.unmodelled = "the launch of a write to an address without memory";
  work.gone = unmapped_later(static_cast<std::uintptr_t>(to), sizeof(Value));
  work.effect = [=] { __atomic_store_n(target, value, __ATOMIC_RELEASE); };
  return work;
}

template <class Value>
Work Api::wait_work(CUdeviceptr at, Value value, unsigned flags, Words accepted) {
  constexpr unsigned flush = CU_STREAM_WAIT_VALUE_FLUSH;
  if ((flags & ~flush) > CU_STREAM_WAIT_VALUE_NOR) {
    char text[64];
    std::snprintf(text, sizeof text, "Index 0: Invalid flags 0x%x", flags);
    refuse(CUDA_ERROR_INVALID_VALUE, reasons::made(text));
  }
  refuse_if((flags & flush) != 0, CUDA_ERROR_NOT_SUPPORTED);
  const auto* const source = word<Value>(at, accepted, CU_MEM_ACCESS_FLAGS_PROT_READ);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  work.text = "wait for value " + std::to_string(value);
  if (source == nullptr) work.unmodelled = "the launch of a wait at an address without memory";
  const auto gone = unmapped_later(static_cast<std::uintptr_t>(at), sizeof(Value));
  work.condition = [=] {
    if (gone && gone()) undefined("a stream waits for a value in memory that has been unmapped");
    const Value found = __atomic_load_n(source, __ATOMIC_ACQUIRE);
    switch (flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return found == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (found & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<Value>(~(found | value)) != 0;
    default:
      return static_cast<std::make_signed_t<Value>>(static_cast<Value>(found - value)) >= 0; // cyclic
    }
  };
  return work;
}

/// A device looks at the stream and its capture before it looks at the operation.
template <class MakeWork>
CUresult Api::submit_operation(CUstream where, MakeWork make_work) {
  auto to = stream(where);
  capturing(*to);
  implicit_check(*to);
  submit(to, make_work(to->capture ? Words::in_memory_or_null : Words::in_memory));
  return CUDA_SUCCESS;
}

CUresult Api::cuStreamWriteValue32_v2(CUstream where, CUdeviceptr address, cuuint32_t value,
                                      unsigned int flags) {
  return submit_operation(where, [&](Words accepted) {
    refuse_other_memory(address);
    return write_work(address, value, flags, accepted);
  });
}

CUresult Api::cuStreamWaitValue32_v2(CUstream where, CUdeviceptr address, cuuint32_t value,
                                     unsigned int flags) {
  return submit_operation(where, [&](Words accepted) {
    refuse_other_memory(address);
    return wait_work(address, value, flags, accepted);
  });
}

void Api::refuse_other_memory(CUdeviceptr at) const {
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(at));
  refuse_if(of != nullptr && (of->managed || of->pool), CUDA_ERROR_INVALID_VALUE);
}

CUresult Api::cuStreamWriteValue64_v2(CUstream where, CUdeviceptr address, cuuint64_t value,
                                      unsigned int flags) {
  require_64_bit_operations();
  return submit_operation(where, [&](Words accepted) {
    refuse_other_memory(address);
    return write_work(address, value, flags, accepted);
  });
}

CUresult Api::cuStreamWaitValue64_v2(CUstream where, CUdeviceptr address, cuuint64_t value,
                                     unsigned int flags) {
  require_64_bit_operations();
  return submit_operation(where, [&](Words accepted) {
    refuse_other_memory(address);
    return wait_work(address, value, flags, accepted);
  });
}

/// Since CUDA 11.7, a device refuses the operations of CUDA 8 and 9, which a driver has under the same names.
/// It looks at captures first.
void Api::refuse_of_cuda_8(CUstream handle) {
  unsafe_call();
  refuse_in_capture(*stream(handle));
  refuse(CUDA_ERROR_NOT_SUPPORTED, "Stream memory operations are not supported on this device");
}

CUresult Api::cuStreamWriteValue32(CUstream where, CUdeviceptr, cuuint32_t, unsigned int) {
  refuse_of_cuda_8(where);
}

CUresult Api::cuStreamWaitValue32(CUstream where, CUdeviceptr, cuuint32_t, unsigned int) {
  refuse_of_cuda_8(where);
}

CUresult Api::cuStreamWriteValue64(CUstream where, CUdeviceptr, cuuint64_t, unsigned int) {
  refuse_of_cuda_8(where);
}

CUresult Api::cuStreamWaitValue64(CUstream where, CUdeviceptr, cuuint64_t, unsigned int) {
  refuse_of_cuda_8(where);
}

namespace {

constexpr int reduction = 8;              // CU_STREAM_MEM_OP_ATOMIC_REDUCTION, in later headers
constexpr unsigned most_operations = 256; ///< in one list

/// What a barrier orders is in order anyway.
Work barrier_work(unsigned flags) {
  refuse_if(flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU, CUDA_ERROR_INVALID_VALUE);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  work.text = "memory barrier";
  return work;
}

/// As the work of one node.
Work joined(std::vector<Work> list) {
  Work last;
  if (list.empty()) {
    last.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    last.text = "no memory operations";
    return last;
  }
  last = std::move(list.back());
  list.pop_back();
  if (!list.empty()) last.earlier = std::make_shared<const std::vector<Work>>(std::move(list));
  return last;
}

} // namespace

Work Api::memory_operation(const CUstreamBatchMemOpParams& one, Words accepted) {
  switch (one.operation) {
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    return write_work(one.writeValue.address, one.writeValue.value, one.writeValue.flags, accepted);
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    require_64_bit_operations();
    return write_work(one.writeValue.address, one.writeValue.value64, one.writeValue.flags, accepted);
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    return wait_work(one.waitValue.address, one.waitValue.value, one.waitValue.flags, accepted);
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    require_64_bit_operations();
    return wait_work(one.waitValue.address, one.waitValue.value64, one.waitValue.flags, accepted);
  case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    refuse(CUDA_ERROR_NOT_SUPPORTED);
  case CU_STREAM_MEM_OP_BARRIER:
    return barrier_work(one.memoryBarrier.flags);
  default:
    if (static_cast<int>(one.operation) == reduction) not_modelled("a reduction as a memory operation");
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

std::vector<Work> Api::memory_operations(const CUstreamBatchMemOpParams* operations, unsigned count,
                                         Words accepted) {
  std::vector<Work> list;
  for (unsigned i = 0; i < count; ++i)
    list.push_back(memory_operation(operations[i], accepted));
  return list;
}

/// The operations run one after another. A capture makes one node of them.
CUresult Api::cuStreamBatchMemOp_v2(CUstream handle, unsigned count, CUstreamBatchMemOpParams* operations,
                                    unsigned flags) {
  auto where = stream(handle);
  capturing(*where);
  implicit_check(*where);
  refuse_if(count > most_operations || flags != 0, CUDA_ERROR_INVALID_VALUE);
  if (count == 0) return CUDA_SUCCESS;
  if (operations == nullptr) crash("the list of operations is null");
  std::vector<Work> list = memory_operations(operations, count, Words::in_memory);
  if (where->capture) {
    submit(where, joined(std::move(list)));
    return CUDA_SUCCESS;
  }
  for (Work& work : list)
    submit(where, std::move(work));
  return CUDA_SUCCESS;
}

/// Unlike a stream, a node takes addresses without memory, and a list without operations.
Work Api::batch_node_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr || parameters->ctx == nullptr || parameters->paramArray == nullptr ||
                parameters->count > most_operations || parameters->flags != 0,
            CUDA_ERROR_INVALID_VALUE);
  context(parameters->ctx);
  return joined(memory_operations(parameters->paramArray, parameters->count, Words::aligned));
}

CUresult Api::cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                       const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  return add_node(out, into, after, count, batch_node_work(parameters));
}

} // namespace cuevent::sim
