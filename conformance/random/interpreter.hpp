// SPDX-License-Identifier: MIT
// Runs programs through the driver's functions and gives the answers in their short form.
//
// A call is left out, and answered with `-`, if
// - an object that it names does not exist;
// - it would wait for work behind a closed gate;
// - it would enable peer access while work is held;
// - it would destroy an event to which a graph refers, which is undefined;
// - it would wait for an interprocess event of another context, or export one while another context is
//   current, which crashes a device;
// - it would make a graph a child of itself, which crashes a device;
// - it would launch a captured write to the null address, of which no answer is known;
// - it would set an attribute of a memory pool to null, which crashes a device.
//
// After each call the interpreter lets all work finish that is not behind a closed gate, also if later
// work of the same stream is behind one. So the answers do not depend on how fast the device is.
#pragma once

#include "actors.hpp"
#include "answer.hpp"
#include "held_work.hpp"
#include "partner.hpp"
#include "program.hpp"

#include "../transcript/api.hpp"

#include <initializer_list>
#include <map>
#include <memory>
#include <utility>

namespace conformance {

using transcript::Api;

class Watchdog;

class Interpreter {
public:
  static constexpr std::size_t memory_bytes = 256; ///< of each allocation of a program

  /// Creates the contexts and the memory. Throws LoadFailure if the driver or the device is not usable.
  /// The library is for the other process of programs with imported events.
  Interpreter(const Api&, std::string library, Watchdog&);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Gives each answer to the sink as soon as it is there.
  void run(const Program&, const std::function<void(const std::string&)>& sink);

  /// Whether the last program left nothing behind, so that this process can run another one.
  bool clean() const { return clean_; }
  /// How often the last program had work that should have finished, and did not.
  unsigned timeouts() const { return timeouts_; }

private:
  struct Event {
    CUevent handle = nullptr;
    int context = 0;
    bool interprocess = false;
    bool in_a_graph = false;  ///< then it has to outlive the graph
    bool captured = false;    ///< last recorded in a capture
    bool ever = false;        ///< recorded outside a capture, at least once
    bool dirty = false;       ///< recorded, and not yet seen to be complete
    bool dirty_there = false; ///< the same, as the other process sees it
    bool by_launch = false;   ///< last recorded by a launch of a graph
    Gates behind = 0;

    void recorded(Gates gates, bool by_a_launch = false) {
      behind = gates;
      by_launch = by_a_launch;
      captured = false;
      ever = true;
      dirty = dirty_there = true;
    }
  };
  struct Stream {
    CUstream handle = nullptr;
    Lane lane;
  };
  struct Node {                                             ///< what matters of a graph's node
    enum class Kind { plain, child, copy, fill, captured }; ///< captured: a copy or a fill
    Kind kind = Kind::plain;
    std::shared_ptr<std::vector<Node>> child{};
    std::shared_ptr<Event> records{}, waits{};
    int writes = no_object; ///< the number of a word
    bool at_null = false;   ///< writes to null or waits there
    Gates gates = 0;
    std::vector<std::size_t> after{};
  };
  struct Memory {
    CUdeviceptr address = 0;
    int context = 0;
    bool host = false;
    bool managed = false;
    bool in_a_graph = false; ///< then it has to outlive the graph
    int stream = no_stream;  ///< that used it
  };
  static constexpr int no_stream = -10, many_streams = -11;
  struct Library {
    CUlibrary handle = nullptr;
    CUkernel kernel = nullptr;
    bool in_a_graph = false; ///< then it has to outlive the graph
  };
  struct Graph {
    CUgraph handle = nullptr;
    unsigned number = 0;
    std::vector<CUgraphNode> nodes;
  };
  struct Exec {
    CUgraphExec handle = nullptr;
    unsigned graph = 0; ///< the number of the graph it was made from
    std::vector<CUgraphNode> nodes;
    std::vector<Node> steps;
    Gates behind = 0;
  };

  // One function for each family of operations: the answer, or nothing if the call is left out.
  std::string answer(const Call&);
  std::string event_call(const Call&);
  std::string stream_call(const Call&);
  std::string memory_call(const Call&);
  std::string capture_call(const Call&);
  std::string context_call(const Call&);
  std::string transfer_call(const Call&);
  std::string graph_call(const Call&);
  std::string exec_call(const Call&);

