// SPDX-License-Identifier: MIT
// The Python module cuevent_torch: what a PyTorch program needs of cuevent. docs/from-torch.md says
// which calls can block. Those calls release the GIL.
#include "event.hpp"
#include "timer.hpp"
#include "watchdog.hpp"

#include <cuevent/retired_events.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <memory>

namespace py = pybind11;
using namespace cuevent;

namespace {

using ReleaseGil = py::call_guard<py::gil_scoped_release>;
using Seconds = std::chrono::duration<double>;

/// Ends an object without the GIL, for destructors that can wait for another thread.
struct EndWithoutGil {
  template <class Object>
  void operator()(Object* object) const {
    const py::gil_scoped_release released;
    delete object;
  }
};
template <class Object>
using Holder = std::unique_ptr<Object, EndWithoutGil>;

/// Makes an object without the GIL, for constructors that can wait for another thread.
template <class Object, class... Arguments>
Holder<Object> make(int device, Arguments... arguments) {
  const Context& context = primary(device);
  const py::gil_scoped_release released;
  return Holder<Object>(new Object(context, arguments...));
}

/// The garbage collector ends events on any thread, so an event is retired instead of destroyed.
/// The next new event destroys it, where waiting does no harm.
DriverEvent new_event(int device, bool timing) {
  const Context& context = primary(device);
  const py::gil_scoped_release released;
  destroy_retired();
  return DriverEvent(context, EventFlags::retire | (timing ? EventFlags::timing : EventFlags::none));
}

/// An event of PyTorch, which stays the owner.
DriverEvent borrow(py::handle torch_event, int device) {
  const auto handle = torch_event.attr("cuda_event").cast<std::uintptr_t>();
  if (handle == 0)
    throw py::value_error("the event does not exist yet: PyTorch creates it at its first record. Call "
                          "record() first");
  return DriverEvent::borrow(primary(device), reinterpret_cast<CUevent>(handle), EventFlags::none);
}

// A record on one thread and a query on another one may meet: both only read the object, and the
// driver has locks of its own.
void bind_event(py::module_& module) {
  py::class_<DriverEvent> event(module, "Event");
  event.def(py::init(&new_event), py::arg("device"), py::arg("timing") = false)
      .def_static("borrow", &borrow, py::arg("event"), py::arg("device"), py::keep_alive<0, 1>())
      .def(
          "record",
          [](DriverEvent& self, Stream s) {
            self.record({*s.context, s.handle});
          },
          ReleaseGil())
      .def(
          "wait",
          [](DriverEvent& self, Stream s) {
            self.wait({*s.context, s.handle});
          },
          ReleaseGil())
      .def("query", &DriverEvent::query_relaxed) // short, and harms no capture of another thread
      .def(
          "synchronize",
          [](DriverEvent& self, double seconds) { return self.synchronize_for(Seconds(seconds)); },
          py::arg("seconds"), ReleaseGil())
      .def("elapsed_time", [](DriverEvent& self, DriverEvent& end) { return self.elapsed_time(end).count(); })
      .def_property_readonly("cuda_event", [](DriverEvent& self) {
        return reinterpret_cast<std::uintptr_t>(self.native_handle());
      });
#ifdef TORCH_EXTENSION_NAME // PyTorch builds this: see setup.py
  event.def("record", &record_on_current_stream, ReleaseGil());
#endif
}

void bind_timer(py::module_& module) {
  py::class_<Timer, Holder<Timer>>(module, "StageTimer")
      .def(py::init(&make<Timer>), py::arg("device"))
      .def("open", &Timer::open, py::arg("stream"), py::arg("name"), ReleaseGil())
      .def("close", &Timer::close, py::arg("stream"), ReleaseGil())
      .def("poll", &Timer::poll, ReleaseGil())
      .def("collect", &Timer::collect, ReleaseGil())
      .def(
          "instantiate",
          [](Timer& self, const py::object& graph) {
            const auto handle = graph.attr("raw_cuda_graph")().cast<std::uintptr_t>();
            const py::gil_scoped_release released;
            return Holder<TimedReplay>(self.instantiate(handle));
          },
          py::arg("cuda_graph"), py::keep_alive<0, 1>(), py::keep_alive<0, 2>())
      .def("report", [](Timer& self) {
        StageReport report;
        {
          const py::gil_scoped_release released;
          report = self.report();
        }
        py::dict stages;
        for (const StageStatistics& stage : report.stages)
          stages[py::str(stage.name)] = py::dict(
              py::arg("count") = stage.count, py::arg("dropped") = stage.dropped,
              py::arg("mean_us") = stage.mean.count() / 1e3, py::arg("p50_us") = stage.p50.count() / 1e3,
              py::arg("p99_us") = stage.p99.count() / 1e3);
        return stages;
      });
  py::class_<TimedReplay, Holder<TimedReplay>>(module, "TimedGraph")
      .def("replay", &TimedReplay::replay, py::arg("stream"), ReleaseGil());
}

void bind_watchdog(py::module_& module) {
  py::class_<Watchdog, Holder<Watchdog>>(module, "Watchdog")
      .def(py::init([](int device, double limit) { return make<Watchdog>(device, Seconds(limit)); }),
           py::arg("device"), py::arg("limit"))
      .def("beat", &Watchdog::beat, py::arg("stream"), ReleaseGil())
      .def_property_readonly("completed", &Watchdog::completed)
      .def_property_readonly("stuck", &Watchdog::stuck)
      .def_property_readonly("error", [](Watchdog& self) -> py::object {
        if (self.error() == CUDA_SUCCESS) return py::none();
        return py::str(driver_category().message(self.error()));
      });
}

void bind_semaphore(py::module_& module) {
  using Semaphore = TimelineSemaphore;
  py::class_<Semaphore, Holder<Semaphore>>(module, "Semaphore")
      .def(py::init(&make<Semaphore>), py::arg("device"))
      .def_static(
          "join",
          [](int device, int descriptor) {
            const Context& context = primary(device);
            const py::gil_scoped_release released;
            return Holder<Semaphore>(new Semaphore(Semaphore::import(context, descriptor)));
          },
          py::arg("device"), py::arg("descriptor"))
      .def("export_handle", &Semaphore::export_handle)
      .def(
          "signal",
          [](Semaphore& self, Stream s, std::uint64_t value) {
            self.signal({*s.context, s.handle}, value);
          },
          py::arg("stream"), py::arg("value"), ReleaseGil())
      .def(
          "wait",
          [](Semaphore& self, Stream s, std::uint64_t value) {
            self.wait({*s.context, s.handle}, value, WaitOrder::before_signal);
          },
          py::arg("stream"), py::arg("value"), ReleaseGil())
      .def(
          "synchronize",
          [](Semaphore& self, std::uint64_t value, double seconds) {
            return self.wait_for(value, Seconds(seconds));
          },
          py::arg("value"), py::arg("seconds"), ReleaseGil())
      .def("abandon_on_death", &Semaphore::abandon_on_death)
      .def_property_readonly("value", &Semaphore::value);
}

} // namespace

PYBIND11_MODULE(cuevent_torch, module) {
  module.doc() = "Events of the CUDA driver API for PyTorch programs";
  py::register_exception<DriverError>(module, "DriverError", PyExc_RuntimeError);
  bind_event(module);
  bind_timer(module);
  bind_watchdog(module);
  bind_semaphore(module);
}
