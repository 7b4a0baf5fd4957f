// SPDX-License-Identifier: MIT
/// \file
/// \brief RankReport: the stages of one process of a job, as text for `cuevent merge`.
///
/// A job is one process for each GPU. Each process is a rank and writes one report. The command
/// `cuevent merge` makes one trace, one table and one picture of all reports. docs/ranks.md has the
/// format, and explains how the clocks of different hosts are aligned.
#pragma once

#include <cuevent/stage_timer.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// Which process of a job this is.
///
/// Thread-safety: a plain value. No other thread may change the environment during
/// from_environment().
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct RankIdentity {
  unsigned rank = 0;       ///< from 0, less than `size`
  unsigned size = 1;       ///< the number of ranks of the job
  unsigned local_rank = 0; ///< from 0, among the ranks of this host
  std::string host{};      ///< the name of the host

  /// What the launcher says, or nothing if no launcher is known. The first launcher in this list whose first
  /// two variables are set is used:
  /// - torchrun: RANK, WORLD_SIZE, and LOCAL_RANK;
  /// - mpirun of Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK;
  /// - mpirun of MPICH and others: PMI_RANK, PMI_SIZE, and MPI_LOCALRANKID;
  /// - Slurm: SLURM_PROCID, SLURM_NTASKS, and SLURM_LOCALID.
  ///
  /// Without the third variable `local_rank` is 0. No driver call. Throws InvalidValue if a variable
  /// is not a number, or if the rank is not less than the size.
  [[nodiscard]] static std::optional<RankIdentity> from_environment();
};

/// A moment on the clock of this rank's host and on the clock of rank 0's host.
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct ClockSample {
  HostTime here{};                        ///< on this rank's host
  HostTime reference{};                   ///< on the host of rank 0
  std::chrono::nanoseconds uncertainty{}; ///< the largest error of `reference`, either way

  /// The sample of one exchange: this rank reads `asked` and asks rank 0 for its time, rank 0
  /// answers with `reference`, and this rank reads `answered`. The error is at most half of the
  /// time in between, so the shortest of several exchanges is the best. No driver call.
  static ClockSample exchanged(HostTime asked, HostTime reference, HostTime answered) noexcept {
    const HostTime::duration half = (answered - asked) / 2;
    return {asked + half, reference, std::chrono::duration_cast<std::chrono::nanoseconds>(half)};
  }
};

/// The report of one rank, as lines of JSON. The library writes no files: the program writes what
/// take() returns. Move-only.
///
///     StageTimer timer(context);
///     RankReport report(RankIdentity::from_environment().value_or(RankIdentity{}));
///     report.add(timer.report()); // now and then, for example after each step
///     timer.clear();              // so that the next report has only new spans
///     std::cout << report.take();
///
/// Thread-safety: the caller orders all members.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
class RankReport {
public:
  /// Begins the report. `device` is the name of the device. Here and below, a text of more than 4,096
  /// bytes is cut, and ends in "...". Throws InvalidValue if the rank is not less than the size, or the
  /// size is more than 1,048,576. No driver call.
  explicit RankReport(const RankIdentity& identity, std::string_view device = {});
  RankReport(RankReport&&) noexcept;
  RankReport& operator=(RankReport&&) noexcept;
  ~RankReport();

  /// Adds a clock sample. Add one at the start and one at the end, because clocks drift apart; further
  /// samples in between improve the alignment. Rank 0 needs none. No driver call. Throws InvalidValue, and
  /// adds nothing, if
  /// - `here` is not later than in the sample before,
  /// - a time or the uncertainty is negative, or
  /// - the sample contradicts the one before: the clocks differ by more than 1 % and the uncertainties.
  void add(const ClockSample& sample);

  /// Adds the spans and waits of a timer's report. Times become whole nanoseconds on the host's clock, and
  /// are otherwise unchanged. All reports must come from one timer. Call StageTimer::clear() after each
  /// add(). No driver call.
  /// - Spans that overlap others of their stream without nesting are written as another stream, with
  ///   the name "copying (2)" and so on: see StageSpan. Spans after a calibration can also overlap.
  /// - A span without a valid time counts as dropped: not a number, before the host's clock began, or
  ///   with an end before its begin.
  /// - A wait is left out if one of its spans is in another report.
  ///
  /// Throws InvalidValue, and adds nothing, if
  /// - a span was added before,
  /// - there are more than 4,096 stages or streams, or 2^40 runs of a stage, or
  /// - the report contradicts itself, which a report of StageTimer::report() never does.
  void add(const StageReport& report);

  /// Says that the rank has come to its end. Without this line, `cuevent merge` reports that the
  /// rank died. No driver call.
  void end();
  /// The same for a rank that ends because of an error. `why` is a text for people.
  void end(std::string_view why);

  /// Returns the lines that were not taken yet, each with a newline. No driver call.
  [[nodiscard]] std::string take();

  /// False after a move. Other members of a moved report throw InvalidHandle.
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

private:
  struct [[gnu::visibility("hidden")]] State;
  [[gnu::visibility("hidden")]] State& state(const char* call) const;
  std::unique_ptr<State> state_;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
