// SPDX-License-Identifier: MIT
#include "groups.hpp"

#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace cuevent::sim::nccl {

namespace {

struct Job {
  std::shared_ptr<Communicator> of;
  std::function<void()> run;
};

/// Of one communicator. NCCL begins with the collectives, too.
struct Submissions {
  std::shared_ptr<Communicator> to;
  std::vector<std::pair<Communicator::Collective, CUstream>> collectives;
  Communicator::Transfers transfers;
};

struct Group {
  int depth = 0;
  std::optional<Failure> failure;
  std::vector<Job> jobs;
  std::vector<Submissions> submissions; ///< in the order of their first calls
};
thread_local Group group;

Submissions& submissions_to(const std::shared_ptr<Communicator>& to) {
  for (Submissions& each : group.submissions)
    if (each.to == to) return each;
  return group.submissions.emplace_back(Submissions{to, {}, {}});
}

void launch(const Submissions& all) {
  for (const auto& [collective, stream] : all.collectives)
    all.to->launch(collective, stream);
  if (!all.transfers.all.empty()) all.to->launch(all.transfers);
}

std::optional<Failure> run(const Job& job) {
  std::optional<Failure> failure = failure_of(job.run);
  job.of->state = failure ? failure->result : ncclSuccess;
  return failure;
}

/// Each may wait for one of the others.
ncclResult_t run_all(const std::vector<Job>& jobs) {
  std::vector<std::optional<Failure>> failures(jobs.size());
  std::vector<std::thread> threads;
  ncclResult_t result = ncclSuccess;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!jobs[i].of->is_blocking) {
      std::thread([job = jobs[i]] { run(job); }).detach();
      result = ncclInProgress;
    } else if (jobs.size() == 1) {
      failures[i] = run(jobs[i]);
    } else {
      threads.emplace_back([&, i] { failures[i] = run(jobs[i]); });
    }
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::optional<Failure>& failure : failures)
    if (failure) throw Failure(*failure);
  return result;
}

} // namespace

ncclResult_t begin_job(const std::shared_ptr<Communicator>& of, std::function<void()> job) {
  if (group.depth == 0) return run_all({{of, std::move(job)}});
  group.jobs.push_back({of, std::move(job)});
  return ncclSuccess;
}

void submit(const std::shared_ptr<Communicator>& to, const Communicator::Collective& collective,
            CUstream stream) {
  if (group.depth == 0) return to->launch(collective, stream);
  submissions_to(to).collectives.emplace_back(collective, stream);
}

void submit(const std::shared_ptr<Communicator>& to, const Meeting::Transfer& transfer, void* memory,
            CUstream stream) {
  if (group.depth == 0) return to->launch(Communicator::Transfers{{transfer}, {memory}, {stream}});
  Communicator::Transfers& all = submissions_to(to).transfers;
  all.all.push_back(transfer);
  all.memory.push_back(memory);
  all.streams.insert(stream);
}

void note_in_group(const Failure& failure) {
  if (group.depth > 0 && !group.failure) group.failure = failure;
}

void start_group() { ++group.depth; }

ncclResult_t end_group() {
  if (group.depth == 0) fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, Group{});
  if (ended.failure) throw Failure(*ended.failure);
  const ncclResult_t result = run_all(ended.jobs);
  for (const Submissions& each : ended.submissions)
    launch(each);
  return result;
}

} // namespace cuevent::sim::nccl
