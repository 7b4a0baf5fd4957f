// SPDX-License-Identifier: MIT
#include "fault_sweep.hpp"

#include "faults.hpp"
#include "fixture.hpp"

#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/catch_translate_exception.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <catch2/reporters/catch_reporter_streaming_base.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace test {

namespace {

using Extent = Fault::Extent;

template <class Error>
bool is_a(const cuevent::DriverError& error) {
  return dynamic_cast<const Error*>(&error) != nullptr;
}

constexpr struct {
  CUresult result;
  bool (*is_of_its_class)(const cuevent::DriverError&);
} codes[] = {
    {CUDA_ERROR_INVALID_VALUE, is_a<cuevent::InvalidValue>},
    {CUDA_ERROR_OUT_OF_MEMORY, is_a<cuevent::OutOfMemory>},
    {CUDA_ERROR_ILLEGAL_ADDRESS, is_a<cuevent::IllegalAddress>},
    {CUDA_ERROR_DEINITIALIZED, is_a<cuevent::Deinitialized>},
};
constexpr int faults_per_call = 2 * static_cast<int>(std::size(codes));

// The upper limit on the runs of one test, even if it makes many calls.
using Clock = std::chrono::steady_clock;
constexpr int most_faults = 100 * faults_per_call;
constexpr Clock::duration longest_test = std::chrono::seconds(1);

constexpr unsigned longest_run = 60; // in seconds; a longer run counts as a hang

Fault fault_number(int i) {
  const int of_call = i % faults_per_call;
  Fault fault{.result = codes[of_call / 2].result, .call = i / faults_per_call + 1};
  if (of_call % 2 == 0) return fault;
  fault.extent = Extent::from_then_on;
  // Even after a device fault, the driver still knows its contexts until it unloads.
  if (fault.result != CUDA_ERROR_DEINITIALIZED) fault.spared = "cuCtxGetId";
  return fault;
}

/// Calls with which cuevent finds out why another call failed, so the error is about that other
/// call; and some calls whose failure is an answer.
bool may_be_lost(std::string_view function) {
  static const std::set<std::string_view> questions = {
      "cuEventElapsedTime", "cuStreamGetCtx",   "cuCtxGetDevice",     "cuCtxGetCurrent",
      "cuCtxGetId",         "cuCtxPushCurrent", "cuUserObjectRelease"};
  return questions.contains(function);
}

/// One run of a test: what happened, and which of it should not have happened.
class Run final : public FixtureObserver {
public:
  Run(const Fault& fault, const std::set<std::string>& expected) : plan_(fault), expected_(expected) {
    running = this;
    set_fixture_observer(this);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() override {
    running = nullptr;
    set_fixture_observer(nullptr);
  }

  static Run* current() { return running; }

  const FaultPlan& plan() const noexcept { return plan_; }
  bool failed() const noexcept { return failed_; }
  /// An error that was thrown or reported: "cuEventDestroy 709".
  const std::set<std::string>& errors() const noexcept { return errors_; }
  const std::vector<std::string>& violations() const noexcept { return violations_; }

  /// Called when the run is over. Reports a fault that should have been visible and was not.
  bool lost_the_fault() const {
    const CUresult result = plan_.fault().result;
    const bool expected_by_tests = result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_DEINITIALIZED;
    return !plan_.struck().empty() && !seen_ && !failed_ && !expected_by_tests &&
           !may_be_lost(plan_.struck());
  }

  void body_begins() override { scope_.emplace(plan_); }
  void body_ends() override { scope_.reset(); }

  bool judges_handles() const override {
    // A driver that unloads ends everything. If the id of a context cannot be queried, nothing of
    // that context is destroyed: the context may be gone, and destroying its objects could crash.
    return !is_the_fault(CUDA_ERROR_DEINITIALIZED) && plan_.struck() != "cuCtxGetId";
  }

  void left_behind(const LeftBehind& left) override {
    for (const std::string& each : left.on_thread)
      violations_.push_back("left behind: " + each);
    if (!judges_handles()) return;
    for (const std::string& each : left.handles)
      violations_.push_back("left behind: " + each);
  }

  void reported(CUresult result, const char* call) override {
    const std::lock_guard lock(mutex_);
    judge("a destructor reported ", call, result);
  }

  /// An exception that the test did not expect, or whose text the test checks.
  void thrown(const std::exception& exception) {
    const std::lock_guard lock(mutex_);
    const auto* const error = dynamic_cast<const cuevent::DriverError*>(&exception);
    if (error == nullptr)
      violations_.push_back(std::string("not a DriverError: ") + exception.what());
    else if (is_the_fault(error->result()) && !is_of_its_class(*error))
      violations_.push_back(std::string("of the wrong class: ") + exception.what());
    else
      judge("thrown: ", error->call(), error->result());
  }

  /// A failed assertion of the test. After it, errors may come from the test, which continues in a
  /// wrong state.
  void assertion_failed() { failed_ = true; }

private:
  void judge(const char* how, const char* call, CUresult result) {
    const std::string error = std::string(call) + " " + std::to_string(result);
    errors_.insert(error);
    if (is_the_fault(result))
      seen_ = true;
    else if (plan_.fault().call != 0 && !expected_.contains(error) && result != plan_.refusal() && !failed_)
      violations_.push_back(how + error);
  }
  bool is_the_fault(CUresult result) const {
    return !plan_.struck().empty() && result == plan_.fault().result;
  }
  bool is_of_its_class(const cuevent::DriverError& error) const {
    // A driver that cannot be initialized is unavailable, with every result.
    if (is_a<cuevent::DriverUnavailable>(error)) return std::string_view(error.call()) == "cuInit";
    const auto* const code = std::find_if(std::begin(codes), std::end(codes), [&](const auto& each) {
      return each.result == plan_.fault().result;
    });
    return code->is_of_its_class(error);
  }

  static inline Run* running = nullptr;

  FaultPlan plan_;
  std::optional<FaultScope> scope_;
  const std::set<std::string>& expected_; // errors
  std::mutex mutex_;                      // destructors report from any thread
  std::set<std::string> errors_;
  std::vector<std::string> violations_;
  bool seen_ = false, failed_ = false;
};

/// The tests in the form that the sweep needs.
struct Listed {
  std::string name;
  bool swept;
};
std::vector<Listed> listed;

/// Prints nothing, and tells the run which assertions failed.
class Reporter final : public Catch::StreamingReporterBase {
public:
  using StreamingReporterBase::StreamingReporterBase;
  static std::string getDescription() { return "for the sweep of faults: says nothing"; }

