// SPDX-License-Identifier: MIT
#include "visible_devices.hpp"

#include "device_identity.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

namespace cuevent::sim {
namespace {

enum class EntryKind { index, uuid, of_instance, none, unknown };

struct Meaning {
  EntryKind entry = EntryKind::none;
  int number = 0;
};

std::string lower(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(),
                         [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return made;
}

/// Spaces and a sign may come before the digits, and any text after them.
Meaning index_of(std::string_view entry, int devices) {
  const std::string text(entry);
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  if (end == text.c_str() || number < 0 || number >= devices) return {};
  return {EntryKind::index, static_cast<int>(number)};
}

/// The beginning of a UUID is enough if it is the beginning of no other one.
Meaning uuid_of(std::string_view digits, int devices) {
  const std::string beginning = "GPU-" + lower(digits);
  Meaning found;
  for (int number = 0; number != devices; ++number) {
    const std::string uuid = uuid_text_of(number);
    if (beginning == uuid || beginning == uuid + ' ') return {EntryKind::uuid, number};
    if (beginning.starts_with(uuid)) return {EntryKind::unknown};
    if (!uuid.starts_with(beginning)) continue;
    if (found.entry == EntryKind::uuid) return {}; // it names two
    found = {EntryKind::uuid, number};
  }
  return digits.empty() && devices == 1 ? Meaning{EntryKind::unknown} : found;
}

/// The name of an instance of a device can be the UUID of the whole device. No other name was asked about.
Meaning instance_of(std::string_view digits, int devices) {
  for (int number = 0; number != devices; ++number)
    if (uuid_text_of(number).substr(4) == digits) return {EntryKind::of_instance, number};
  return {EntryKind::unknown};
}

Meaning device_of(std::string_view entry, int devices) {
  if (entry.starts_with("GPU-")) return uuid_of(entry.substr(4), devices);
  if (entry.starts_with("MIG-")) return instance_of(entry.substr(4), devices);
  return index_of(entry, devices);
}

} // namespace

VisibleDevices visible_devices(std::string_view value, int devices) {
  VisibleDevices visible;
  EntryKind kind = EntryKind::none;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    const Meaning found = device_of(entry, devices);
    const auto of_instance = [&](EntryKind one) { return one == EntryKind::of_instance; };
    const bool mixed = kind != EntryKind::none && found.entry != kind;
    if (found.entry == EntryKind::unknown || (mixed && (of_instance(kind) || of_instance(found.entry))))
      return {Visibility::unknown, {}};
    if (found.entry == EntryKind::none || mixed) break; // it hides itself and all that follow
    if (std::ranges::count(visible.numbers, found.number) != 0) return {Visibility::twice, {}};
    kind = found.entry;
    visible.numbers.push_back(found.number);
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return visible;
}

} // namespace cuevent::sim
