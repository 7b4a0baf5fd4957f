// SPDX-License-Identifier: MIT
#include "recording.hpp"

#include "program.hpp"

#include "../transcript/api.hpp"

#include <charconv>
#include <cstdio>
#include <ctime>
#include <numeric>

namespace conformance {
namespace {

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

} // namespace

std::optional<Seeds> parse_seeds(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = dash == std::string_view::npos ? std::uint64_t{1} : parse_number(text.substr(0, dash));
  const auto last = parse_number(dash == std::string_view::npos ? text : text.substr(dash + 1));
  if (!first || !last || *first == 0 || *first > *last || *last - *first > 10'000'000) return std::nullopt;
  return Seeds{*first, *last};
}

std::vector<std::uint64_t> Seeds::all() const {
  std::vector<std::uint64_t> seeds(last - first + 1);
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

std::string short_fingerprint(std::uint64_t seed) {
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06x",
                static_cast<unsigned>(fingerprint(program_of(seed)) & 0xffffff));
  return digits;
}

std::string recorded_line(std::uint64_t seed, const std::string& answers) {
  return std::to_string(seed) + " " + short_fingerprint(seed) + " " + answers;
}

std::optional<RecordedProgram> parse_recorded_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || line.starts_with("#")) return std::nullopt;
  const auto seed = parse_number(line.substr(0, first));
  if (!seed) return std::nullopt;
  return RecordedProgram{*seed, std::string(line.substr(first + 1, second - first - 1)),
                         std::string(line.substr(second + 1))};
}

std::size_t Answering::leave_out(std::vector<std::uint64_t>& seeds) const {
  return std::erase_if(seeds, [this](std::uint64_t seed) { return devices_needed(seed) > devices; });
}

Answering who_answers(const std::string& library) try {
  const auto cu = transcript::Api::load(library);
  CUdevice device = 0;
  char name[128] = "";
  int version = 0;
  int devices = 0;
  if (cu.Init(0) != CUDA_SUCCESS || cu.DeviceGetCount(&devices) != CUDA_SUCCESS ||
      cu.DeviceGet(&device, 0) != CUDA_SUCCESS)
    throw NoDriver("no usable device");
  cu.DeviceGetName(name, sizeof name, device);
  cu.DriverGetVersion(&version);
  char day[16] = "";
  const std::time_t now = std::time(nullptr);
  std::strftime(day, sizeof day, "%Y-%m-%d", std::gmtime(&now));
  return {{"device: " + std::string(name), "devices: " + std::to_string(devices),
           "CUDA version of the driver: " + std::to_string(version), "date: " + std::string(day),
           "generator: 2"},
          devices};
} catch (const transcript::LoadFailure& failure) {
  throw NoDriver(failure.what());
}

} // namespace conformance
