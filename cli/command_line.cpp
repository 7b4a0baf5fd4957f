// SPDX-License-Identifier: MIT
#include "command_line.hpp"

#include "choices.hpp"
#include "command_pages.hpp"
#include "own_version.hpp"
#include "rules/nearest_name.hpp"
#include "rules/rule_pages.hpp"

#include "core/name_text.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <ostream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

namespace {

constexpr const char* about_drivers = R"(
The driver is libcuda.so.1, or the library that CUEVENT_DRIVER names.
Exit codes: 0 success, 1 something failed, 2 wrong usage, 77 no usable driver or device.
An environment variable that begins with CUEVENT_ and is unknown counts as wrong usage.)";

/// The folder of the installation, which may have been moved.
std::string installed_prefix() {
  namespace fs = std::filesystem;
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  return fs::weakly_canonical(here / fs::path(CUEVENT_PREFIX).lexically_relative(CUEVENT_BIN_FOLDER));
}

/// Empty, or what is wrong. Seeds have up to 9 digits.
std::string mistake_in_jitter(const std::string& text) {
  static const std::regex form(
      "[0-9]{1,9}(\\.\\.[0-9]{1,9})?|=([0-9]{1,9}\\.[0-9]{1,9}:[0-9]{1,4}(,|$))*|=wait");
  return std::regex_match(text, form) ? "" : "not a seed such as 7, nor seeds such as 1..20";
}

/// "--json", for each option that the help shows.
std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames())
        names.push_back("--" + name);
  return names;
}

std::vector<std::string> names_of_subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

void explain_unknown_option(const CLI::App& command, const std::string& word, std::ostream& err) {
  const std::string name = command.get_parent() != nullptr ? "cuevent " + command.get_name() : "cuevent";
  err << name << ": there is no option " << word
      << watch::suggestion(word.substr(0, word.find('=')), names_of_options(command)) << ". See `" << name
      << " --help`\n";
}

/// The flag that was meant to get this word, as --order in `--order all`: it takes words only after a =.
std::string flag_with_word(const CLI::App& command, const Choices& choices, const std::string& flag,
                           const std::string& word) {
  const CLI::Option* const option = command.get_option_no_throw(flag);
  const std::string meant = option != nullptr ? watch::meant_by(word, choices.of(option)) : std::string();
  return meant.empty() || option->get_items_expected_max() != 0 ? std::string() : flag + "=" + meant;
}

/// The options of `cuevent sim`. Each sets a variable of the simulator.
class SimCommandLine {
public:
  SimCommandLine(CLI::App& command, Choices& choices) {
    command.footer(R"(
The program needs no change, and the machine needs no GPU. The program finds the simulated libcuda.so.1 in
place of the driver, and so do the programs that it starts. Kernels compute nothing. At the end, the command
says on standard error what was asked for that is not modelled, how many driver calls were made, which kernels
computed nothing, and that no GPU was used. Streams and signals are the program's.

Exit codes: the program's, or the same signal; 2 a wrong option, or a report that cannot be made, and no
program was started; 3 the program has succeeded, and the report could not be written; 126 the program cannot
be run; 127 it is not found.

A call that is not modelled aborts the program. With --unmodelled error it returns CUDA_ERROR_NOT_SUPPORTED,
so the other tests of a suite still run. With --unmodelled missing, cuGetProcAddress does not find functions
that are not modelled.

A program that loads libcudart, libcublas or libcublasLt gets stand-ins, so PyTorch runs, without values. A
runtime that is linked statically does not run, so libraries such as cuDNN are refused.
Each option sets a variable that begins with CUEVENT_SIM_. What has no option is as the variable says.

Examples:
  cuevent sim -- ctest
  cuevent sim --unmodelled error --report unmodelled.txt -- pytest tests
  cuevent sim --devices 2 --driver 12.4 -- ./program
  cuevent sim --order random --seed 7 -- ./program)");
    command.prefix_command();
    choices.run_program(&command);
    add(command, "--devices", "DEVICES", "The number of devices, 1 to 8", "N")->check(CLI::Range(1, 8));
    command.add_option("--driver", driver_, "The version of the driver, as 12.4")
        ->type_name("VERSION")
        ->check(mistake_in_version);
    CLI::Option* const order = command.add_option(
        "--order", order_, "random: operations that nothing orders run in a random order, and late");
    choices.limit(order, {"submission", "random"});
    add(command, "--seed", "RANDOM_ORDER", "The seed of the random order, 1 if not given", "N")
        ->check(mistake_in_seed)
        ->needs(order);
    choices.limit(add(command, "--mode", "MODE", "running: work takes wall time; stepped: virtual time"),
                  {"running", "stepped"});
    choices.limit(add(command, "--unmodelled", "UNMODELLED", "What a call does that is not modelled"),
                  {"abort", "error", "missing"});
    add(command, "--kernels", "KERNEL_US", "How long kernels run, as work=500,*=20", "NAME=MICROSECONDS,...");
    add(command, "--holds", "HOLD_US", "How long streams are held, as 1=500,*=20", "STREAM=MICROSECONDS,...");
    add(command, "--patience", "PATIENCE_MS", "Time without progress until the program aborts",
        "MILLISECONDS")
        ->check(CLI::Range(0, std::numeric_limits<int>::max()));
    add(command, "--faulty-kernel", "FAULTY_KERNEL", "A kernel that ends with an error", "NAME");
    add(command, "--endless-kernel", "ENDLESS_KERNEL", "A kernel that never ends", "NAME");
    command.add_option("--report", options_.report, "Also write what is said at the end to a file, in full")
        ->type_name("FILE");
    command.add_flag("--verbose", options_.verbose, "Say in full at the end which kernels computed nothing");
  }

