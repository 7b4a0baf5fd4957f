// SPDX-License-Identifier: MIT
#include "merge/merged_trace.hpp"

#include "json_text.hpp"

#include <algorithm>
#include <charconv>

namespace cli {

namespace {

constexpr std::size_t block = 1 << 20;

std::string as_json(const std::string& text) { return json_text(text, -1); }

void append(std::string& text, std::uint64_t number) { text += std::to_string(number); }

/// Microseconds with three decimals: "1234.005". A trace has only times from 0.
void append_time(std::string& text, long long nanoseconds) {
  char digits[24];
  const char* const end = std::to_chars(digits, digits + sizeof digits, nanoseconds / 1000).ptr;
  text.append(digits, static_cast<std::size_t>(end - digits));
  const auto rest = static_cast<unsigned>(nanoseconds % 1000);
  text += '.';
  text += static_cast<char>('0' + rest / 100);
  text += static_cast<char>('0' + rest / 10 % 10);
  text += static_cast<char>('0' + rest % 10);
}

} // namespace

MergedTrace::MergedTrace(const std::string& path, watch::Links links) {
  if (path.empty()) return;
  file_.emplace(path, links);
  text_ = "{\"displayTimeUnit\": \"ns\",\n\"traceEvents\": [\n";
}

void MergedTrace::begin_rank(const RankReportFile& rank) {
  if (!file_) return;
  process_ = std::uint64_t{rank.header.rank} + 1; // viewers do not show process 0
  first_thread_ += threads_;
  threads_ = 0;
  std::string name = "rank " + std::to_string(rank.header.rank);
  for (const std::string& part : {rank.header.host, rank.header.device})
    if (!part.empty()) name += ", " + part;
  const std::string of_process = "\"pid\":" + std::to_string(process_);
  text_ += "{\"ph\":\"M\",\"name\":\"process_name\"," + of_process + ",\"args\":{\"name\":" + as_json(name) +
           "}},\n" + "{\"ph\":\"M\",\"name\":\"process_sort_index\"," + of_process +
           ",\"args\":{\"sort_index\":" + std::to_string(rank.header.rank) + "}},\n";
}

void MergedTrace::add_stream(unsigned stream, const std::string& name) {
  if (!file_) return;
  threads_ = std::max<std::uint64_t>(threads_, std::uint64_t{stream} + 1);
  text_ += "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" + std::to_string(process_) +
           ",\"tid\":" + std::to_string(thread(stream)) + ",\"args\":{\"name\":" + as_json(name) + "}},\n";
}

void MergedTrace::add_span(const SpanLine& span, const std::string& stage, long long begin, long long end) {
  if (!file_) return;
  text_ += "{\"ph\":\"X\",\"name\":";
  text_ += stage;
  text_ += ",\"cat\":\"stage\",\"pid\":";
  append(text_, process_);
  text_ += ",\"tid\":";
  append(text_, thread(span.stream));
  text_ += ",\"ts\":";
  append_time(text_, begin);
  text_ += ",\"dur\":";
  append_time(text_, end - begin);
  text_ += "},\n";
  write(false);
}

void MergedTrace::add_wait(const WaitLine& wait, long long departure, long long arrival) {
  if (!file_) return;
  ++waits_;
  add_end_of_wait("\"s\"", wait.from_stream, departure);
  // Ends in the slice around it, not in the next one.
  add_end_of_wait("\"f\",\"bp\":\"e\"", wait.to_stream, arrival);
  write(false);
}

void MergedTrace::add_end_of_wait(const char* phase, unsigned stream, long long time) {
  text_ += "{\"ph\":";
  text_ += phase;
  text_ += ",\"name\":\"wait\",\"cat\":\"wait\",\"id\":";
  append(text_, waits_);
  text_ += ",\"pid\":";
  append(text_, process_);
  text_ += ",\"tid\":";
  append(text_, thread(stream));
  text_ += ",\"ts\":";
  append_time(text_, time);
  text_ += "},\n";
}

void MergedTrace::write(bool all) {
  if (!all && text_.size() < block) return;
  file_->write(text_);
  text_.clear();
}

void MergedTrace::finish(const std::string& about) {
  if (!file_) return;
  // The last event, because each one ends with a comma.
  text_ += "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":" + std::to_string(process_) +
           ",\"args\":{\"labels\":\"\"}}\n],\n\"otherData\": " + about + "}\n";
  write(true);
  file_->finish();
}

} // namespace cli
