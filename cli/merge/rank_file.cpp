// SPDX-License-Identifier: MIT
#include "merge/rank_file.hpp"

#include "report/folder.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace cli {

namespace {

std::FILE* open_report(const std::string& path) {
  try {
    return fdopen(watch::open_input(path).release(), "r");
  } catch (const watch::Refused& refused) {
    throw RankFileError(refused.what() +
                        std::string(": name the report of a rank, or a folder with files rank*.json"));
  }
}

} // namespace

RankFile::RankFile(std::string path) : path_(std::move(path)), file_(open_report(path_)) {
  if (!file_) throw RankFileError(path_ + ": " + std::strerror(errno));
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
