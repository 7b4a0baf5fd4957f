// SPDX-License-Identifier: MIT
// Settings of core dumps as arguments.
#include "choices.hpp"

namespace neighbours {

Choices core_dump_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  if (symbol.compare(0, 10, "cuCoredump") != 0) return {};
  const bool sets = symbol.find("Set") != std::string::npos;
  if (type == "CUcoredumpSettings")
    return enumerators(3, 8, {100}); // 3 is lightweight, which has no effect alone
  if (name == "value" && !sets) return {choice("room", [](Stage& s) { return s.room(4096); }), null()};
  if (name == "value") { // never a pipe, which would stay as a file
    Choices all{choice("zeros", [](Stage& s) { return s.room(4096); }), null()};
    if (symbol == "cuCoredumpSetAttribute")
      all.push_back(choice("one", [](Stage& s) {
        auto* const made = static_cast<char*>(s.room(4096));
        made[0] = 1;
        return made;
      }));
    return all;
  }
  if (name != "size") return {};
  Choices all;
  for (const std::size_t size : {1U, 0U, 2U, 4U, 8U, 1023U, 1024U, 4096U})
    all.push_back(numbers_in_list<std::size_t>(std::to_string(size), {size}));
  all.insert(all.begin() + 1, null());
  return all;
}

} // namespace neighbours
