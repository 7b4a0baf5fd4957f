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

/// Nothing if it cannot be read.
std::optional<std::map<std::string, std::string>> environment_of(unsigned process) {
  std::map<std::string, std::string> variables;
  std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  if (!file) return std::nullopt;
  for (std::string line; std::getline(file, line, '\0');)
    if (const auto end = line.find('='); end != std::string::npos)
      variables.try_emplace(line.substr(0, end), line.substr(end + 1));
  return variables;
}

/// Nothing if the variables contradict each other: the report then has no rank.
std::optional<cuevent::RankIdentity> rank_in(const std::map<std::string, std::string>& variables) {
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

std::string variable_of(unsigned process, const std::string& name) {
  auto variables = environment_of(process);
  return variables ? (*variables)[name] : std::string();
}

ReportFolder::ReportFolder(const std::string& path, std::chrono::nanoseconds limit)
    : folder_(path, watch::Folder::Kind::shared), limit_(limit) {}

nlohmann::ordered_json ReportFolder::identity_of(const watch::CallFile& process) const {
  const auto variables = environment_of(process.process());
  // A process that ends loses its environment first, and its number later.
  if ((variables && variables->empty()) || process.has_ended()) return nullptr;
  nlohmann::ordered_json identity{{"host", host_name()}};
  if (const auto rank = variables ? rank_in(*variables) : std::nullopt) {
    identity["rank"] = rank->rank;
    identity["size"] = rank->size;
  }
  return identity;
}

void ReportFolder::write(const watch::CallFile& process, const nlohmann::ordered_json& report) const {
  nlohmann::ordered_json all{{"hang_report", hang_report_version}, {"cuevent", own_version()}};
  all["limit_ns"] = limit_.count();
  all["all_calls"] = !process.has_lost_calls() && (process.region().overwrites == 0 ||
                                                   process.region().written.load() <= process.records());
  all.update(report);
  std::string name = "hang-";
  name += all.contains("rank") ? "rank" + all["rank"].dump() : host_name();
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