  void listTests(const std::vector<Catch::TestCaseHandle>& tests) override {
    for (const Catch::TestCaseHandle& test : tests) {
      const Catch::TestCaseInfo& info = test.getTestCaseInfo();
      const bool excluded = std::any_of(info.tags.begin(), info.tags.end(), [](const Catch::Tag& tag) {
        return tag.original == Catch::StringRef("no-sweep");
      });
      listed.push_back({info.name, !excluded});
    }
  }
  void fatalErrorEncountered(Catch::StringRef error) override;
  void assertionEnded(const Catch::AssertionStats& stats) override {
    if (!stats.assertionResult.isOk() && Run::current() != nullptr) Run::current()->assertion_failed();
  }
};

/// The current step, for a report if the program crashes.
char doing[1024];

void give_up(int) {
  static constexpr char text[] = "hangs: ";
  static_cast<void>(write(STDERR_FILENO, text, sizeof text - 1));
  static_cast<void>(write(STDERR_FILENO, doing, std::strlen(doing)));
  _exit(1);
}

void Reporter::fatalErrorEncountered(Catch::StringRef error) {
  std::fprintf(stderr, "%s: %s", std::string(error).c_str(), doing);
}

std::string describe(const Fault& fault) {
  if (fault.call == 0) return "without faults";
  return "call " + std::to_string(fault.call) + (fault.extent == Extent::once ? "" : " and all after it") +
         " fails with CUresult " + std::to_string(fault.result);
}

class Sweep {
public:
  Sweep(Catch::Session& session, int stride) : session_(session), stride_(stride) {}

  int run() {
    std::signal(SIGALRM, give_up);
    list();
    for (const Listed& test : listed) {
      if (test.swept)
        sweep(test.name);
      else
        std::printf("not swept: %s\n", test.name.c_str());
    }
    std::printf("%d scenarios, %d faults injected, %d violations\n", scenarios_, injected_, violations_);
    return violations_ != 0 || injected_ == 0 ? 1 : 0;
  }

private:
  void configure(Catch::ConfigData data) {
    data.reporterSpecifications = {Catch::ReporterSpec("faults", {}, {}, {})};
    session_.useConfigData(data);
  }

  void list() {
    Catch::ConfigData data = session_.configData();
    data.listTests = true;
    configure(data);
    session_.run();
  }

  /// Selects this test only.
  void select(const std::string& name) {
    std::string quoted = "\"";
    for (const char c : name) {
      if (c == '"' || c == '\\' || c == ',') quoted += '\\';
      quoted += c;
    }
    Catch::ConfigData data;
    data.testsOrTags = {quoted + '"'};
    configure(data);
  }

  void sweep(const std::string& name) {
    select(name);
    expected_.clear();
    Run clean({}, expected_);
    const auto begin = Clock::now();
    run(name, clean);
    const auto time = Clock::now() - begin;
    ++scenarios_;
    if (clean.failed()) violation(name, clean, "an assertion fails");
    const int calls = clean.plan().calls();
    expected_ = clean.errors();

    const int faults = calls * faults_per_call;
    const auto most = std::min<long long>(most_faults, longest_test / time);
    const int step = std::max(stride_, static_cast<int>(faults / std::max(most, 1LL))) | 1;
    for (int i = 0; i < faults; i += step) { // the step is odd, so every result has its turn
      Run faulty(fault_number(i), expected_);
      run(name, faulty);
      if (faulty.plan().struck().empty()) continue; // the number of calls may differ between runs
      ++injected_;
      if (faulty.lost_the_fault()) violation(name, faulty, "the fault left no trace");
    }
  }

  void run(const std::string& name, Run& run) {
    std::snprintf(doing, sizeof doing, "%s: %s\n", name.c_str(), describe(run.plan().fault()).c_str());
    alarm(longest_run);
    session_.run();
    alarm(0);
    for (const std::string& what : run.violations())
      violation(name, run, what);
  }

  void violation(const std::string& name, const Run& run, const std::string& what) {
    ++violations_;
    const std::string_view struck = run.plan().struck();
    std::printf("%s: %s (%.*s): %s\n", name.c_str(), describe(run.plan().fault()).c_str(),
                static_cast<int>(struck.size()), struck.data(), what.c_str());
  }

  Catch::Session& session_;
  int stride_;
  std::set<std::string> expected_; // errors of the current test without faults
  int scenarios_ = 0, injected_ = 0, violations_ = 0;
};

CATCH_REGISTER_REPORTER("faults", Reporter)

CATCH_TRANSLATE_EXCEPTION(const std::exception& exception) {
  if (Run::current() != nullptr) Run::current()->thrown(exception);
  return exception.what();
}

} // namespace

int sweep(Catch::Session& session, int stride) { return Sweep(session, stride).run(); }

} // namespace test
