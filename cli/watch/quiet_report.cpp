// SPDX-License-Identifier: MIT
#include "watch/quiet_report.hpp"

#include "report/hang.hpp"
#include "report/reader.hpp"
#include "rules/world.hpp"
#include "watch/report_folder.hpp"

#include <optional>

namespace cli {

int report_in_quiet_mode(const std::string& path, const std::string& reports) {
  watch::CallFile file(path, watch::CallFile::Mode::again);
  watch::CallText texts;
  std::optional<ReportFolder> folder;
  if (!reports.empty()) folder.emplace(reports, quiet_limit);
  watch::HangReports hangs(texts, folder ? &*folder : nullptr);
  watch::World world;
  watch::HangWatch hang(file, world, hangs, [] {}); // the process waits for this report
  file.read([&](const watch::Call& call) { world.see(call); }, true);
  hang.add_lost_probes();
  hang.report(std::nullopt); // the process has looked
  return 0;
}

} // namespace cli
