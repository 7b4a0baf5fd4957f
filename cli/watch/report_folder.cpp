// SPDX-License-Identifier: MIT
#include "watch/report_folder.hpp"

#include "json_text.hpp"
#include "output_file.hpp"
#include "own_version.hpp"

#include "report/printable.hpp"
#include "timing/rank_identity.hpp"

#include <cuevent/error.hpp>

#include <climits>
#include <fstream>
#include <map>
#include <optional>
#include <unistd.h>

namespace cli {

namespace {

std::map<std::string, std::string> environment_of(unsigned process) {
  std::map<std::string, std::string> variables;
  std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  for (std::string line; std::getline(file, line, '\0');)
    if (const auto end = line.find('='); end != std::string::npos)
      variables.try_emplace(line.substr(0, end), line.substr(end + 1));
  return variables;
}

/// Nothing if the variables contradict each other: the report then has no rank.
std::optional<cuevent::RankIdentity> rank_of(unsigned process) {
  const auto variables = environment_of(process);
  try {
    return cuevent::rank_identity_in([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  } catch (const cuevent::InvalidValue&) {
    return std::nullopt;
  }
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  return gethostname(name, sizeof name) == 0 ? name : "";
}

} // namespace

watch::HangReports::Keep keep_in(const std::optional<ReportFolder>& folder) {
  if (!folder) return {};
  return [&folder](const watch::CallFile& process, const nlohmann::ordered_json& report) {
    folder->write(process, report);
  };
}

std::string variable_of(unsigned process, const std::string& name) { return environment_of(process)[name]; }

ReportFolder::ReportFolder(const std::string& path, std::chrono::nanoseconds limit)
    : folder_(path, watch::Folder::Kind::shared), limit_(limit) {}

void ReportFolder::write(const watch::CallFile& process, const nlohmann::ordered_json& report) const {
  const auto identity = rank_of(process.process());
  nlohmann::ordered_json all{{"hang_report", hang_report_version}, {"cuevent", own_version()}};
  if (identity) {
    all["rank"] = identity->rank;
    all["size"] = identity->size;
  }
  all["host"] = host_name();
  all["time_ns"] = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  all["limit_ns"] = limit_.count();
  all["all_calls"] = !process.has_lost_calls() && (process.region().overwrites == 0 ||
                                                   process.region().written.load() <= process.records());
  all.update(report);
  std::string name = "hang-";
  name += identity ? "rank" + std::to_string(identity->rank) : host_name();
  name.append("-").append(std::to_string(process.process())).append(".json");
  try {
    OutputFile file(folder_, name);
    file.write(json_text(all) + "\n");
    file.finish();
  } catch (const OutputError& error) {
    watch::print_text(std::string("cuevent watch: ") + error.what() + '\n');
  }
}

} // namespace cli
