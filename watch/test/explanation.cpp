// SPDX-License-Identifier: MIT
// The advice fits the finding, and not only its rule.
#include "written_calls.hpp"

#include "rules/explanation.hpp"
#include "rules/object_text.hpp"

#include <algorithm>

using watch::Finding;
using watch::Rule;

namespace {

constexpr watch::Handle legacy = 1, other = 0x500;

watch::Call on_stream(const char* symbol, watch::Handle stream) {
  watch::Call call = call_of(symbol, {});
  call.stream_handle = stream;
  return call;
}

/// Of a call, and an earlier one.
Finding finding_of(Rule rule, const watch::Call& call, const watch::Call& earlier) {
  return {rule, "", call, {{"", earlier}}};
}

std::string fix_of(const Finding& finding, watch::Words words = watch::Words::driver) {
  return watch::explanation_of(finding, words).fix;
}
std::string driver_of(const Finding& finding) {
  return watch::explanation_of(finding, watch::Words::driver).driver;
}

bool contains(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

} // namespace

TEST_CASE("a call on the legacy stream is told to take the stream", "[watch][explanation]") {
  const auto on_legacy = on_stream("cuMemcpyHtoDAsync_v2", legacy),
             on_other = on_stream("cuLaunchKernel", other);
  for (const Rule rule : {Rule::unordered_copies, Rule::unordered_kernel, Rule::freed_while_used}) {
    CHECK(contains(fix_of(finding_of(rule, on_other, on_legacy)), "Pass"));
    CHECK(contains(fix_of(finding_of(rule, on_legacy, on_other)), "legacy default stream"));
    CHECK(fix_of(finding_of(rule, on_other, on_other)) == watch::page_of(rule).fix);
  }
  const Finding copies = finding_of(Rule::unordered_copies, on_other, on_legacy);
  CHECK(contains(fix_of(copies, watch::Words::torch), "torch.cuda.stream(stream)"));
  CHECK(driver_of(copies) == watch::page_of(Rule::unordered_copies).driver);

  const auto record = on_stream("cuEventRecord", legacy);
  CHECK(contains(fix_of(finding_of(Rule::elapsed_without_work, on_other, record)), "cuEventRecord"));
  CHECK(fix_of(finding_of(Rule::elapsed_without_work, on_other, on_stream("cuEventRecord", other))) ==
        watch::page_of(Rule::elapsed_without_work).fix);
}

TEST_CASE("a call that returns early is named", "[watch][explanation]") {
  const auto on_other = on_stream("cuMemcpyDtoHAsync_v2", other);
  const auto explained = [&](const char* symbol) {
    return driver_of(finding_of(Rule::unordered_copies, on_other, call_of(symbol, {})));
  };
  CHECK(contains(explained("cuMemcpyHtoD_v2"), "This copy returns before"));
  CHECK(contains(explained("cuMemcpyDtoD_v2"), "This copy returns before"));
  CHECK(contains(explained("cuMemsetD8_v2"), "This memset returns before"));
  CHECK(explained("cuMemcpyHtoDAsync_v2") == watch::page_of(Rule::unordered_copies).driver);
  // The second call may return early, which harms nobody.
  const Finding second = finding_of(Rule::unordered_copies, call_of("cuMemcpyDtoH_v2", {}), on_other);
  CHECK(driver_of(second) == watch::page_of(Rule::unordered_copies).driver);
  CHECK(contains(fix_of(second), "variant"));
}

TEST_CASE("graphs and streams are no events", "[watch][explanation]") {
  const auto created = [](const char* symbol) {
    return Finding{Rule::created_in_a_loop, "", call_of(symbol, {}), {}};
  };
  for (const watch::Words words : {watch::Words::driver, watch::Words::torch}) {
    CHECK_FALSE(contains(fix_of(created("cuGraphInstantiateWithFlags"), words), "vent"));
    CHECK_FALSE(contains(fix_of(created("cuStreamCreate"), words), "vent"));
    CHECK(contains(fix_of(created("cuEventCreate"), words), "vent"));
  }
  CHECK_FALSE(contains(driver_of(created("cuGraphInstantiateWithFlags")), "vent"));
  for (const char* destroy : {"cuGraphDestroy", "cuGraphExecDestroy"})
    CHECK_FALSE(contains(
        fix_of(finding_of(Rule::use_after_destroy, call_of("cuGraphLaunch", {}), call_of(destroy, {}))),
        "vent"));
  CHECK(contains(fix_of(finding_of(Rule::use_after_destroy, call_of("cuEventQuery", {}),
                                   call_of("cuEventDestroy_v2", {}))),
                 "event"));
}

TEST_CASE("default streams are told apart", "[watch][explanation]") {
  const watch::StreamKey streams[] = {{1, 0x400, 0}, {1, 0x800, 0}, {2, 0x400, 7},
                                      {2, 0x400, 8}, {2, 0x800, 7}, {0x500, 0, 0}};
  std::vector<std::string> texts;
  for (const watch::StreamKey& stream : streams) {
    const std::string text = watch::stream_text(stream);
    CHECK(std::find(texts.begin(), texts.end(), text) == texts.end());
    texts.push_back(text);
  }
  CHECK(texts[2] == "the per-thread stream of thread 7 in context 0x400");
}
