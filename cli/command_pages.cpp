// SPDX-License-Identifier: MIT
#include "command_pages.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

namespace cli {

namespace {

/// What an option takes.
enum class Value { none, one_of, file, folder, other };

struct Described {
  std::vector<std::string> names; // "-V", "--version"
  std::string type, description;
  std::vector<std::string> words; // that it takes
  Value value;
};

bool is_shown(const CLI::Option* option) { return !option->get_group().empty() && !option->get_positional(); }

/// The options of a command that its help shows.
std::vector<Described> options_of(const CLI::App& command, const Choices* choices = nullptr) {
  std::vector<Described> all;
  for (const CLI::Option* const option : command.get_options(is_shown)) {
    Described described;
    for (const std::string& name : option->get_snames())
      described.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames())
      described.names.push_back("--" + name);
    const bool is_flag = option->get_items_expected_max() == 0;
    const std::string type = option->get_type_name();
    if (!is_flag) described.type = type.substr(0, type.find(':')); // what follows are the conditions
    described.description = option->get_description();
    if (choices != nullptr) described.words = choices->of(option);
    described.value = is_flag                       ? Value::none
                      : !described.words.empty()    ? Value::one_of
                      : described.type == "FILE"    ? Value::file
                      : described.type == "LIBRARY" ? Value::file
                      : described.type == "FOLDER"  ? Value::folder
                                                    : Value::other;
    if (is_flag) // which may have a word after =
      for (const std::string& word : described.words)
        described.names.push_back(described.names.front() + "=" + word);
    all.push_back(std::move(described));
  }
  return all;
}

/// What the command takes in place of options. Empty if it is not known.
std::vector<std::string> words_of(const CLI::App& command, const Choices& choices) {
  for (const CLI::Option* const option : command.get_options())
    if (option->get_positional()) return choices.of(option);
  return {};
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : between) + word;
  return text;
}

// ---- man ----

/// A line of text, in which nothing is a command of the formatter.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
      continue;
    }
    if (c == '-') escaped += '\\';
    if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) escaped += "\\&";
    escaped += c;
  }
  return escaped;
}

void add_options(std::ostream& page, const CLI::App& command) {
  for (const Described& option : options_of(command)) {
    page << ".TP\n\\fB" << roff(joined(option.names, ", ")) << "\\fR";
    if (!option.type.empty()) page << " \\fI" << roff(option.type) << "\\fR";
    page << '\n' << roff(option.description) << '\n';
  }
}

/// The lines as they are: examples must not be filled.
void add_text(std::ostream& page, const std::string& text) {
  page << ".PP\n.nf\n" << roff(text.substr(std::min(text.find_first_not_of('\n'), text.size()))) << "\n.fi\n";
}

// ---- Shells ----

/// In single quotes.
std::string in_quotes(const std::string& text) {
  std::string all = "'";
  for (const char c : text)
    all += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return all + "'";
}

std::string for_bash(const CLI::App& app, const Choices& choices) {
  std::ostringstream script;
  std::vector<std::string> first;
  for (const CLI::App* const command : subcommands_of(app))
    first.push_back(command->get_name());
  for (const Described& option : options_of(app))
    first.insert(first.end(), option.names.begin(), option.names.end());
  script << "# bash completion of cuevent\n"
            "_cuevent() {\n"
            "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
            "command=${COMP_WORDS[1]} i\n"
            "  COMPREPLY=()\n"
            "  # A = is a word of its own.\n"
            "  if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}=; fi\n"
            "  if [ \"$word\" = = ]; then before+== word=; fi\n"
            "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
            "    COMPREPLY=($(compgen -W "
         << in_quotes(joined(first, " "))
         << " -- \"$word\"))\n"
            "    return\n"
            "  fi\n"
            "  for ((i = 2; i < COMP_CWORD; ++i)); do\n"
            "    if [ \"${COMP_WORDS[i]}\" = -- ]; then # the program and its arguments\n"
            "      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); else\n"
            "        COMPREPLY=($(compgen -c -- \"$word\") $(compgen -f -- \"$word\"))\n"
            "      fi\n"
            "      return\n"
            "    fi\n"
            "  done\n"
            "  case $command in\n";
  for (const CLI::App* const command : subcommands_of(app)) {
    std::vector<std::string> options;
    script << "  " << command->get_name() << ")\n    case $before in\n";
    for (const Described& option : options_of(*command, &choices)) {
      options.insert(options.end(), option.names.begin(), option.names.end());
      const bool has_words = !option.words.empty();
      if (option.value == Value::none && !has_words) continue;
      script << "    " << option.names.front() << "=";
      if (option.value != Value::none) script << " | " << option.names.front();
      script << ") ";
      if (has_words)
        script << "COMPREPLY=($(compgen -W " << in_quotes(joined(option.words, " ")) << " -- \"$word\")); ";
      if (option.value == Value::file) script << "COMPREPLY=($(compgen -f -- \"$word\")); ";
      if (option.value == Value::folder) script << "COMPREPLY=($(compgen -d -- \"$word\")); ";
      script << "return ;;\n";
    }
    if (choices.runs_program(command)) options.emplace_back("--");
    const std::vector<std::string> words = words_of(*command, choices);
    options.insert(options.end(), words.begin(), words.end());
    script << "    esac\n    COMPREPLY=($(compgen -W " << in_quotes(joined(options, " ")) << " -- \"$word\")";
    if (words.empty()) script << " $(compgen -f -- \"$word\")";
    script << ")\n    ;;\n";
  }
  script << "  esac\n}\ncomplete -o filenames -F _cuevent cuevent\n";
  return script.str();
}

