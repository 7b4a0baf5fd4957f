// SPDX-License-Identifier: MIT
// Calls that a test writes down.
#pragma once

#include "rules/rules.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

inline std::uint16_t entry_named(const char* symbol) {
  for (std::size_t i = 0; i < watch::entry_count; ++i)
    if (std::strcmp(watch::entry_data[i].symbol, symbol) == 0) return static_cast<std::uint16_t>(i);
  FAIL("there is no entry " << symbol);
  return 0;
}

/// A call of thread 1 that has succeeded.
inline watch::Call call_of(const char* symbol, const std::vector<std::uint64_t>& words,
                           watch::Handle context = 0x400) {
  watch::CallData data{};
  data.entry = entry_named(symbol);
  data.count = static_cast<std::uint8_t>(words.size());
  for (std::size_t i = 0; i < words.size(); ++i)
    data.words[i] = words[i];
  data.thread = 1;
  data.context = context;
  return watch::decoded(data);
}

/// A process whose calls are made in the context 0x400, at the stack and by the thread that were set last.
/// For rules that report at the end.
class WrittenProcess {
public:
  explicit WrittenProcess(watch::Rules rules(const watch::World&, watch::Report)) {
    world_.add(rules(world_, [this](const watch::Finding& finding) {
      found_.append(found_.empty() ? "" : "\n").append(watch::page_of(finding.rule).name).append(" ");
      found_.append(std::to_string(finding.count)).append(": ").append(finding.sentence);
      for (const watch::Earlier& earlier : finding.earlier)
        found_.append("; ").append(earlier.what);
    }));
  }

  void see(const char* symbol, const std::vector<std::uint64_t>& words, CUresult result = CUDA_SUCCESS) {
    watch::Call call = call_of(symbol, words, context);
    call.result = static_cast<std::uint32_t>(result);
    call.thread = thread;
    call.stack = stack;
    call.duration = duration;
    world_.see(call);
  }

  void see_call(const watch::Call& call) { world_.see(call); }

  /// What the next call of the thread does with memory.
  void see(watch::MemoryPart part, const std::vector<std::uint64_t>& words) {
    watch::CallData data{};
    data.entry = watch::memory_entry;
    data.count = 4;
    data.thread = thread;
    data.context = context;
    data.words[0] = static_cast<std::uint64_t>(part);
    for (std::size_t i = 0; i < words.size(); ++i)
      data.words[i + 1] = words[i];
    world_.see(watch::decoded(data));
  }

  void repeat(int times, const std::function<void()>& calls) {
    for (int i = 0; i < times; ++i)
      calls();
  }

  /// The findings, "RULE COUNT: SENTENCE", or the empty text.
  std::string end() {
    world_.end(true);
    return found_;
  }

  std::uint32_t stack = 1, thread = 1;
  watch::Handle context = 0x400;
  std::chrono::nanoseconds duration{};

private:
  std::string found_;
  watch::World world_;
};
