// SPDX-License-Identifier: MIT
// The command `cuevent`.

#include "check.hpp"
#include "info.hpp"
#include "trace.hpp"

#include "transcript.hpp"

#include <cuevent/error.hpp>
#include <cuevent/version.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

namespace cli {

namespace {

constexpr const char* about_drivers = R"(
The driver is libcuda.so.1, or the library that CUEVENT_DRIVER names.
Exit codes: 0 all is well, 1 something failed, 2 wrong usage, 77 no usable driver or device, 130 `trace` was
interrupted.)";

ExitCode run(const std::function<ExitCode()>& command) {
  try {
    const ExitCode code = command();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fprintf(stderr, "cuevent: standard output: %s\n", std::strerror(errno));
  } catch (const cuevent::DriverUnavailable& error) {
    std::fprintf(stderr, "cuevent: %s\n", error.what());
    return no_driver;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuevent: %s\n", error.what());
  }
  return failure;
}

int main(int argc, char** argv) {
  CLI::App app("What the events of the CUDA driver API do on this machine.", "cuevent");
  app.require_subcommand(1);
  app.set_version_flag("--version", "cuevent " + std::to_string(CUEVENT_VERSION_MAJOR) + "." +
                                        std::to_string(CUEVENT_VERSION_MINOR) + "." +
                                        std::to_string(CUEVENT_VERSION_PATCH));
  app.footer(about_drivers);

  bool json = false;
  const auto add = [&](const char* name, const char* description, const char* details) {
    CLI::App* const command = app.add_subcommand(name, description);
    command->add_flag("--json", json, "Print JSON instead of text");
    command->footer(std::string(details) + about_drivers);
    return command;
  };

  CLI::App* const info_command =
      add("info", "Print the driver's file and version, its devices, and which optional functions it has", R"(
Without a driver it prints why there is none, and exits with 77.

Examples:
  cuevent info
  cuevent info --json | jq -r .driver.version
  CUEVENT_DRIVER=/opt/driver/libcuda.so.1 cuevent info)");

  CLI::App* const check_command =
      add("check",
          "Ask the driver some 3,600 questions and print every answer that differs from the recording", R"(
The answers were recorded on an NVIDIA H200 with the driver of CUDA 13.0. A difference need not be a fault:
it tells what code that was written against one driver cannot count on with the other. Exits with 1 if there
is any. Each scenario runs in a process of its own, some of which are meant to crash.

On the simulated driver it sets CUEVENT_SIM_DEVICES and CUEVENT_SIM_FAULTY_KERNEL as the scenarios need them,
unless they are set. The differences that driver is known to have are counted, and do not change the exit code.

Examples:
  cuevent check
  cuevent check --only capture.
  cuevent check --json | jq '.differences[].name')");
  CheckOptions check_options;
  check_command
      ->add_option("--only", check_options.only, "Run only the scenarios whose names start with this")
      ->type_name("PREFIX");
  check_command->add_flag("--explained", check_options.explained,
                          "Also list the known differences of the simulated driver, with their reasons");

  CLI::App* const trace_command =
      add("trace", "Time a training loop stage by stage, print a table, write a trace and a picture", R"(
The loop copies a batch in, and runs forward, backward and optimizer kernels on the one before, over two
streams of device 0. The trace is in the Chrome trace-event format: open it in https://ui.perfetto.dev. A
file that cannot be written is an error, but the table is printed and the other file written all the same.

The table is of all steps; the trace and the picture are of the last ones (--trace-steps). Ctrl-C ends the loop: the steps that were run are
written as usual, and the exit code is 130. A second Ctrl-C ends the command at once. With a file named -,
the table goes to standard error.

On the simulated driver the times are modelled, on its stepped clock, and all outputs say so.

Examples:
  cuevent trace
  cuevent trace --out - --svg '' | gzip > trace.json.gz
  cuevent trace --steps 1000 --out loop.json --svg ''
  cuevent trace --json | jq '.stages[] | {name, p99_us}')");
  TraceOptions trace_options;
  trace_command->add_option("--steps", trace_options.steps, "Iterations of the loop")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  trace_command->add_option("--trace-steps", trace_options.trace_steps, "The last steps, which the trace has")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  trace_command
      ->add_option("--out", trace_options.trace_file, "The trace; '' writes none, - to standard output")
      ->capture_default_str()
      ->type_name("FILE");
  trace_command
      ->add_option("--svg", trace_options.svg_file,
                   "The timeline of the first steps in the trace; '' draws none, - to standard output")
      ->capture_default_str()
      ->type_name("FILE");

  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    if (const auto unknown = app.remaining(); !unknown.empty())
      std::fprintf(stderr, "cuevent: there is no subcommand %s\n", unknown.front().c_str());
    app.exit(error);
    return usage;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? success : usage;
  }
  return run([&] {
    if (info_command->parsed()) return info(json);
    if (check_command->parsed()) {
      check_options.json = json;
      return check(check_options);
    }
    trace_options.json = json;
    return trace(trace_options);
  });
}

} // namespace

} // namespace cli

int main(int argc, char** argv) {
  transcript::child_main(argc, argv); // `check` starts this program again for each scenario
  return cli::main(argc, argv);
}
