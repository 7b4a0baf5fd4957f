// SPDX-License-Identifier: MIT
// Device work that fails. The calls that tell of it are no mistakes of their own: the first stands for all.
#include "rules/rules.hpp"

#include <cuevent/error.hpp>

namespace watch {

namespace {

class FaultRules : public Observer {
public:
  explicit FaultRules(Report report) : report_(std::move(report)) {}

  void before(const Call& call) override {
    if (submits_work(call.verb()) && call.succeeded()) last_work_ = call;
    if (!is_fault(call) || std::exchange(has_fault_, true)) return;
    std::vector<Earlier> earlier;
    add(earlier, "the last work before that was submitted here", last_work_);
    report_({Rule::device_fault, "device work has failed, and this is the first call that tells", call,
             std::move(earlier)});
  }

private:
  const Report report_;
  std::optional<Call> last_work_; // that was submitted
  bool has_fault_ = false;
};

} // namespace

bool is_fault(const Call& call) {
  return call.returned && call.result != CUDA_SUCCESS &&
         cuevent::kind_of(static_cast<CUresult>(call.result)) == cuevent::ErrorKind::device_fault;
}

Rules fault_rules(const World&, Report report) { return std::make_shared<FaultRules>(std::move(report)); }

} // namespace watch