  std::variant<Request, ExitCode> read(std::vector<std::string> program, std::ostream& err) {
    options_.program = std::move(program);
    for (const auto& [variable, value] : values_)
      if (!value.empty()) options_.variables.emplace_back("CUEVENT_SIM_" + variable, value);
    if (const auto dot = driver_.find('.'); dot != std::string::npos) {
      const int version = std::stoi(driver_.substr(0, dot)) * 1000 + std::stoi(driver_.substr(dot + 1)) * 10;
      options_.variables.emplace_back("CUEVENT_SIM_DRIVER_VERSION", std::to_string(version));
    }
    std::string& seed = values_["RANDOM_ORDER"];
    if (order_ == "submission" && !seed.empty()) {
      err << "cuevent sim: --seed needs --order random\n";
      return usage;
    }
    if (order_ == "random" && seed.empty()) options_.variables.emplace_back("CUEVENT_SIM_RANDOM_ORDER", "1");
    if (order_ == "submission") options_.variables.emplace_back("CUEVENT_SIM_RANDOM_ORDER", "");
    if (!options_.program.empty()) return options_;
    err << "cuevent sim: name the program, as in `cuevent sim -- pytest tests`. See `cuevent sim --help`\n";
    return usage;
  }

private:
  CLI::Option* add(CLI::App& command, const char* option, const char* variable, const char* description,
                   const char* type = nullptr) {
    CLI::Option* const added = command.add_option(option, values_[variable], description);
    if (type != nullptr) added->type_name(type);
    return added;
  }
  static std::string mistake_in_version(const std::string& text) {
    static const std::regex form("[0-9]{1,2}\\.[0-9]");
    return std::regex_match(text, form) ? "" : "not a version such as 12.4";
  }
  static std::string mistake_in_seed(const std::string& text) {
    static const std::regex form("[0-9]{1,19}");
    return std::regex_match(text, form) ? "" : "not a seed such as 7";
  }

  SimOptions options_;
  std::map<std::string, std::string> values_; // by the end of the variable's name
  std::string driver_, order_;
};

} // namespace

