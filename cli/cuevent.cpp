// SPDX-License-Identifier: MIT
// The command `cuevent`.

#include "command_line.hpp"
#include "info.hpp"
#include "report/printable.hpp"

#include "transcript.hpp"
#include "worker.hpp"

#include "../environment/unknown_variables.hpp"

#include <cuevent/error.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

namespace cli { namespace {

ExitCode run(const InfoOptions& options) { return info(options.json); }
ExitCode run(const CheckOptions& options) { return check(options); }
ExitCode run(const RandomOptions& options) { return check_random(options); }
ExitCode run(const MergeOptions& options) { return merge(options); }
int run(const SimOptions& options) { return simulate(options); }
int run(const WatchOptions& options) { return watch(options); }

int run_or_explain(const Request& request) {
  try {
    const int code = std::visit([](const auto& options) -> int { return run(options); }, request);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fprintf(stderr, "cuevent: standard output: %s\n", std::strerror(errno));
  } catch (const cuevent::DriverUnavailable& error) {
    watch::print_text(std::string("cuevent: ") + error.what() + '\n');
    return no_driver;
  } catch (const std::exception& error) {
    watch::print_text(std::string("cuevent: ") + error.what() + '\n');
  }
  return failure;
}

int main(int argc, char** argv) {
  const auto asked = read_command_line(argc, argv, std::cout, std::cerr);
  if (const ExitCode* const done = std::get_if<ExitCode>(&asked)) return *done;
  if (environment::for_each_unknown_variable(environment::Product::tools, [](const char* text) {
        std::fprintf(stderr, "cuevent: %s\n", text);
      }) != 0)
    return usage;
  return run_or_explain(std::get<Request>(asked));
}

}} // namespace cli

int main(int argc, char** argv) {
  // `check` starts this program again for each scenario, and for random programs.
  transcript::child_main(argc, argv);
  conformance::worker_main(argc, argv);
  return cli::main(argc, argv);
}
