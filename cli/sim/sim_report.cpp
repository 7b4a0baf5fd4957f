// SPDX-License-Identifier: MIT
#include "sim/sim_report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

namespace cli {

namespace {

constexpr std::size_t most_fields = 6; // the kind, the process, its program, and up to three more
constexpr std::size_t most_asked = 10'000;
constexpr std::size_t most_frequent = 3, longest_name = 60;      // of kernels, in one line
constexpr unsigned long long most_calls = 1'000'000'000'000'000; // a sum of them does not overflow

std::string counted(unsigned long long count, const char* one, const char* many) {
  return with_commas(count) + ' ' + (count == 1 ? one : many);
}

std::optional<unsigned long long> number_in(const std::string& text) {
  unsigned long long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most_calls) return std::nullopt;
  return number;
}

std::string shortened(std::string name) {
  if (name.starts_with("void ")) name.erase(0, 5);
  return name.size() <= longest_name ? name : name.substr(0, longest_name - 3) + "...";
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
  if (kind == "runtime" && !name.empty() && runtimes_.size() < most_asked) runtimes_.insert(name);
  if (kind == "kernel" && !name.empty() && kernels_.size() < most_asked) {
    if (const auto ran = number_in(what)) {
      unsigned long long& all = kernels_[name];
      all = std::min(all + *ran, most_calls);
    }
  }
  if (kind == "calls") {
    const auto calls = number_in(name);
    if (!calls) return;
    if (std::size_t& left = processes_[process]; left > 0) --left, calls_ += *calls;
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

std::string SimReport::kernels_text(Names names) const {
  if (kernels_.empty()) return {};
  unsigned long long all = 0;
  std::vector<std::pair<unsigned long long, std::string>> sorted;
  for (const auto& [name, ran] : kernels_) {
    all += ran;
    sorted.emplace_back(ran, name);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  std::string text = counted(kernels_.size(), "kernel", "kernels") + " ran " + counted(all, "time", "times") +
                     " and computed nothing";
  if (names == Names::all) {
    text += ":\n";
    for (const auto& [ran, name] : sorted)
      text += "  " + with_commas(ran) + " " + name + '\n';
    return text;
  }
  const bool are_more = sorted.size() > most_frequent;
  sorted.resize(std::min(sorted.size(), most_frequent));
  const char* between = are_more ? ", most often " : ": ";
  for (const auto& [ran, name] : sorted) {
    text += between + shortened(name) + " (" + with_commas(ran) + ')';
    between = ", ";
  }
  return text + (are_more ? "; --verbose names all\n" : "\n");
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
  for (const std::string& library : runtimes_)
    text += library + " asked for private tables of the driver, which simulated devices lack: what needs "
                      "them, such as a CUDA runtime of its own, fails\n";
  for (const std::string& version : unmeasured_)
    text += "nobody has measured a driver of CUDA " + version +
            ": its answers are those of CUDA 13.0, and what came later follows the text of cuda.h\n";
  if (unknown > 0)
    text += counted(unknown, "process", "processes") +
            " ended without a word, or still run, so their calls are not counted\n";
  return text;
}

} // namespace cli
