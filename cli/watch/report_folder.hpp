// SPDX-License-Identifier: MIT
// The folder in which the processes of a job leave their reports, for `cuevent merge`.
#pragma once

#include "report/folder.hpp"
#include "report/hang.hpp"
#include "report/reader.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

namespace cli {

/// The version of the format of a report.
inline constexpr int hang_report_version = 1;

/// The variable that names the folder. In quiet mode, the auditing library hands it on to the command.
inline constexpr char reports_variable[] = "CUEVENT_REPORTS";

/// A process in quiet mode that has not moved for that long is stuck.
inline constexpr std::chrono::seconds quiet_limit(10);

class ReportFolder : public watch::ReportKeeper {
public:
  /// Makes the folder, unless it is there. Others may write there only if it is sticky. `limit`: a process
  /// that has not moved for that long is stuck. Throws watch::Refused.
  ReportFolder(const std::string& path, std::chrono::nanoseconds limit);

  const std::string& path() const { return folder_.path(); }

  nlohmann::ordered_json identity_of(const watch::CallFile& process) const override;

  /// Writes the report to hang-rank3-PROCESS.json. A file that cannot be written is told on standard error.
  void write(const watch::CallFile& process, const nlohmann::ordered_json& report) const override;

private:
  watch::Folder folder_;
  std::chrono::nanoseconds limit_;
};

/// The value of a variable in the environment with which a process of this host has started.
std::string variable_of(unsigned process, const std::string& name);

} // namespace cli
