// SPDX-License-Identifier: MIT
// The main function of a fuzz target without libFuzzer: runs every file of the folders on the command line,
// whole and cut off after each of its bytes.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::filesystem::path& file) {
  std::printf("%s\n", file.c_str()); // the last line names the file that crashed
  std::fflush(stdout);
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::string input = text.substr(0, size); // a copy: a sanitizer then sees a read past its end
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

} // namespace

int main(int argc, char** argv) {
  int files = 0;
  try {
    for (int i = 1; i < argc; ++i)
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
        run(entry.path());
        ++files;
      }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  if (files == 0) std::fprintf(stderr, "usage: %s FOLDER...: there is no file to run\n", argv[0]);
  return files == 0 ? 1 : 0;
}
