// SPDX-License-Identifier: MIT
#include "archive.hpp"

#include "bytes.hpp"

#include <charconv>
#include <cstddef>
#include <iterator>

namespace cuevent::sim {

namespace {

constexpr std::string_view archive_magic = "!<arch>\n";

struct MemberHeader {
  char name[16], date[12], owner[6], group[6], mode[8], size[10], end[2];
};
static_assert(sizeof(MemberHeader) == 60);

/// The names of the tables begin with a slash. A long name too, but a number follows it.
bool is_table(const MemberHeader& header) {
  return header.name[0] == '/' && (header.name[1] < '0' || header.name[1] > '9');
}

} // namespace

bool is_archive(std::string_view file) { return file.starts_with(archive_magic); }

std::vector<std::string_view> members_of(std::string_view archive) {
  std::vector<std::string_view> members;
  for (std::size_t at = archive_magic.size(); at < archive.size();) {
    const auto header = value_in<MemberHeader>(archive, at);
    at += sizeof header;
    std::size_t size = 0;
    const auto read = std::from_chars(std::begin(header.size), std::end(header.size), size);
    damaged_if(read.ec != std::errc() || header.end[0] != '`' || header.end[1] != '\n' ||
               size > archive.size() - at);
    if (!is_table(header)) members.push_back(archive.substr(at, size));
    at += size + size % 2; // a line break fills the last place
  }
  return members;
}

} // namespace cuevent::sim
