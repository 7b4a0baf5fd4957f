// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include "interpreter.hpp"
#include "partner.hpp"
#include "watchdog.hpp"
#include "worker_lines.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <unistd.h>

namespace conformance {
namespace {

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) _exit(1); // nobody listens any more
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

Program part_of(Program program, const std::string& kept) {
  std::size_t index = 0;
  std::erase_if(program, [&](const Call&) { return index < kept.size() && kept[index++] == '0'; });
  return program;
}

void serve(const std::string& library) {
  const Api api = Api::load(library);
  Watchdog watchdog;
  Interpreter interpreter(api, library, watchdog);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    Request request;
    words >> request.seed >> request.kept;
    interpreter.run(part_of(program_of(request.seed), request.kept), say);
    if (interpreter.timeouts() != 0)
      std::fprintf(stderr, "seed %llu: work that should have finished did not, %u times\n",
                   static_cast<unsigned long long>(request.seed), interpreter.timeouts());
    if (!interpreter.clean()) {
      say({&last_program, 1});
      say("\n");
      _exit(0);
    }
    say("\n");
  }
  _exit(0); // what happens at exit is no part of a program
}

} // namespace

void worker_main(int argc, char** argv) {
  if (argc != 3) return;
  const bool partner = std::strcmp(argv[1], partner_argument) == 0;
  if (!partner && std::strcmp(argv[1], worker_argument) != 0) return;
  // Streams that share a hardware queue would wait for one another's gates.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // A kernel that is loaded at its first launch may wait for all streams, those behind gates too.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  if (partner) serve_as_partner(argv[2]);
  try {
    serve(argv[2]);
  } catch (const transcript::LoadFailure& failure) {
    say(std::string(no_driver) + failure.what() + "\n");
    _exit(77);
  }
}

} // namespace conformance
