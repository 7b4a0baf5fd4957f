// SPDX-License-Identifier: MIT
#include "merge/hang_report.hpp"

#include "core/name_text.hpp"
#include "merge/rank_line.hpp"
#include "report/folder.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <unistd.h>

namespace cli {

namespace {

using Parsed = nlohmann::json;
using std::chrono::nanoseconds;

constexpr std::uint64_t version_read = 1;
constexpr std::size_t most_bytes = 16 << 20, most_communicators = 64, most_listed = 64;
constexpr std::uint64_t most_names = 4096, most_number = std::uint64_t{1} << 61;

std::uint64_t number_in(const Parsed& json, const char* key) {
  const Parsed& number = json.at(key);
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= most_number)
    throw std::out_of_range(std::string("\"") + key + "\" is no whole number, or a too large one");
  return number.get<std::uint64_t>();
}

/// Others may have written the report: a name with a line break would forge a line of the verdict.
std::string text_in(const Parsed& json, const char* key) {
  return cuevent::printable(json.at(key).get<std::string>());
}

nanoseconds time_in(const Parsed& json, const char* key) {
  return nanoseconds(static_cast<std::int64_t>(number_in(json, key)));
}

HangCommunicator communicator_of(const Parsed& json) {
  using State = HangCommunicator::State;
  const auto state = json.at("state").get<std::string>();
  HangCommunicator made;
  made.stream = text_in(json, "stream");
  made.state = state == "in"             ? State::in_collective
               : state == "held"         ? State::held
               : state == "send_receive" ? State::in_send_receive
                                         : State::idle;
  auto names = json.at("names").get<std::vector<std::string>>();
  for (std::string& name : names)
    name = cuevent::printable(name);
  auto last = json.at("last").get<std::vector<std::uint32_t>>();
  const auto submitted = number_in(json, "submitted");
  made.reached = number_in(json, "reached");
  made.reached_next = number_in(json, "reached_next");
  if (last.size() > most_names || last.size() > submitted || made.reached > submitted ||
      std::any_of(last.begin(), last.end(), [&](std::uint32_t each) { return each >= names.size(); }))
    throw std::out_of_range("the numbers of its collectives contradict each other");
  const std::uint64_t hash = std::strtoull(json.at("hash").get<std::string>().c_str(), nullptr, 16);
  made.sequence = HangSequence(submitted, hash, std::move(names), std::move(last));
  return made;
}

HangThread thread_of(const Parsed& json) {
  HangThread made;
  made.name = text_in(json, "thread");
  if (json.at("inside").is_string()) made.inside = text_in(json, "inside");
  if (json.contains("after")) made.after = text_in(json, "after");
  made.place = text_in(json, "place");
  made.age = time_in(json, "for_ns");
  return made;
}

/// Not more than `most` bytes of the file.
std::string beginning_of(const watch::OpenFile& file, std::size_t most) {
  std::string text;
  char part[4096];
  for (ssize_t length = 0;
       text.size() < most &&
       (length = read(file.number(), part, std::min(sizeof part, most - text.size()))) > 0;)
    text.append(part, static_cast<std::size_t>(length));
  return text;
}

HangReport report_of(const Parsed& json) {
  HangReport made;
  if (json.contains("rank")) {
    const std::uint64_t rank = number_in(json, "rank"), size = number_in(json, "size");
    if (rank >= size || size > most_ranks) throw std::out_of_range("its rank is too large");
    made.rank = static_cast<unsigned>(rank);
    made.size = static_cast<unsigned>(size);
  }
  made.host = text_in(json, "host");
  made.process = static_cast<unsigned>(number_in(json, "process"));
  made.time = time_in(json, "time_ns");
  made.still = time_in(json, "still_ns");
  made.watched = time_in(json, "watched_ns");
  made.limit = time_in(json, "limit_ns");
  if (json.contains("moved_ns")) made.moved = time_in(json, "moved_ns");
  made.answered = json.at("answered").get<bool>();
  made.has_all_calls = json.at("all_calls").get<bool>();
  for (const Parsed& each : json.at("communicators"))
    if (made.communicators.size() < most_communicators) made.communicators.push_back(communicator_of(each));
  for (const Parsed& each : json.at("causes"))
    if (made.causes.size() < most_listed)
      made.causes.push_back(
          {text_in(each, "text"), each.at("nccl").get<bool>(), each.at("fault").get<bool>()});
  for (const Parsed& each : json.at("host_threads"))
    if (made.threads.size() < most_listed) made.threads.push_back(thread_of(each));
  return made;
}

} // namespace

bool HangReport::has_fault() const {
  return std::any_of(causes.begin(), causes.end(), [](const HangCause& each) { return each.is_fault; });
}

const HangCause* HangReport::own_cause() const {
  const auto found =
      std::find_if(causes.begin(), causes.end(), [](const HangCause& each) { return !each.is_nccl; });
  return found == causes.end() ? nullptr : &*found;
}

std::string name_of_communicator(std::size_t index) {
  return index == 0 ? "the communicator stream" : "communicator stream " + std::to_string(index + 1);
}

bool HangReport::waits_for_others() const { return !causes.empty() && own_cause() == nullptr; }

bool is_hang_report(const std::string& path) {
  std::string begin;
  try {
    begin = beginning_of(watch::open_input(path), 64);
  } catch (const watch::Refused&) {
    return false;
  }
  std::erase_if(begin, [](char each) { return std::isspace(static_cast<unsigned char>(each)) != 0; });
  return begin.starts_with("{\"hang_report\":");
}

HangReport hang_report_in(std::string_view text) {
  try {
    // Most of a report is for people: the stacks of all threads. They need no memory and little time here.
    const Parsed json = Parsed::parse(text, [](int depth, Parsed::parse_event_t event, const Parsed& parsed) {
      return event != Parsed::parse_event_t::key || depth != 1 || (parsed != "threads" && parsed != "report");
    });
    if (const std::uint64_t version = number_in(json, "hang_report"); version != version_read)
      throw HangReportError("the report has version " + std::to_string(version) +
                            ", and this cuevent reads version " + std::to_string(version_read) +
                            ": use the same cuevent for all ranks");
    return report_of(json);
  } catch (const Parsed::exception& error) {
    throw HangReportError(std::string("the report is damaged: request a new one (") + error.what() + ")");
  } catch (const std::out_of_range& error) {
    throw HangReportError(std::string("the report is damaged: ") + error.what() + "; request a new one");
  }
}

HangReport read_hang_report(const std::string& path) {
  watch::OpenFile file;
  try {
    file = watch::open_input(path);
  } catch (const watch::Refused& refused) {
    throw HangReportError(refused.what() + std::string(": the report cannot be read: let its owner make it a "
                                                       "regular file that you may read"));
  }
  const std::string text = beginning_of(file, most_bytes + 1);
  if (text.size() > most_bytes)
    throw HangReportError(path + ": the report is larger than 16 MiB: it is damaged; request a new one");
  try {
    HangReport report = hang_report_in(text);
    report.file = path;
    return report;
  } catch (const HangReportError& error) {
    throw HangReportError(path + ": " + error.what());
  }
}

} // namespace cli
