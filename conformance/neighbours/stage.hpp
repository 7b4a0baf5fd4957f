// SPDX-License-Identifier: MIT
// What the arguments of a question refer to. Objects are made when a question first needs them, and most are
// made again for the next question.
#pragma once

#include "../transcript/api.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace neighbours {

using Word =
    std::uint64_t; // an argument: a number, an address, or the address of a structure that is passed by value

struct SetUpFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Stage {
public:
  explicit Stage(const transcript::Api& api) : cu(api) {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const transcript::Api& cu;
  CUcontext home = nullptr;

  void initialize(); // cuInit and a context
  void next();       // forgets the objects of the last question
  CUresult settle(); // ends captures, makes `home` current alone, and waits. The answer of the wait
  void must(CUresult result, const char* what) const;

  // Storage that lives until the next question, filled with zeros.
  void* room(std::size_t bytes);
  template <class T>
  T& make() {
    return *static_cast<T*>(room(sizeof(T)));
  }

  // These live as long as the process.
  CUcontext other(); // of the same device
  CUcontext destroyed_context();
  CUgreenCtx green();
  CUcontext green_context();
  CUdevResourceDesc description();
  CUmodule module();
  CUfunction function(); // without parameters
  CUfunction with_parameters();
  CUlibrary library();
  CUkernel kernel();
  void* other_memory();     // device memory of the other context
  const char* code() const; // PTX
  // A kind is rows, line, other_line, box, layers, cube, surface, deferred or sparse.
  CUarray array(const std::string& kind);
  CUmipmappedArray mipmapped_array();
  CUarray level();                              // of mipmapped_array()
  CUtexObject texture(const std::string& kind); // array, with_view, line or rows, which are device memory
  CUsurfObject surface();
  // Memory without an address. A kind is plain, double, exportable or host.
  CUmemGenericAllocationHandle physical_memory(const std::string& kind);

  // These are made again for each question that needs them.
  CUcontext fresh_context();
  CUmodule fresh_module();
  CUlibrary fresh_library();
  CUgreenCtx fresh_green();
  CUmemoryPool fresh_pool();
  CUstream stream();
  CUstream second_stream();
  CUstream capturing(); // its capture is relaxed, and has one node
  CUevent event();      // recorded and complete
  CUevent second_event();
  CUdeviceptr memory(); // 4096 bytes of ones, as 32-bit words
  CUdeviceptr target(); // another 4096 bytes
  CUdeviceptr freed();
  CUdeviceptr managed();
  CUdeviceptr pooled();
  void* pinned();
  CUmemoryPool pool();
  CUgraph graph(); // with a node of each kind
  CUgraphNode node(const std::string& kind);
  CUgraphExec exec();          // of graph()
  CUuserObject user_object();  // that nothing else refers to
  CUuserObject owned_object(); // that graph() has a reference to

  // What textures read: device memory, and a view of the array "rows".
  CUDA_RESOURCE_DESC line_of_memory();
  CUDA_RESOURCE_DESC rows_of_memory();
  static CUDA_RESOURCE_VIEW_DESC view_of_rows();

  // Each call makes another one.
  CUarray new_array(const std::string& kind);
  CUmipmappedArray new_mipmapped_array(unsigned flags = 0);
  CUarray level_of(CUmipmappedArray);
  CUtexObject new_texture(const std::string& kind);
  CUsurfObject new_surface();
  void end_object(unsigned long long object, bool surface); // a surface or a texture
  CUmemGenericAllocationHandle new_physical_memory(const std::string& kind);
  static constexpr std::size_t piece = 2 << 20; // of virtual memory
  CUdeviceptr new_range();                      // two pieces of addresses
  CUdeviceptr new_mapping();                    // such a range, with memory at its first piece
  CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING);
  CUevent new_event(unsigned flags, bool recorded);
  CUgraph new_graph(std::map<std::string, CUgraphNode>* nodes);
  CUgraphExec new_exec(CUgraph graph);
  CUstream begun(CUstream stream, CUstreamCaptureMode mode);    // begins a capture that settle() ends
  void begins(CUstream stream) { captures_.push_back(stream); } // the question began a capture
  void forget(CUstream stream);                                 // the question ended this stream

  // What the question has made and settle() ends, in the context that is current now.
  void later(std::function<void()> end);

  template <class Make>
  auto in_other_context(Make make) {
    must(cu.CtxPushCurrent(other()), "cuCtxPushCurrent");
    const auto made = make();
    CUcontext popped = nullptr;
    must(cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
    return made;
  }

private:
  template <class Handle, class Make>
  Handle once(std::map<std::string, Word>& kept, const std::string& key, Make make) {
    const auto found = kept.find(key);
    if (found != kept.end()) return (Handle)found->second;
    const Handle made = make();
    kept[key] = (Word)made;
    return made;
  }

  std::map<std::string, Word> lasting_;
  std::map<std::string, Word> fresh_;
  std::map<std::string, CUgraphNode> nodes_;
  std::vector<CUstream> captures_;
  std::vector<std::pair<CUcontext, std::function<void()>>> ends_;
  std::vector<std::unique_ptr<char[]>> rooms_;
};

} // namespace neighbours
