// SPDX-License-Identifier: MIT
// What tests can do that a device cannot.

#include "death.hpp"
#include "fixture.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

using namespace cuevent;
using namespace std::chrono_literals;

TEST_CASE("fail_next makes the next call of the function fail, whatever its version") {
  Fixture f;
  sim::fail_next("cuStreamQuery", CUDA_ERROR_UNKNOWN);
  sim::fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  sim::fail_next("cuEventCreate", CUDA_ERROR_OPERATING_SYSTEM);
  CUevent made = nullptr;
  CHECK(f.cu.event_create(&made, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(made == nullptr);
  CHECK(sim::live_handles().events == 0);
  CHECK(f.cu.event_create(&made, 0) == CUDA_ERROR_OPERATING_SYSTEM);
  OK(f.cu.event_create(&made, 0));
  PFN_cuStreamQuery_v7000_ptsz query = nullptr;
  OK(sim::get_proc_address("cuStreamQuery", reinterpret_cast<void**>(&query), 7000,
                           CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr));
  CHECK(query(f.stream) == CUDA_ERROR_UNKNOWN);
  OK(query(f.stream));
}

TEST_CASE("fail_next leaves calls alone that are refused anyway, and other processes") {
  sim::Machine machine;
  const RawDriver cu(sim::get_proc_address);
  const RawDriver other(sim::get_proc_address_of(1));
  int count = 0;
  const auto devices = cu.device_get_count;
  sim::fail_next("cuDeviceGetCount", CUDA_ERROR_NO_DEVICE);
  CHECK(devices(&count) == CUDA_ERROR_NOT_INITIALIZED);
  OK(other.init(0));
  OK(other.device_get_count(&count));
  OK(cu.init(0));
  CHECK(devices(&count) == CUDA_ERROR_NO_DEVICE);
  OK(devices(&count));
  sim::fail_next("cuDeviceGetCount", CUDA_ERROR_NO_DEVICE);
  sim::shut_down();
  CHECK(devices(&count) == CUDA_ERROR_DEINITIALIZED);
  sim::reset();
  OK(cu.init(0));
  OK(devices(&count));
}

TEST_CASE("fail_next and make_context_fault refuse what cannot fail") {
  const auto says = [](const char* text, const std::function<void()>& body) {
    const Death death = death_of(body);
    return death.aborted && death.says("wrong control call") && death.says(text);
  };
  CHECK(says("cuDriverGetVersion is not modelled, or works in every state",
             [] { sim::fail_next("cuDriverGetVersion", CUDA_ERROR_UNKNOWN); }));
  CHECK(says("cuNone is not modelled", [] { sim::fail_next("cuNone", CUDA_ERROR_UNKNOWN); }));
  CHECK(says("no failure", [] { sim::fail_next("cuMemAlloc", CUDA_SUCCESS); }));
  CHECK(says("no fault", [] {
    Fixture f;
    sim::make_context_fault(f.context, CUDA_SUCCESS);
  }));
  CHECK(says("there is no simulated process 2", [] { sim::calls(2); }));
  for (const int devices : {0, 9})
    CHECK(says("use 1 to 8", [=] { sim::reset({.devices = devices}); }));
}

TEST_CASE("pending counts the operations of default streams too, and lists all of them") {
  Fixture f;
  CHECK(sim::pending_operations().empty());
  sim::hold(f.stream);
  sim::hold(CU_STREAM_LEGACY, f.context);
  OK(f.work(f.stream));
  OK(f.work(nullptr));
  OK(f.work(nullptr));
  CHECK(sim::pending(f.stream) == 1);
  CHECK(sim::pending(nullptr, f.context) == 2);
  const auto texts = sim::pending_operations();
  REQUIRE(texts.size() == 3);
  CHECK(texts[0].find("(work) on stream #1 of context #1: its stream is held") != std::string::npos);
  CHECK(texts[1].find("(work) on the legacy stream of context #1: its stream is held") != std::string::npos);
  CHECK(texts[2].find("waits for operation ") != std::string::npos);
  sim::release(f.stream);
  sim::release(CU_STREAM_LEGACY, f.context);
  sim::run_until_idle();
  CHECK(sim::pending(CU_STREAM_LEGACY, f.context) == 0);
}

TEST_CASE("what an operation waits for is named once") {
  Fixture f;
  const CUstream other = f.new_stream();
  const CUevent event = f.event();
  sim::hold(f.stream);
  sim::hold(other);
  OK(f.cu.event_record(event, f.stream));
  OK(f.cu.stream_wait(f.stream, event, 0)); // behind the record, and for it
  OK(f.work(other));
  OK(f.cu.stream_wait(other, event, 0));
  const auto texts = sim::pending_operations();
  REQUIRE(texts.size() == 4);
  const auto number = [&](std::size_t i) { return texts[i].substr(10, texts[i].find(" (") - 10); };
  CHECK_THAT(texts[1], Catch::Matchers::EndsWith(": waits for operation " + number(0)));
  CHECK_THAT(texts[3], Catch::Matchers::EndsWith(": waits for operations " + number(0) + ", " + number(2)));
}

TEST_CASE("a created stream is no default stream of a context") {
  const Death death = death_of([] {
    Fixture f;
    sim::hold(f.stream, f.context);
  });
  CHECK(death.aborted);
  CHECK(death.says("one of its default streams"));
}

TEST_CASE("a handle of an earlier session can be refused") {
  const Death death = death_of([] {
    Fixture f;
    sim::reset({.unmodelled = sim::Unmodelled::error});
    if (f.cu.init(0) != CUDA_SUCCESS || f.cu.stream_query(f.stream) != CUDA_ERROR_NOT_SUPPORTED ||
        sim::take_unmodelled() != std::vector<std::string>{"cuStreamQuery: a handle of an earlier session"})
      std::abort();
  });
  CHECK_FALSE(death.aborted);
}
