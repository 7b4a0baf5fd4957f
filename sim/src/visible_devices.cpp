// SPDX-License-Identifier: MIT
#include "visible_devices.hpp"

#include "device_identity.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cuevent::sim {
namespace {

enum class EntryKind { index, uuid, invalid, unknown };

struct Meaning {
  EntryKind entry = EntryKind::invalid;
  int number = 0;
};

std::string lower(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(),
                         [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return made;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A number with a space, a sign, zeros or a text around it may be an index.
Meaning index_of(std::string_view entry, int devices) {
  if (!std::ranges::all_of(entry, is_digit) || (entry.size() > 1 && entry.front() == '0'))
    return {EntryKind::unknown};
  int number = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  return error == std::errc() && number < devices ? Meaning{EntryKind::index, number}
                                                  : Meaning{EntryKind::invalid};
}

/// The beginning of a UUID is enough if it is the beginning of no other one, but all simulated devices differ
/// in the last digit.
Meaning uuid_of(std::string_view entry, int devices) {
  const std::string beginning = "GPU-" + lower(entry.substr(4));
  for (int number = 0; number != devices; ++number) {
    const std::string uuid = uuid_text_of(number);
    if (entry == uuid) return {EntryKind::uuid, number};
    if (uuid.starts_with(beginning)) return {EntryKind::unknown};
  }
  return {EntryKind::invalid};
}

Meaning device_of(std::string_view entry, int devices) {
  if (lower(entry.substr(0, 4)) == "gpu-") return uuid_of(entry, devices);
  if (entry.empty()) return {EntryKind::invalid};
  const char first = entry.front();
  if (is_digit(first) || first == '+' || first == ' ' || first == '\t') return index_of(entry, devices);
  return {EntryKind::invalid};
}

} // namespace

std::optional<std::vector<int>> visible_devices(std::string_view value, int devices) {
  std::vector<int> visible;
  EntryKind kind = EntryKind::invalid;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    const Meaning found = device_of(entry, devices);
    if (found.entry == EntryKind::invalid) break; // it hides all that follow
    const bool mixed = !visible.empty() && found.entry != kind;
    if (found.entry == EntryKind::unknown || mixed || std::ranges::count(visible, found.number) != 0)
      return std::nullopt;
    kind = found.entry;
    visible.push_back(found.number);
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return visible;
}

} // namespace cuevent::sim
