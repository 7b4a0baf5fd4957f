// SPDX-License-Identifier: MIT
// measure() and compare() as C functions, for the Python module of the wheel. They belong to that module, and
// are no interface for other programs: packaging/wheel/timing.py has the same declarations.
#include <cuevent/measure.hpp>
#include <cuevent/text.hpp>

#include "core/json_list.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <locale>
#include <sstream>
#include <string>

namespace cuevent { inline namespace CUEVENT_ABI { namespace {

/// Times in seconds. A callback returns 0, or another number to end the measurement: Python keeps the
/// exception.
struct PythonOptions {
  double precision;
  unsigned long long least_samples, most_samples;
  double time_limit, hold_limit;
  int (*between)(); // null if there is nothing to do
  unsigned long long overwrite, overwrite_bytes;
};

struct Ended {};

void run(int (*work)()) {
  if (work() != 0) throw Ended();
}

MeasureOptions options_of(const PythonOptions& given) {
  MeasureOptions options;
  options.precision = given.precision;
  options.least_samples = given.least_samples;
  options.most_samples = given.most_samples;
  options.time_limit = std::chrono::duration<double>(given.time_limit);
  options.hold_limit = std::chrono::duration<double>(given.hold_limit);
  if (given.between != nullptr) options.between = [between = given.between](CUstream) { run(between); };
  options.overwrite = given.overwrite;
  options.overwrite_bytes = given.overwrite_bytes;
  return options;
}

/// The context of the stream. For a default stream, the current context says which one is meant.
Context context_of(CUstream stream) {
  const Driver& driver = Driver::instance();
  if (is_default_stream(stream)) return Context::current(driver);
  CUcontext context = nullptr;
  if (const CUresult result = driver.table().cuStreamGetCtx_v9020(stream, &context); result != CUDA_SUCCESS)
    driver.fail(result, "cuStreamGetCtx");
  return Context::borrow(context, driver);
}

/// A number that Python reads, whatever the program's locale is. JSON has no infinity, and times have none.
std::string number(double value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text.precision(9);
  text << value;
  return text.str();
}

std::string seconds(DeviceTime time) { return number(time.count() / 1e9); }

std::string truth(bool value) { return value ? "true" : "false"; }

std::string json_of(const MeasuredSample& sample) {
  return JsonList()(seconds(sample.time))(seconds(sample.tail))(truth(sample.held))(truth(sample.escaped))(
             truth(sample.disturbed))
      .array();
}

std::string json_of(const Measurement& found) {
  JsonList json;
  json("samples", json_array(found.samples, [](const MeasuredSample& each) { return json_of(each); }));
  json("median", seconds(found.median));
  json("low", seconds(found.low));
  json("high", seconds(found.high));
  json("minimum", seconds(found.minimum));
  json("first_quartile", seconds(found.first_quartile));
  json("third_quartile", seconds(found.third_quartile));
  json("maximum", seconds(found.maximum));
  json("outliers", std::to_string(found.outliers));
  json("trend", number(found.trend));
  json("drifts", truth(found.drifts));
  json("warm_up", std::to_string(found.warm_up));
  json("empty_pair", seconds(found.empty_pair));
  json("resolution", seconds(found.resolution));
  json("margin", seconds(found.margin));
  json("escaped", std::to_string(found.escaped));
  json("late", std::to_string(found.late));
  json("disturbed", std::to_string(found.disturbed));
  json("unheld", std::to_string(found.unheld));
  json("scope", json_string(to_string(found.scope)));
  json("end", json_string(to_string(found.end)));
  json("proved", truth(found.proved()));
  json("doubt", json_string(found.doubt()));
  json("text", json_string(to_string(found)));
  return json.object();
}

std::string json_of(const Comparison& found) {
  return JsonList()("a", json_of(found.a))("b", json_of(found.b))("ratio", number(found.ratio))(
             "low", number(found.low))("high", number(found.high))("doubt", json_string(found.doubt()))(
             "text", json_string(to_string(found)))
      .object();
}

std::string answer(CUstream stream, int (*a)(), int (*b)(), const PythonOptions& given) {
  try {
    const Context context = context_of(stream);
    const MeasureOptions options = options_of(given);
    const auto run_a = [a] { run(a); };
    const auto run_b = [b] { run(b); };
    return b == nullptr ? json_of(measure(context, stream, run_a, options))
                        : json_of(compare(context, stream, run_a, run_b, options));
  } catch (const Ended&) {
    return "{\"ended\":true}";
  } catch (const std::exception& failed) {
    return JsonList()("error", json_string(failed.what())).object();
  }
}

}}} // namespace cuevent::CUEVENT_ABI

#pragma GCC visibility push(default)
extern "C" {

/// Measures `a`, or compares `a` and `b`. Returns JSON, which cuevent_python_free() frees, or null without
/// memory.
char* cuevent_python_measure(CUstream stream, int (*a)(), int (*b)(),
                             const cuevent::PythonOptions* options) noexcept {
  try {
    return strdup(cuevent::answer(stream, a, b, *options).c_str());
  } catch (const std::exception&) {
    return nullptr;
  }
}

void cuevent_python_free(char* text) noexcept { std::free(text); }
}
#pragma GCC visibility pop
