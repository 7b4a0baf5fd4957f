// SPDX-License-Identifier: MIT
// Settings of core dumps, of a context and of the whole process.

#include "everywhere.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>

namespace transcript {
namespace {

#if CUDA_VERSION >= 12010
constexpr int on_exception = 1, with_host = 2, lightweight = 3, by_pipe = 4, file = 5, pipe_name = 6,
              flags = 7;

using Call = CUresult(CUDAAPI*)(CUcoredumpSettings, void*, std::size_t*);
struct Form {
  const char* name;
  Call get, set;
};

// The value as a number or as text. Room for two names, because a driver writes more than it is told.
std::string value_of(Lab& lab, Call get, int setting) {
  char value[4096] = {};
  std::size_t size = setting == file || setting == pipe_name ? 1024 : setting == flags ? 4 : 1;
  const CUresult result = get(number<CUcoredumpSettings>(setting), value, &size);
  if (result != CUDA_SUCCESS) return lab.name_of(result);
  if (setting == pipe_name) return value[0] == '\0' ? "no name" : "a name";
  if (setting == file) return "'" + std::string(value) + "'";
  unsigned shown = 0;
  std::memcpy(&shown, value, size);
  return std::to_string(shown);
}

void sizes(Lab& lab, const Form& form, int setting) {
  const std::string name = std::string(form.name) + ".setting_" + std::to_string(setting);
  std::size_t size = 77;
  lab.is(name + ".size", form.get(number<CUcoredumpSettings>(setting), nullptr, &size));
  lab.shows(name + ".size.bytes", size);
  lab.is(name + ".no_size", form.get(number<CUcoredumpSettings>(setting), &size, nullptr));
  if (setting == file || setting == pipe_name) return; // a driver writes beyond the end of small rooms
  for (const std::size_t room :
       {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
    char value[64] = {};
    size = room;
    lab.is(name + ".room_" + std::to_string(room),
           form.get(number<CUcoredumpSettings>(setting), value, &size));
    size = room;
    value[0] = 1;
    lab.is(name + ".set_" + std::to_string(room),
           form.set(number<CUcoredumpSettings>(setting), value, &size));
  }
}

// The settings in an order in which no setting has changed a later one.
void get_and_set(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CoredumpGetAttribute == nullptr) return;
  for (const Form& form : {Form{"context", cu.CoredumpGetAttribute, cu.CoredumpSetAttribute},
                           {"process", cu.CoredumpGetAttributeGlobal, cu.CoredumpSetAttributeGlobal}}) {
    for (int setting = 0; setting <= 8; ++setting)
      lab.shows(std::string(form.name) + ".first_" + std::to_string(setting),
                value_of(lab, form.get, setting));
    for (const int setting : {0, on_exception, with_host, flags, file, 8, 9})
      sizes(lab, form, setting);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{64}}) {
      char name[64] = "a_file";
      std::size_t given = size;
      const std::string question = std::string(form.name) + ".file_" + std::to_string(size);
      lab.is(question, form.set(number<CUcoredumpSettings>(file), name, &given));
      lab.shows(question + ".then", value_of(lab, form.get, file));
    }
    std::size_t size = 1;
    lab.is(std::string(form.name) + ".null",
           form.set(number<CUcoredumpSettings>(on_exception), nullptr, &size));
    lab.shows(std::string(form.name) + ".null.size", size);
  }
  const Current nowhere(lab, nullptr);
  std::size_t size = 1;
  char value = 0;
  lab.is("no_context.get", cu.CoredumpGetAttribute(number<CUcoredumpSettings>(1), &value, &size));
  lab.is("no_context.set", cu.CoredumpSetAttribute(number<CUcoredumpSettings>(1), &value, &size));
  lab.is("no_context.unknown", cu.CoredumpGetAttribute(number<CUcoredumpSettings>(99), &value, &size));
  lab.is("no_context.process", cu.CoredumpGetAttributeGlobal(number<CUcoredumpSettings>(1), &value, &size));
}

// A device makes its pipe in the current folder. This one is removed with all that is in it.
class FolderForPipes {
public:
  explicit FolderForPipes(const Lab& lab) : before_(std::filesystem::current_path()) {
    std::string made = (std::filesystem::temp_directory_path() / "transcript-XXXXXX").string();
    lab.must(mkdtemp(made.data()) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM, "mkdtemp");
    folder_ = made;
    std::filesystem::current_path(folder_);
  }
  ~FolderForPipes() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
    std::filesystem::remove_all(folder_, ignored);
  }
  FolderForPipes(const FolderForPipes&) = delete;
  FolderForPipes& operator=(const FolderForPipes&) = delete;

