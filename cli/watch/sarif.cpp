// SPDX-License-Identifier: MIT
#include "watch/sarif.hpp"

#include "own_version.hpp"
#include "report/terminal.hpp"
#include "rules/rule_pages.hpp"
#include "watch/finding_level.hpp"
#include "watch/percent_encoding.hpp"

#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;

/// As a part of an address.
std::string escaped(const std::string& path) {
  return percent_encoded(path, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/-._~+").find(c) != std::string_view::npos;
  });
}

/// A file below the folder has a relative address: a service that shows the source has it elsewhere.
Json file_json(const std::string& file, const std::string& here) {
  const std::string path = watch::path_from(here, file, 0);
  if (path.starts_with("/")) return {{"uri", "file://" + escaped(path)}};
  return {{"uri", escaped(path)}, {"uriBaseId", "%SRCROOT%"}};
}

Json location_json(const std::string& file, int line, const std::string& function, const std::string& here) {
  Json place{{"artifactLocation", file_json(file, here)}};
  if (line > 0) place["region"] = {{"startLine", line}};
  Json location{{"physicalLocation", std::move(place)}};
  if (!function.empty()) location["logicalLocations"] = Json::array({{{"fullyQualifiedName", function}}});
  return location;
}

/// The first frame whose source is known.
Json related_json(const Json& earlier, const std::string& here) {
  for (const Json& frame : earlier["stack"])
    if (frame.contains("file")) {
      Json related = location_json(frame["file"], frame["line"], frame["function"], here);
      related["message"] = {{"text", earlier["what"]}};
      return related;
    }
  return {};
}

Json result_json(const Json& finding, const std::string& here) {
  std::string text = finding["sentence"];
  Json result{{"ruleId", finding["rule"]},
              {"level", level_of(finding)},
              {"message", {{"text", text.append(". To fix it: ").append(finding["fix"])}}},
              {"occurrenceCount", finding["count"]}};
  std::string place;
  if (const Json& source = finding["source"]; source.is_object()) {
    result["locations"] =
        Json::array({location_json(source["file"], source["line"], source["function"], here)});
    place = source["function"];
  }
  Json related = Json::array();
  for (const Json& earlier : finding["earlier"])
    if (Json location = related_json(earlier, here); !location.empty())
      related.push_back(std::move(location));
  if (!related.empty()) result["relatedLocations"] = std::move(related);
  // The same finding of another run, whose addresses and lines may differ.
  std::string same = finding["rule"];
  same.append(" ").append(place).append(" ").append(finding["call"]["function"]);
  result["partialFingerprints"] = {{"ruleFunctionCall/v1", same}};
  return result;
}

} // namespace

Json sarif(const Json& found) {
  const std::string here = std::filesystem::current_path();
  Json rules = Json::array(), results = Json::array();
  for (const watch::RulePage& page : watch::rule_pages())
    rules.push_back({{"id", page.name},
                     {"shortDescription", {{"text", std::string("The program ") + page.title}}},
                     {"fullDescription", {{"text", page.driver}}},
                     {"help", {{"text", page.fix}}}});
  for (const Json& finding : found["findings"])
    results.push_back(result_json(finding, here));
  const Json hangs = found.value("hangs", Json::array());
  if (!hangs.empty())
    rules.push_back({{"id", "hang"}, {"shortDescription", {{"text", "The program hangs"}}}});
  for (const Json& hang : hangs)
    results.push_back({{"ruleId", "hang"}, {"level", "error"}, {"message", {{"text", hang_text(hang)}}}});
  const Json driver{{"name", "cuevent watch"}, {"version", own_version()}, {"rules", std::move(rules)}};
  const Json invocation{{"executionSuccessful", true}, {"exitCode", found["exit_code"]}};
  const Json run{{"tool", {{"driver", driver}}},
                 {"invocations", Json::array({invocation})},
                 {"results", std::move(results)}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", Json::array({run})}};
}

} // namespace cli
