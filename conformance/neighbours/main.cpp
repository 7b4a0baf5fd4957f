// SPDX-License-Identifier: MIT
// neighbours [--driver=LIBRARY] [--only=PREFIX] [--pairs=SEED:COUNT] [--jobs=N] [--seconds=N]
//            [--given=FILE] [--except=FILE] [--list]
//
// Asks a driver about calls that differ in one argument, or in two, from a valid call. Prints one answer per
// line. Asks the questions of a file that is given: of `neighbours --list`, or with answers. Leaves out the
// questions of a file that is excepted. A choice that ended a process alone is not part of a pair, unless the
// questions are given.
#include "question.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <set>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace neighbours;

namespace {

struct Options {
  std::string driver = "libcuda.so.1";
  std::string only;
  std::string given;
  std::string except;
  bool list = false;
  bool pairs = false;
  std::uint64_t seed = 1;
  std::size_t count = 2000;
  std::size_t jobs = 4;
  int seconds = 150; // after which no further question is asked
};

constexpr int question_seconds = 15; // a context takes seconds while other processes make theirs

// Functions whose settings would change later answers. The others share a process, because a device
// takes half a second to start one.
bool changes_its_process(const std::string& symbol) {
  for (const char* part :
       {"cuDevicePrimaryCtx", "cuCtxSetLimit", "cuCtxSetCacheConfig", "SetMemPool", "cuFuncSet",
        "cuKernelSet", "cuProfiler", "cuCtxDetach", "cuCtxEnablePeerAccess", "cuCoredumpSet"})
    if (symbol.find(part) != std::string::npos) return true;
  return false;
}

// The calls that ended their process.
class Endings {
public:
  void add(const Subject& subject, const Question& question) { names_.insert(name_of(subject, question)); }
  // Whether the question is a pair, and one of its choices alone ended the process.
  bool has_part_of(const Subject& subject, const Question& question) const {
    if (names_.empty()) return false;
    bool ended = false;
    int differing = 0;
    for (std::size_t i = 0; i < question.chosen.size(); ++i) {
      if (question.chosen[i] == question.valid[i]) continue;
      ++differing;
      Question alone = question;
      alone.chosen = question.valid;
      alone.chosen[i] = question.chosen[i];
      ended = ended || names_.count(name_of(subject, alone)) != 0;
    }
    return ended && differing > 1;
  }

private:
  std::set<std::string> names_;
};

void write_all(int pipe, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(pipe, text.data() + done, text.size() - done);
    if (count <= 0) _exit(1);
    done += static_cast<std::size_t>(count);
  }
}

// In a process of its own. For each question writes its answer, or ends.
[[noreturn]] void ask(const Options& options, const std::vector<Subject>& subjects,
                      const std::vector<Question>& questions, std::size_t first, const Endings& endings,
                      int pipe) {
  try {
    const transcript::Api api = transcript::Api::load(options.driver);
    Stage stage(api);
    stage.initialize();
    write_all(pipe, "ready\n");
    for (std::size_t q = first; q < questions.size(); ++q) {
      if (q > first && questions[q].subject != questions[q - 1].subject) {
        const std::string& last = subjects[questions[q - 1].subject].function.symbol;
        if (changes_its_process(last)) break;
      }
      if (endings.has_part_of(subjects[questions[q].subject], questions[q])) continue;
      std::string text;
      try {
        text = answer(stage, subjects[questions[q].subject], questions[q]);
      } catch (const SetUpFailure& failure) {
        write_all(pipe, std::string("set-up failed: ") + failure.what() + "\n");
        _exit(0);
      }
      const CUresult after = stage.settle();
      if (after != CUDA_SUCCESS) {
        const char* name = "?";
        api.GetErrorName(after, &name);
        write_all(pipe, text + ", then " + name + "\n");
        _exit(0);
      }
      write_all(pipe, text + "\n");
    }
  } catch (const std::exception& failure) {
    write_all(pipe, std::string("failed: ") + failure.what() + "\n");
  }
  _exit(0);
}

