// SPDX-License-Identifier: MIT
// measure() and compare() as C functions, for the Python module of the wheel. They belong to that module, and
// are no interface for other programs: packaging/wheel/timing.py has the same declarations.
#include <cuevent/measure.hpp>
#include <cuevent/text.hpp>

#include "timing/json_line.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
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

/// A number that Python reads. JSON has no infinity, and times have none.
std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string seconds(DeviceTime time) { return number(time.count() / 1e9); }

std::string truth(bool value) { return value ? "true" : "false"; }

void add(std::string& json, const char* name, const std::string& value) {
  json.append(json.back() == '{' ? "\"" : ",\"").append(name).append("\":").append(value);
}

std::string json_of(const MeasuredSample& sample) {
  std::string json = "[" + seconds(sample.time) + ',' + seconds(sample.lead) + ',' + seconds(sample.tail);
  for (const bool flag : {sample.held, sample.escaped, sample.preceded, sample.followed})
    json += ',' + truth(flag);
  return json + ']';
}

std::string json_of(const Measurement& found) {
  std::string samples = "[";
  for (const MeasuredSample& sample : found.samples)
    samples.append(samples.size() > 1 ? "," : "").append(json_of(sample));
  std::string json = "{";
  add(json, "samples", samples + ']');
  add(json, "median", seconds(found.median));
  add(json, "low", seconds(found.low));
  add(json, "high", seconds(found.high));
  add(json, "minimum", seconds(found.minimum));
  add(json, "first_quartile", seconds(found.first_quartile));
  add(json, "third_quartile", seconds(found.third_quartile));
  add(json, "maximum", seconds(found.maximum));
  add(json, "outliers", std::to_string(found.outliers));
  add(json, "trend", number(found.trend));
  add(json, "drifts", truth(found.drifts));
  add(json, "warm_up", std::to_string(found.warm_up));
  add(json, "empty_pair", seconds(found.empty_pair));
  add(json, "resolution", seconds(found.resolution));
  add(json, "margin", seconds(found.margin));
  add(json, "escaped", std::to_string(found.escaped));
  add(json, "preceded", std::to_string(found.preceded));
  add(json, "followed", std::to_string(found.followed));
  add(json, "unheld", std::to_string(found.unheld));
  add(json, "scope", '"' + to_string(found.scope) + '"');
  add(json, "end", '"' + to_string(found.end) + '"');
  add(json, "proved", truth(found.proved()));
  add(json, "doubt", json_string(found.doubt()));
  add(json, "text", json_string(to_string(found)));
  return json + '}';
}

std::string json_of(const Comparison& found) {
  std::string json = "{";
  add(json, "a", json_of(found.a));
  add(json, "b", json_of(found.b));
  add(json, "ratio", number(found.ratio));
  add(json, "low", number(found.low));
  add(json, "high", number(found.high));
  add(json, "text", json_string(to_string(found)));
  return json + '}';
}

std::string error(const std::string& text) {
  std::string json = "{";
  add(json, "error", json_string(text));
  return json + '}';
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
    return error(failed.what());
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
