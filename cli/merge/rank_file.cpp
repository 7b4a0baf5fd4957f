// SPDX-License-Identifier: MIT
#include "merge/rank_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

namespace cli {

namespace {

/// A plain fopen() of a pipe would wait until somebody writes to the pipe.
std::FILE* open_at_once(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  return file < 0 ? nullptr : fdopen(file, "r");
}

} // namespace

RankFile::RankFile(std::string path) : path_(std::move(path)), file_(open_at_once(path_)) {
  const auto cannot = [&](const std::string& why) {
    throw RankFileError(path_ + ": " + why +
                        ": name the report of a rank, or a folder with files rank*.json");
  };
  struct stat about {};
  if (!file_ || fstat(fileno(file_.get()), &about) != 0) cannot(std::strerror(errno));
  if (!S_ISREG(about.st_mode)) cannot("not a file that can be read twice, and not a folder with reports");
  std::setvbuf(file_.get(), nullptr, _IONBF, 0); // the buffer is here
}

bool RankFile::refill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::size_t read = std::fread(buffer_.data() + end_, 1, buffer_.size() - end_, file_.get());
  if (read == 0 && std::ferror(file_.get()) != 0) throw RankFileError(path_ + ": " + std::strerror(errno));
  end_ += read;
  return read != 0;
}

std::optional<std::string_view> RankFile::next() {
  ++line_;
  std::size_t seen = 0; // without a newline
  for (;;) {
    const char* const begin = buffer_.data() + begin_;
    const void* const newline = std::memchr(begin + seen, '\n', end_ - begin_ - seen);
    if (newline != nullptr) {
      const std::string_view line(begin, static_cast<std::size_t>(static_cast<const char*>(newline) - begin));
      if (line.size() > longest_line) break;
      begin_ += line.size() + 1;
      return line;
    }
    seen = end_ - begin_;
    if (seen > longest_line) break;
    if (!refill()) return std::nullopt;
  }
  fail("the line is longer than " + std::to_string(longest_line) + " bytes: write one object in each line");
}

RankLine RankFile::read(std::string_view line) const {
  try {
    return read_rank_line(line);
  } catch (const RankLineError& error) {
    fail(error.what());
  }
}

void RankFile::fail(const std::string& what) const {
  throw RankFileError(path_ + ":" + std::to_string(line_) + ": " + what);
}

} // namespace cli
