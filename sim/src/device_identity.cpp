// SPDX-License-Identifier: MIT
#include "device_identity.hpp"

#include "cuevent/sim.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace cuevent::sim {

std::optional<BusPlace> place_of(const char* text) {
  BusPlace place;
  auto& [domain, bus, device] = place.numbers;
  int end = 0;
  const auto is_all = [&] { return end != 0 && text[end] == '\0'; };
  if (std::sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &device, &place.function, &end) == 4 && is_all())
    return place;
  place = {}, end = 0;
  if (std::sscanf(text, "%x:%x:%x%n", &domain, &bus, &device, &end) == 3 && is_all()) return place;
  place = {}, end = 0;
  if (std::sscanf(text, "%x:%x.%x%n", &bus, &device, &place.function, &end) == 3 && is_all()) return place;
  return std::nullopt;
}

std::string bus_id_of(int number) {
  static_assert(most_devices < 10, "a bus is one digit");
  return "0000:0" + std::to_string(number + 1) + ":00.0";
}

std::array<unsigned char, 16> uuid_of(int number) {
  std::array<unsigned char, 16> uuid{};
  std::memcpy(uuid.data(), "cuevent sim ", 12);
  uuid.back() = static_cast<unsigned char>(number);
  return uuid;
}

std::string uuid_text_of(int number) {
  std::string text = "GPU";
  const auto uuid = uuid_of(number);
  for (std::size_t i = 0; i != uuid.size(); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(uuid[i]));
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

} // namespace cuevent::sim
