// SPDX-License-Identifier: MIT
// What tells the devices of the simulated machine apart. The driver and the stand-in for NVML have the same
// answers.
#pragma once

#include <array>
#include <optional>
#include <string>

namespace cuevent::sim {

/// A place on the PCI bus.
struct BusPlace {
  std::array<unsigned, 3> numbers{}; ///< of the domain, the bus and the device
  unsigned function = 0;
  bool operator==(const BusPlace&) const = default;
};

/// "domain:bus:device", "domain:bus:device.function" or "bus:device.function", in hexadecimal numbers as
/// scanf() reads them: with spaces, a sign and a prefix before each. Empty if the text is none of them.
std::optional<BusPlace> place_of(const char* text);

/// Of the device with this number in the machine.
std::string bus_id_of(int number);
std::array<unsigned char, 16> uuid_of(int number);
/// As tools of NVIDIA write it: "GPU-63756576-...".
std::string uuid_text_of(int number);

} // namespace cuevent::sim
