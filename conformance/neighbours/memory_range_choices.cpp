// SPDX-License-Identifier: MIT
// Ranges of managed memory as arguments: what is asked about them, and lists of them.
#include "choices.hpp"

namespace neighbours {
namespace {

Choices rooms(const std::string& name) {
  const auto with_size = [](const char* label, std::size_t size) {
    return numbers_in_list<std::size_t>(label, {size, 4});
  };
  if (name == "data") return without(choices_of("cuPointerGetAttributes", "void**", name), {"null"});
  if (name == "dataSizes")
    return {with_size("first_4", 4), with_size("first_0", 0), with_size("first_1", 1),
            with_size("first_3", 3), with_size("first_8", 8)};
  if (name != "attributes") return {};
  Choices all;
  for (int first : {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, -1, 100})
    all.push_back(numbers_in_list<int>("first_" + std::to_string(first), {first, 2}));
  return all;
}

Choices lists(const std::string& name) {
  if (name == "dptrs")
    return {list_of("managed", [](Stage& s) { return s.managed(); }),
            list_of("address_0", [](Stage&) { return CUdeviceptr{0}; }),
            list_of("managed_plus_1", [](Stage& s) { return s.managed() + 1; }),
            list_of("memory", [](Stage& s) { return s.memory(); }),
            list_of("pinned", [](Stage& s) { return s.pinned(); }),
            list_of("of_pool", [](Stage& s) { return s.pooled(); }),
            list_of("pageable", [](Stage& s) { return s.room(8192); })};
  if (name == "sizes") {
    Choices all;
    for (const std::size_t size : {std::size_t{4096}, std::size_t{0}, std::size_t{1}, std::size_t{4095},
                                   std::size_t{4097}, std::size_t{1} << 40})
      all.push_back(numbers_in_list<std::size_t>(std::to_string(size), {size}));
    return all;
  }
  if (name == "prefetchLocIdxs")
    return {numbers_in_list<std::size_t>("first_0", {0}), numbers_in_list<std::size_t>("first_1", {1}),
            numbers_in_list<std::size_t>("first_100", {100})};
  return {};
}

} // namespace

Choices memory_range_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  if (symbol != "cuMemRangeGetAttribute") return {};
  if (name == "dataSize") return numbers({4, 0, 1, 3, 5, 8, 64});
  if (type == "CUmem_range_attribute") return enumerators(1, 9, {100});
  if (name == "devPtr") return chosen_first(handle_choices(type), "managed");
  if (name == "count") return numbers({4096, 0, 1, 4097, 1 << 20, 1LL << 40, -1});
  return {};
}

Choices added_to_memory_ranges(const std::string& symbol, const std::string& name) {
  if (symbol == "cuMemRangeGetAttributes") {
    if (name == "numAttributes") return numbers({2});
    return rooms(name);
  }
  if (symbol == "cuMemDiscardBatchAsync" || symbol == "cuMemPrefetchBatchAsync" ||
      symbol == "cuMemDiscardAndPrefetchBatchAsync")
    return lists(name);
  return {};
}

} // namespace neighbours