  std::string create_event(const Call&);
  std::string create_stream(const Call&);
  std::string record(const Call&);
  std::string wait(const Call&);
  std::string instantiate(const Call&);
  std::string launch(const Call&);
  std::string add_node(const Call&);
  std::string update(const Call&);
  std::vector<Node> steps_of(const std::vector<CUgraphNode>&) const;
  std::string launch_kernel(const Call&);
  std::string allocate(const Call&);
  std::string free(const Call&);
  void submit_transfer(const Call&, int stream, std::initializer_list<int> memory);
  std::string without_stream(const Call&, CUresult);
  void free_memory();
  std::string broad_call(const Call&);
  std::string broad_memory_call(const Call&);
  std::string allocate_broadly(const Call&);
  std::string box_call(const Call&);
  std::string question(const Call&);
  std::string pool_call(const Call&);
  std::string code_call(const Call&);
  std::string node_call(const Call&);
  std::string step_call(const Call&);
  std::string clone(const Call&);
  std::string add_broad_node(const Call&);
  bool anything_held() const;
  bool held_here(const Call&) const;
  void used(int memory, int stream);
  static bool any_at_null(const std::vector<Node>& steps);
  Gates run_steps(const std::vector<Node>&, Gates begin);
  void free_pools_and_libraries();
  void prepare(const Program&);
  void prepare_wide_programs();
  void prepare_broad_programs();
  void prepare_two_devices();
  std::string enable_peer_access(const Call&);
  void disable_peer_access();
  std::string partner_call(const Call&);
  std::string import_event(const Call&);
  std::string export_event(const Call&);
  bool partner_pending();

  bool exists(const Call&) const;
  bool exists(char kind, int slot) const;
  CUevent event_handle(int slot) const { return slot == no_object ? nullptr : events_[slot]->handle; }
  CUcontext context_handle(int slot) const { return slot == no_object ? nullptr : contexts_[slot]; }
  CUstream stream_handle(int stream) const;
  Graph& graph(int slot) { return slot < 0 ? no_graph_ = {} : graphs_[slot]; }
  Exec& exec(int slot) { return slot < 0 ? no_exec_ = {} : execs_[slot]; }
  /// Null if the call has no place for its result.
  template <class Result>
  static Result* place(const Call& call, Result& result) {
    return call.flags == null_result ? nullptr : &result;
  }
  Lane* lane_of(const Call&, int stream); ///< null: no context is current
  int current(const Call& call) const { return current_[call.thread]; }
  bool capturing(int stream) const;
  void note_captured_node(int stream, Node);
  void submit(const Call&, int stream, Gates also);
  void note_write(int word, Gates behind) { unwritten_.push_back({word, behind}); }

  void settle(int thread);
  void settle_all_threads();
  bool lane_pending(CUstream, Lane&);
  bool write_pending();
  bool anything_pending(int thread);
  void clean_up();
  bool end_captures_of(int thread);

  const Api& cu_;
  const std::string library_;
  Watchdog& watchdog_;
  Actors actors_;
  CUcontext contexts_[context_slots] = {};
  CUfunction kernels_[context_slots] = {}; ///< of wide programs; a kernel belongs to a context
  unsigned* words_ = nullptr;              ///< the gates, then the words that programs write

  std::vector<std::pair<int, int>> peers_; ///< contexts with access, and to which
  Ask partner_;                            ///< empty until a program needs it

  HeldWork held_;
  int current_[thread_slots];
  Lane legacy_[context_slots];
  Lane per_thread_[thread_slots][context_slots];
  Lane partner_lanes_[partner_streams];
  std::shared_ptr<Event> events_[event_slots];
  std::shared_ptr<Event> partner_events_[event_slots]; ///< those that the other process has open
  Stream streams_[stream_slots];
  Memory memory_[memory_slots];
  CUmemoryPool pools_[pool_slots] = {};
  Library libraries_[library_slots];
  CUmodule modules_[context_slots] = {}; ///< of broad programs
  Graph graphs_[graph_slots], no_graph_; ///< a null handle is that of no graph
  Exec execs_[exec_slots], no_exec_;
  std::map<CUgraphNode, Node> nodes_; ///< of all graphs and captures
  struct Write {
    int word;
    Gates behind;
  };
  std::vector<Write> unwritten_; ///< submitted, and not yet seen in memory
  unsigned graph_numbers_ = 0;
  bool clean_ = true;
  unsigned timeouts_ = 0;
};

} // namespace conformance