static std::variant<Request, ExitCode> read_words(int argc, const char* const* argv, std::ostream& out,
                                                  std::ostream& err) {
  CLI::App app("Show how events of the CUDA driver API behave on this machine.", "cuevent");
  Choices choices;
  const std::string version = "cuevent " + own_version();
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", version);
  app.add_flag_callback(
      "--prefix", [] { throw CLI::CallForVersion(installed_prefix(), 0); },
      "Print the folder of the installation, for CMAKE_PREFIX_PATH, and exit");
  app.footer(about_drivers);

  bool json = false;
  const auto add = [&](const char* name, const char* description, const char* details) {
    CLI::App* const command = app.add_subcommand(name, description);
    command->add_flag("--json", json, "Print JSON instead of text");
    command->footer(std::string(details) + "\n" + about_drivers);
    return command;
  };

  CLI::App* const info_command =
      add("info", "Print the driver's file and version, its devices and its optional functions", R"(
If there is no usable driver, the command prints the reason and exits with 77.

Examples:
  cuevent info
  cuevent info --json | jq -r .driver.version
  CUEVENT_DRIVER=/opt/driver/libcuda.so.1 cuevent info)");

  CLI::App* const check_command =
      add("check",
          "Ask the driver thousands of questions and print every answer that differs from the recording", R"(
The answers were recorded on an NVIDIA H200 with a driver for CUDA 13.0. A difference is not necessarily an
error. It shows where code written for one driver may fail with the other. If there is a difference, the exit
code is 1. The scenarios run in other processes, some of which crash on purpose. A scenario that answers
differently runs once more, in a process of its own, and what that process said is printed. A terminal shows
the progress.

For the simulated driver, the command sets CUEVENT_SIM_DEVICES and CUEVENT_SIM_FAULTY_KERNEL to what the
scenarios need, unless you have set them. Known differences, of the simulated driver and of devices, are
counted, but do not change the exit code.

With --random, the command runs random programs of 60 driver calls, one for each seed, and compares their
answers with the recording. Each difference is printed with its program. With --reference, it compares two
drivers, and shortens each program to the calls that the difference needs.

Examples:
  cuevent check
  cuevent check --random 2000 --jobs 4
  CUEVENT_DRIVER=build/sim/libcuda.so.1 cuevent check --random 5001-5500 --reference libcuda.so.1
  cuevent check --only capture.
  cuevent check --json | jq '.differences[].name')");
  CheckOptions check_options;
  check_command
      ->add_option("--only", check_options.only, "Run only the scenarios whose names start with PREFIX")
      ->type_name("PREFIX");
  check_command->add_flag("--explained", check_options.explained,
                          "List the known differences too, with their reasons");

  RandomOptions random_options;
  CLI::Option* const random = check_command->add_option("--random", random_options.seeds,
                                                        "Run the programs of these seeds: N for 1-N, or A-B");
  random->type_name("SEEDS");
  check_command->add_option("--jobs", random_options.jobs, "The number of programs to run at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 256))
      ->needs(random);
  check_command->add_option("--record", random_options.record, "Write the answers of this driver to a file")
      ->type_name("FILE")
      ->needs(random);
  check_command
      ->add_option("--reference", random_options.reference,
                   "Compare with the answers of this driver instead of the recording")
      ->type_name("LIBRARY")
      ->needs(random);

  CLI::App* const merge_command =
      add("merge", "Merge the reports of the ranks of a job; print a table, write a trace and a picture", R"(
Each rank of a job writes a report with cuevent::RankReport. The trace has a process for each rank and a track
for each stream: open it in https://ui.perfetto.dev. For each stage, the table tells how long the ranks take,
which rank is the slowest, and which rank ends last most often. The picture shows where a rank was latest.

The clocks of different hosts are aligned with the clock samples in the reports, and the output says how
precisely. Ranks that died or have no report are listed. If a report is damaged, the command prints the file
and the line, merges the lines before it and all other reports, and exits with 1. It needs no driver.

If the files are reports of a hang, which `cuevent watch --reports` writes, or if a folder has files
hang-*.json, the output says for which rank the others wait. There is no trace then.

Examples:
  cuevent merge rank*.json
  cuevent merge reports --out job.json --svg ''
  cuevent merge rank*.json --json | jq '.stages[] | {name, straggler}')");
  MergeOptions merge_options;
  merge_command
      ->add_option("FILES", merge_options.files,
                   "The reports, one for each rank, or a folder with files rank*.json")
      ->required();
  const CLI::Option* const out_file =
      merge_command->add_option("--out", merge_options.trace_file, "Trace file; '' for none")
          ->capture_default_str()
          ->type_name("FILE");
  const CLI::Option* const svg_file =
      merge_command->add_option("--svg", merge_options.svg_file, "Picture file; '' for none")
          ->capture_default_str()
          ->type_name("FILE");

  CLI::App* const watch_command = app.add_subcommand(
      "watch", "Run a program and report what it does wrong with events, streams and captures");
  watch_command->footer(R"(
The program needs no change: C++ or Python, on the driver or the runtime API. Findings go to standard error as
they happen, each with its stack, what the driver does in that case, and how to fix it. The last line says how
many processes and calls were watched, and which processes could not be.

Exit codes: the program's, or the same signal; 1 findings, with --fail; 2 a wrong option, or a file that
cannot be used, and no program was started; 3 the program has succeeded, and the file of --json could not be
written; 126 the program cannot be run or watched; 127 it is not found. Signals to the command reach the
program.

The loader of glibc puts an auditing library into the program (LD_AUDIT). So programs that are linked
statically or run with the rights of another user cannot be watched.

With --hang, a report says where each stream is stuck, what it waits for, and which calls threads are in. It
is printed when nothing has moved for that long, when the command gets SIGUSR1, and at Ctrl-C if work has been
pending for a second. The auditing library then records events of its own on the program's streams.

With --jitter, streams are held back for up to 2 ms, so that a missing wait shows. The program must give the
same result. With --check, the command compares the results and names the calls. With --order=all too, it
first holds one call of each possible finding, and of each pair of kernels that get a pointer to the same
memory, the likeliest first. If that alone changes the result, the finding is certain.
With --jitter =wait, nothing is held: the host waits after each submission until its stream is done.

A file of suppressions has lines "RULE PATTERN". The pattern is compared with the functions, source files,
lines (train.cpp:12), libraries and Python frames of the stack. RULE may be *. --suppressions-out writes such
lines for what is found.

--format github writes findings as annotations of a pull request, sarif as code scanning reads them. Without
--json, they go to standard error at the end, in place of the text.

Examples:
  cuevent watch -- python3 train.py
  cuevent watch --fail --json findings.json -- ./server --port 8080
  cuevent watch --suppressions-out known.txt -- ./server
  cuevent watch --suppressions known.txt -- ./server
  cuevent watch --fail --format sarif --json findings.sarif -- ./tests
  cuevent watch --hang 30 -- python3 train.py
  cuevent watch --hang 30 --reports reports -- torchrun --nproc_per_node 8 train.py
  cuevent watch --ask reports # on each node of the job; then: cuevent merge reports
  cuevent watch --cost --leaks -- ./server
  cuevent watch --jitter 1..20 --check md5sum -- ./simulation
  cuevent watch --order -- ./server
  cuevent watch --order=host -- ./server
  cuevent watch --order=all --jitter 1..10 --check md5sum -- ./simulation
  cuevent watch --explain capture-invalidated
  cuevent watch --attach /dev/shm/job & # prints the variables with which a scheduler starts programs)");
  WatchOptions watch_options;
  watch_command->prefix_command();
  choices.run_program(watch_command);
  watch_command->add_option("--json", watch_options.json_file, "Write the findings to a file")
      ->type_name("FILE");
  CLI::Option* const format = choices.limit(
      watch_command->add_option("--format", watch_options.format,
                                "How findings are written, to the file of --json or else to standard error"),
      {"text", "json", "sarif", "github"});
  format->type_name("FORMAT");
  watch_command
      ->add_option("--suppressions-out", watch_options.suppressions_out,
                   "Write the lines that would leave out what is found")
      ->type_name("FILE");
  choices
      .limit(watch_command->add_option("--color", watch_options.color,
                                       "auto: colours at a terminal, unless NO_COLOR is set"),
             {"auto", "always", "never"})
      ->type_name("WHEN")
      ->capture_default_str();
  watch_command->add_flag("--fail", watch_options.fail, "Exit with 1 if there are findings");
  watch_command
      ->add_option("--suppressions", watch_options.suppressions, "Leave out the findings that a file lists")
      ->type_name("FILE")
      ->allow_extra_args(false);
  choices
      .limit(watch_command->add_option("--stacks", watch_options.stacks,
                                       "Which calls have stacks: all; usual: not kernels and copies; none"),
             {"all", "usual", "none"})
      ->capture_default_str();
  watch_command
      ->add_option("--hang", watch_options.hang,
                   "After this time without progress, and on SIGUSR1, report why nothing moves")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 1'000'000));
  watch_command
      ->add_option("--reports", watch_options.reports,
                   "Write the report of each process to a file in a folder, for `cuevent merge`")
      ->type_name("FOLDER")
      ->envname("CUEVENT_REPORTS");
  watch_command->add_flag("--cost", watch_options.cost, "At the end, also report what the program wastes");
  watch_command->add_flag("--leaks", watch_options.leaks,
                          "At the end, also report what the program never destroys");
  watch_command->add_flag("--vendor", watch_options.vendor,
                          "Also report what cuBLAS, NCCL and other libraries of CUDA do wrong by themselves");
  CLI::Option* const jitter =
      watch_command->add_option("--jitter", watch_options.jitter,
                                "Hold streams back, by a seed: 7, or with --check several seeds: 1..20");
  jitter->type_name("SEED")->check(mistake_in_jitter);
  CLI::Option* const check = watch_command->add_option(
      "--check", watch_options.check,
      "Run the program without jitter and with each seed, and compare what this command makes of its output");
  check->type_name("COMMAND")->needs(jitter);
  for (const char* const other : {"--fail", "--suppressions", "--stacks", "--hang", "--cost", "--leaks",
                                  "--format", "--suppressions-out"})
    check->excludes(watch_command->get_option(other)); // the findings are not what is compared
  watch_command
      ->add_option("--limit", watch_options.limit,
                   "How long --check may try possible findings and candidates of --order=all")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000))
      ->needs(check);
  choices.limit(
      watch_command->add_flag("--order{certain}", watch_options.order,
                              "Also report memory that two streams use without an order; "
                              "--order=all: also what is possible; --order=host: also what the host "
                              "reads or writes before a copy is done"),
      {"certain", "all", "host", "all,host"});
  CLI::Option* const attach = watch_command->add_option(
      "--attach", watch_options.attach, "Watch programs that others start, through this folder");
  attach->type_name("FOLDER")->excludes(jitter);
  watch_command
      ->add_option("--ask", watch_options.ask,
                   "Let all processes of this host that report to a folder write their reports")
      ->type_name("FOLDER")
      ->excludes(attach);
  std::vector<std::string> rules = watch::rule_names();
  rules.emplace_back("all");
  choices.suggest(
      watch_command
          ->add_option("--explain", watch_options.explain, "Print what a rule means; all: list the rules")
          ->type_name("RULE")
          ->excludes(attach),
      std::move(rules));

  watch_command
      ->add_option("--report", watch_options.report,
                   "Print what a process that runs with CUEVENT_WATCH=quiet is doing")
      ->type_name("FILE")
      ->group("") // the auditing library uses it
      ->excludes(attach);

  CLI::App* const sim_command =
      app.add_subcommand("sim", "Run a program on simulated devices, without a GPU");
  SimCommandLine sim(*sim_command, choices);

  std::string helped, shell;
  CLI::App* const help_command = app.add_subcommand("help", "Print the help of a subcommand");
  CLI::Option* const helped_option = help_command->add_option("SUBCOMMAND", helped, "Its name");
  CLI::App* const man_command =
      app.add_subcommand("man", "Print the manual page, as in `cuevent man | man -l -`");
  CLI::App* const completion_command = app.add_subcommand(
      "completion", "Print the completions of a shell, as in `source <(cuevent completion bash)`");
  choices.limit(completion_command->add_option("SHELL", shell, "Its name")->required(),
                {"bash", "zsh", "fish"});
  choices.limit(helped_option, names_of_subcommands(app));

  // CLI11 gives what follows -- to the command instead of the subcommand.
  int own = argc;
  if (argc > 1 && (std::string_view(argv[1]) == "watch" || std::string_view(argv[1]) == "sim"))
    own = static_cast<int>(std::find(argv, argv + argc, std::string_view("--")) - argv);

  try {
    app.parse(own, argv);
  } catch (const CLI::RequiredError& error) {
    const auto words = app.remaining();
    if (!words.empty() && words.front().starts_with('-')) {
      explain_unknown_option(app, words.front(), err);
      return usage;
    }
    if (!words.empty())
      err << "cuevent: there is no subcommand " << words.front()
          << watch::suggestion(words.front(), names_of_subcommands(app)) << '\n';
    app.exit(error, out, err);
    return usage;
  } catch (const CLI::ExtrasError& error) {
    for (const CLI::App* const command : app.get_subcommands())
      if (const auto words = command->remaining(); !words.empty() && words.front().starts_with('-')) {
        explain_unknown_option(*command, words.front(), err);
        return usage;
      }
    app.exit(error, out, err);
    return usage;
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? success : usage;
  }
  if (help_command->parsed()) {
    const char* const words[] = {"cuevent", helped.empty() ? "--help" : helped.c_str(), "--help"};
    return read_words(helped.empty() ? 2 : 3, words, out, err);
  }
  if (man_command->parsed() || completion_command->parsed()) {
    out << (man_command->parsed() ? manual_page(app, choices, version) : completions(app, choices, shell));
    return success;
  }
  for (const CLI::App* const command : {watch_command, sim_command}) {
    const auto words = command->remaining();
    if (words.empty()) continue;
    if (words.front().starts_with('-')) {
      explain_unknown_option(*command, words.front(), err);
      return usage;
    }
    const std::string before = argv[own - static_cast<int>(words.size()) - 1];
    if (const std::string meant = flag_with_word(*command, choices, before, words.front()); !meant.empty()) {
      err << "cuevent " << command->get_name() << ": " << words.front()
          << " would be the program. Did you mean " << meant << "?\n";
      return usage;
    }
  }
  if (sim_command->parsed()) {
    std::vector<std::string> program = sim_command->remaining();
    if (own < argc) program.insert(program.end(), argv + own + (program.empty() ? 1 : 0), argv + argc);
    return sim.read(std::move(program), err);
  }
  if (watch_command->parsed()) {
    watch_options.program = watch_command->remaining();
    const bool is_run_once = watch_options.check.empty();
    if (watch_options.jitter.find(is_run_once ? ".." : "=") != std::string::npos) {
      err << "cuevent watch: --jitter with several seeds needs --check, and with a list of holds has none\n";
      return usage;
    }
    const bool proves = watch_options.order == "all"; // what is only possible
    if (!is_run_once && !proves && (!watch_options.order.empty() || !watch_options.json_file.empty())) {
      err << "cuevent watch: --check takes no --order but --order=all, and --json only with it\n";
      return usage;
    }
    const bool is_the_programs = !watch_options.program.empty(); // the -- after its name
    if (own < argc)
      watch_options.program.insert(watch_options.program.end(), argv + own + (is_the_programs ? 0 : 1),
                                   argv + argc);
    const int ways = !watch_options.program.empty() + !watch_options.attach.empty() +
                     !watch_options.explain.empty() + !watch_options.report.empty() +
                     !watch_options.ask.empty();
    // The variable may be that of a `cuevent watch` around this one.
    const char* const inherited = std::getenv("CUEVENT_REPORTS");
    const bool is_inherited = inherited != nullptr && watch_options.reports == inherited;
    const bool looks = watch_options.hang > 0 || !watch_options.report.empty() || !watch_options.ask.empty();
    if (!looks && is_inherited) watch_options.reports.clear();
    if (!looks && !watch_options.reports.empty()) {
      err << "cuevent watch: --reports needs --hang SECONDS: without it, nobody looks how far the streams "
             "are\n";
      return usage;
    }
    if (ways == 1) return watch_options;
    err << "cuevent watch: name one program, or use --attach, --ask or --explain. See `cuevent watch "
           "--help`\n";
    return usage;
  }
  if (info_command->parsed()) return InfoOptions{json};
  if (!random_options.seeds.empty()) {
    random_options.json = json;
    return random_options;
  }
  if (check_command->parsed()) {
    check_options.json = json;
    return check_options;
  }
  merge_options.json = json;
  if (out_file->count() > 0) merge_options.trace_links = watch::Links::follow;
  if (svg_file->count() > 0) merge_options.svg_links = watch::Links::follow;
  return merge_options;
}

std::variant<Request, ExitCode> read_command_line(int argc, const char* const* argv, std::ostream& out,
                                                  std::ostream& err) {
  std::ostringstream errors; // which repeat what somebody may have pasted
  auto read = read_words(argc, argv, out, errors);
  err << cuevent::printable_lines(errors.str());
  return read;
}

} // namespace cli