private:
  std::filesystem::path before_, folder_;
};

// What a setting changes: other settings, other contexts, and the settings of the process.
void then(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CoredumpGetAttribute == nullptr) return;
  const FolderForPipes folder(lab);
  const auto all = [&](const std::string& name) {
    for (int setting = on_exception; setting <= flags; ++setting) {
      const std::string number = std::to_string(setting);
      lab.shows(std::string(name).append(".context_").append(number),
                value_of(lab, cu.CoredumpGetAttribute, setting));
      lab.shows(std::string(name).append(".process_").append(number),
                value_of(lab, cu.CoredumpGetAttributeGlobal, setting));
    }
  };
  const auto change = [&](const std::string& name, Call set, int setting, unsigned value) {
    std::size_t size = setting == flags ? 4 : 1;
    lab.is(name, set(number<CUcoredumpSettings>(setting), &value, &size));
    all(name + ".then");
  };
  for (const unsigned value : {0u, 1u, 2u})
    for (const int setting : {on_exception, with_host, lightweight})
      change("context.set_" + std::to_string(setting) + "_to_" + std::to_string(value),
             cu.CoredumpSetAttribute, setting, value);
  for (const unsigned value : {0u, 0x2fu, 0x10u, 0x3fu})
    change("context.flags_" + std::to_string(value), cu.CoredumpSetAttribute, flags, value);
  for (const unsigned value : {1u, 0u})
    for (const int setting : {on_exception, with_host, lightweight})
      change("process.set_" + std::to_string(setting) + "_to_" + std::to_string(value),
             cu.CoredumpSetAttributeGlobal, setting, value);
  char name[64] = "of_the_process";
  std::size_t size = sizeof name;
  lab.is("process.file", cu.CoredumpSetAttributeGlobal(number<CUcoredumpSettings>(file), name, &size));
  all("process.file.then");
  {
    const Current other(lab, lab.second_context());
    all("second_context");
  }
  std::strcpy(name, "a_pipe");
  lab.is("process.pipe", cu.CoredumpSetAttributeGlobal(number<CUcoredumpSettings>(pipe_name), name, &size));
  change("process.by_pipe", cu.CoredumpSetAttributeGlobal, by_pipe, 1);
  lab.is("process.pipe.again",
         cu.CoredumpSetAttributeGlobal(number<CUcoredumpSettings>(pipe_name), name, &size));
}

// Flags that leave out a part of what lightweight dumps leave out, and how a pipe gets its name.
void more(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CoredumpGetAttribute == nullptr) return;
  const FolderForPipes folder(lab);
  const auto pipe = [&](const std::string& question) {
    char found[4096] = {};
    std::size_t room = 1024;
    lab.is(question, cu.CoredumpGetAttributeGlobal(number<CUcoredumpSettings>(pipe_name), found, &room));
    const std::string text = found;
    lab.shows(question + ".name",
              text.find(std::to_string(getpid())) != std::string::npos ? "of the process" : "'" + text + "'");
  };
  char name[64] = "a_pipe";
  std::size_t size = sizeof name;
  lab.is("pipe", cu.CoredumpSetAttributeGlobal(number<CUcoredumpSettings>(pipe_name), name, &size));
  pipe("pipe.then");
  for (unsigned value : {2u, 1u, 0u}) {
    size = 1;
    const std::string question = "by_pipe_" + std::to_string(value);
    lab.is(question, cu.CoredumpSetAttributeGlobal(number<CUcoredumpSettings>(by_pipe), &value, &size));
    for (const int setting : {on_exception, by_pipe})
      lab.shows(question + ".then_" + std::to_string(setting),
                value_of(lab, cu.CoredumpGetAttributeGlobal, setting));
    pipe(question + ".pipe");
  }
  for (unsigned value : {0x1u, 0x2eu, 0x40u, 0x80000000u}) {
    size = sizeof value;
    const std::string question = "flags_" + std::to_string(value);
    lab.is(question, cu.CoredumpSetAttribute(number<CUcoredumpSettings>(flags), &value, &size));
    for (const int setting : {flags, with_host, lightweight})
      lab.shows(question + ".then_" + std::to_string(setting),
                value_of(lab, cu.CoredumpGetAttribute, setting));
  }
}
#else
void get_and_set(Lab&) {}
void then(Lab&) {}
void more(Lab&) {}
#endif

} // namespace

std::vector<Scenario> core_dumps_scenarios() {
  return {{"core_dumps.get_and_set", get_and_set, Place::alone},
          {"core_dumps.then", then, Place::alone},
          {"core_dumps.more", more, Place::alone}};
}

} // namespace transcript