std::string for_zsh(const CLI::App& app, const Choices& choices) {
  // An argument of _arguments: brackets end the description, and colons what follows.
  const auto described = [](const Described& option, const std::string& name) {
    std::string text;
    for (const char c : option.description) {
      if (c == '[' || c == ']' || c == ':' || c == '\\') text += '\\';
      text += c;
    }
    text = name + "[" + text + "]";
    const std::string type = option.type.empty() ? "value" : option.type;
    if (option.value == Value::one_of) text += ":" + type + ":(" + joined(option.words, " ") + ")";
    if (option.value == Value::file) text += ":" + type + ":_files";
    if (option.value == Value::folder) text += ":" + type + ":_files -/";
    if (option.value == Value::other) text += ":" + type + ": ";
    return in_quotes(text);
  };
  std::ostringstream script;
  script << "#compdef cuevent\n"
            "_cuevent() {\n"
            "  local -a commands\n"
            "  commands=(\n";
  for (const CLI::App* const command : subcommands_of(app))
    script << "    " << in_quotes(command->get_name() + ":" + command->get_description()) << '\n';
  script << "  )\n"
            "  if (( CURRENT == 2 )); then\n"
            "    _describe -t commands command commands\n"
            "    _arguments";
  for (const Described& option : options_of(app))
    for (const std::string& name : option.names)
      script << " \\\n      " << described(option, name);
  script << "\n    return\n"
            "  fi\n"
            "  local command=$words[2]\n"
            "  shift words\n"
            "  (( CURRENT-- ))\n"
            "  case $command in\n";
  for (const CLI::App* const command : subcommands_of(app)) {
    script << "  " << command->get_name() << ")\n    _arguments";
    for (const Described& option : options_of(*command, &choices))
      for (const std::string& name : option.names)
        script << " \\\n      " << described(option, name);
    const std::vector<std::string> words = words_of(*command, choices);
    if (choices.runs_program(command))
      script << " \\\n      '(-)1:program:_command_names -e' \\\n      '*::argument:_normal'";
    else if (!words.empty())
      script << " \\\n      " << in_quotes("1:word:(" + joined(words, " ") + ")");
    else
      script << " \\\n      '*:file:_files'";
    script << "\n    ;;\n";
  }
  script << "  esac\n}\n_cuevent \"$@\"\n";
  return script.str();
}

std::string for_fish(const CLI::App& app, const Choices& choices) {
  std::ostringstream script;
  const auto add = [&](const Described& option, const std::string& condition) {
    script << "complete -c cuevent -n " << in_quotes(condition);
    for (const std::string& name : option.names) {
      if (name.find('=') != std::string::npos) continue; // a flag with a word: fish has no form for it
      script << (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
    }
    if (option.value == Value::file) script << " -r -F";
    if (option.value == Value::folder) script << " -x -a '(__fish_complete_directories)'";
    if (option.value == Value::one_of) script << " -x -a " << in_quotes(joined(option.words, " "));
    if (option.value == Value::other) script << " -x";
    script << " -d " << in_quotes(option.description) << '\n';
  };
  script << "# fish completion of cuevent\n";
  for (const Described& option : options_of(app))
    add(option, "__fish_use_subcommand");
  for (const CLI::App* const command : subcommands_of(app)) {
    const std::string condition = "__fish_seen_subcommand_from " + command->get_name();
    script << "complete -c cuevent -f -n __fish_use_subcommand -a " << command->get_name() << " -d "
           << in_quotes(command->get_description()) << '\n';
    for (const Described& option : options_of(*command, &choices))
      add(option, condition);
    if (const std::vector<std::string> words = words_of(*command, choices); !words.empty())
      script << "complete -c cuevent -f -n " << in_quotes(condition) << " -a "
             << in_quotes(joined(words, " ")) << '\n';
    if (choices.runs_program(command))
      script << "complete -c cuevent -n " << in_quotes(condition) << " -a '(__fish_complete_subcommand)'\n";
  }
  return script.str();
}

} // namespace

std::string manual_page(const CLI::App& app, const Choices& choices, const std::string& version) {
  std::ostringstream page;
  page << ".TH CUEVENT 1 \"\" \"" << version << "\"\n.SH NAME\ncuevent \\- " << roff(app.get_description())
       << "\n.SH SYNOPSIS\n";
  for (const CLI::App* const command : subcommands_of(app))
    page << ".B cuevent " << roff(command->get_name()) << "\n[\\fIoptions\\fR]"
         << (choices.runs_program(command) ? " [\\-\\-] \\fIprogram\\fR [\\fIargument\\fR ...]" : "")
         << "\n.br\n";
  page << ".SH OPTIONS\n";
  add_options(page, app);
  add_text(page, app.get_footer());
  for (const CLI::App* const command : subcommands_of(app)) {
    std::string name = command->get_name();
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    page << ".SH CUEVENT " << roff(name) << '\n' << roff(command->get_description()) << '\n';
    add_options(page, *command);
    if (!command->get_footer().empty()) add_text(page, command->get_footer());
  }
  return page.str();
}

std::string completions(const CLI::App& app, const Choices& choices, const std::string& shell) {
  if (shell == "zsh") return for_zsh(app, choices);
  return shell == "fish" ? for_fish(app, choices) : for_bash(app, choices);
}

} // namespace cli
