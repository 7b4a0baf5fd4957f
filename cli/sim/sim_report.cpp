// SPDX-License-Identifier: MIT
#include "sim/sim_report.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace cli {

namespace {

constexpr std::size_t most_fields = 6; // the kind, the process, its program, and up to three more
constexpr std::size_t most_asked = 10'000;
constexpr unsigned long long most_calls = 1'000'000'000'000'000; // a sum of them does not overflow

std::string counted(unsigned long long count, const char* one, const char* many) {
  return with_commas(count) + ' ' + (count == 1 ? one : many);
}

} // namespace

std::string with_commas(unsigned long long number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, ",");
  return digits;
}

SimReport::SimReport(std::string_view lines) {
  // The last line may be incomplete.
  for (std::size_t end = 0; (end = lines.find('\n')) != std::string_view::npos; lines.remove_prefix(end + 1))
    add(lines.substr(0, end));
}

void SimReport::add(std::string_view line) {
  std::array<std::string, most_fields> fields;
  for (std::string& field : fields) {
    const std::size_t end = std::min(line.find('\t'), line.size());
    field = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  const auto& [kind, process, program, name, what, caller] = fields;
  if (process.empty() || begun_ > most_asked || asked_.size() > most_asked) return;
  if (kind == "process") ++processes_[process], ++begun_;
  if (kind == "driver" && !name.empty()) other_drivers_.insert(name);
  if (kind == "unmeasured" && !name.empty() && unmeasured_.size() < most_asked) unmeasured_.insert(name);
  if (kind == "calls") {
    unsigned long long calls = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), calls);
    if (error != std::errc() || end != name.data() + name.size() || calls > most_calls) return;
    if (std::size_t& left = processes_[process]; left > 0) --left, calls_ += calls;
  }
  const bool was_called = kind == "unmodelled";
  if (name.empty() || (!was_called && kind != "missing")) return;
  Asked& asked = asked_[{name, what}];
  if (asked.processes.empty() || (was_called && asked.caller.empty())) {
    asked.caller = caller;
    asked.program = program;
  }
  asked.was_called = asked.was_called || was_called;
  asked.processes.insert(process);
}

std::string SimReport::names_text(std::size_t most) const {
  if (asked_.empty()) return {};
  std::string text = "not modelled, and asked for:\n";
  std::size_t left = most;
  for (const auto& [key, asked] : asked_) {
    if (left-- == 0) {
      text += "  and " + with_commas(asked_.size() - most) + " more\n";
      break;
    }
    text += "  " + key.first;
    if (!key.second.empty()) text += ": " + key.second;
    text += asked.was_called ? ", called" : ", looked up and not found";
    if (!asked.caller.empty()) text += " from " + asked.caller;
    text += " by " + asked.program;
    if (asked.processes.size() > 1)
      text += " and others, " + counted(asked.processes.size(), "process", "processes");
    text += '\n';
  }
  return text;
}

std::string SimReport::processes_text() const {
  if (begun_ == 0) {
    return "no process loaded the simulated driver: the program does not use the driver, names another file "
           "than libcuda.so.1, or starts with a clean environment\n";
  }
  std::size_t unknown = 0;
  for (const auto& [process, left] : processes_)
    unknown += left;
  std::string text = counted(begun_, "process", "processes") + " on simulated devices, " +
                     (unknown > 0 ? "at least " : "") + counted(calls_, "driver call", "driver calls");
  if (other_drivers_.empty()) text += ", no GPU was used\n";
  for (const std::string& driver : other_drivers_)
    text += "; a process has loaded another driver too, and may have used a GPU with it: " + driver;
  if (!other_drivers_.empty()) text += '\n';
  for (const std::string& version : unmeasured_)
    text += "nobody has measured a driver of CUDA " + version +
            ": its answers are those of CUDA 13.0, and what came later follows the text of cuda.h\n";
  if (unknown > 0)
    text += counted(unknown, "process", "processes") +
            " ended without a word, or still run, so their calls are not counted\n";
  return text;
}

} // namespace cli