// Asks all of these questions, in as many processes as it takes.
void supervise(const Options& options, const std::vector<Subject>& subjects,
               const std::vector<Question>& questions, Endings endings, FILE* out) {
  const auto end_of_time = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  std::size_t next = 0;
  int failures = 0;
  // Both processes leave out the same questions: the endings only change between two processes.
  const auto skip = [&] {
    while (next < questions.size() && endings.has_part_of(subjects[questions[next].subject], questions[next]))
      ++next;
  };
  for (skip(); next < questions.size() && std::chrono::steady_clock::now() < end_of_time; skip()) {
    int ends[2];
    if (pipe(ends) != 0) _exit(1);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      ask(options, subjects, questions, next, endings, ends[1]);
    }
    close(ends[1]);
    std::string pending;
    bool ready = false, killed = false, new_failure = false;
    char buffer[4096];
    for (;;) {
      pollfd wait{ends[0], POLLIN, 0};
      const int found = poll(&wait, 1, (ready ? question_seconds : 30) * 1000);
      if (found == 0) {
        kill(child, SIGKILL);
        killed = true;
        break;
      }
      if (std::chrono::steady_clock::now() > end_of_time) {
        kill(child, SIGKILL);
        ready = false;
        break;
      }
      const ssize_t count = read(ends[0], buffer, sizeof(buffer));
      if (count <= 0) break;
      pending.append(buffer, static_cast<std::size_t>(count));
      std::size_t end;
      while ((end = pending.find('\n')) != std::string::npos) {
        const std::string line = pending.substr(0, end);
        pending.erase(0, end + 1);
        if (line == "ready") {
          ready = true;
        } else if (!ready || line.compare(0, 7, "failed:") == 0) {
          new_failure = true;
          std::fprintf(stderr, "%s\n", line.c_str());
        } else {
          const Question& question = questions[next++];
          std::fprintf(out, "%s => %s\n", name_of(subjects[question.subject], question).c_str(),
                       line.c_str());
          failures = 0;
          skip();
        }
      }
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (ready && next < questions.size() && (killed || WIFSIGNALED(status))) {
      const Question& question = questions[next++];
      if (options.given.empty() && !options.pairs) endings.add(subjects[question.subject], question);
      const char* const how = killed ? "hang" : WTERMSIG(status) == SIGABRT ? "abort" : "crash";
      std::fprintf(out, "%s => %s\n", name_of(subjects[question.subject], question).c_str(), how);
    }
    std::fflush(out);
    if ((!ready || new_failure) && ++failures > 3) return;
  }
}

std::vector<Question> given_questions(const std::string& path, const std::vector<Subject>& subjects) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Question> all;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#')
      all.push_back(question_of(subjects, line.substr(0, line.find(" => "))));
  return all;
}

int run(const Options& options) {
  const std::vector<Subject> subjects = all_subjects();
  std::vector<Question> questions = !options.given.empty() ? given_questions(options.given, subjects)
                                    : options.pairs ? fresh_pairs(subjects, options.seed, options.count)
                                                    : neighbours_of(subjects);
  Endings endings;
  std::set<std::string> except;
  if (!options.except.empty()) {
    std::ifstream file(options.except);
    if (!file) throw std::runtime_error("cannot read " + options.except);
    for (std::string line; std::getline(file, line);) {
      const std::string name = line.substr(0, line.find(" => "));
      except.insert(name);
      const std::string answer = line.substr(std::min(line.size(), name.size() + 4));
      if (answer != "crash" && answer != "hang" && answer != "abort") continue;
      const Question question = question_of(subjects, name);
      endings.add(subjects[question.subject], question);
    }
  }
  std::vector<std::vector<Question>> shares(options.jobs);
  for (const Question& question : questions) {
    const std::string name = name_of(subjects[question.subject], question);
    if (name.compare(0, options.only.size(), options.only) != 0 || except.count(name) != 0) continue;
    if (options.list) std::printf("%s\n", name.c_str());
    shares[question.subject / 4 % options.jobs].push_back(question); // functions of one kind share a process
  }
  if (options.list) return 0;
  std::vector<FILE*> files;
  std::vector<pid_t> workers;
  for (const auto& share : shares) {
    files.push_back(std::tmpfile());
    const pid_t worker = fork();
    if (worker == 0) {
      supervise(options, subjects, share, endings, files.back());
      _exit(0);
    }
    workers.push_back(worker);
  }
  for (pid_t worker : workers)
    waitpid(worker, nullptr, 0);
  for (FILE* file : files) {
    std::rewind(file);
    char buffer[65536];
    for (std::size_t count; (count = std::fread(buffer, 1, sizeof(buffer), file)) > 0;)
      std::fwrite(buffer, 1, count, stdout);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = word.substr(word.find('=') + 1);
    if (word.find("--driver=") == 0) {
      options.driver = value;
    } else if (word.find("--only=") == 0) {
      options.only = value;
    } else if (word.find("--given=") == 0) {
      options.given = value;
    } else if (word.find("--except=") == 0) {
      options.except = value;
    } else if (word.find("--jobs=") == 0) {
      options.jobs = static_cast<std::size_t>(std::max(1, std::atoi(value.c_str())));
    } else if (word.find("--seconds=") == 0) {
      options.seconds = std::atoi(value.c_str());
    } else if (word.find("--pairs=") == 0) {
      options.pairs = true;
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
      if (value.find(':') != std::string::npos)
        options.count = std::strtoull(value.c_str() + value.find(':') + 1, nullptr, 10);
    } else if (word == "--list") {
      options.list = true;
    } else {
      std::fprintf(stderr,
                   "usage: %s [--driver=LIBRARY] [--only=PREFIX] [--pairs=SEED:COUNT] [--jobs=N] "
                   "[--seconds=N] [--given=FILE] [--except=FILE] [--list]\n",
                   argv[0]);
      return 2;
    }
  }
  setenv("CUDA_VISIBLE_DEVICES", "0", 0); // the answers are those of a machine with one device
  try {
    return run(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "neighbours: %s\n", failure.what());
    return 1;
  }
}
