// SPDX-License-Identifier: MIT
// One of every object that a process can have of the driver.
#pragma once

#include <cuevent/flight_recorder.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

namespace process {

struct Belongings {
  explicit Belongings(const cuevent::Driver& driver)
      : primary(cuevent::Context::primary(0, driver)), start(primary, cuevent::EventFlags::timing),
        event(primary, cuevent::EventFlags::timing), spare(primary),
        of_created(cuevent::Context::create(0, driver)), graph(with_event(primary)),
        exec(graph.instantiate()), recorder(primary, {.marks_per_stream = 4}) {
    start.record(nullptr);
    exec.launch(nullptr);
    event.record(nullptr);
    recorder.mark(nullptr, "work");
    of_created.record(nullptr);
    event.synchronize();
    cuevent::retire(cuevent::DriverEvent(primary));
  }

  static cuevent::Graph with_event(const cuevent::Context& context) {
    cuevent::Graph graph(context);
    cuevent::DriverEvent kept(context);
    graph.add_record(kept);
    graph.retain(std::move(kept));
    return graph;
  }

  cuevent::Context primary;
  cuevent::DriverEvent start;
  cuevent::DriverEvent event; ///< done
  cuevent::DriverEvent spare;
  cuevent::DriverEvent of_created; ///< all that keeps its context alive
  cuevent::Graph graph;
  cuevent::GraphExec exec;
  cuevent::FlightRecorder recorder; ///< has not looked yet
};

} // namespace process
