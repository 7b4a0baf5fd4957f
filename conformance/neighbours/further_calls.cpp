// SPDX-License-Identifier: MIT
// Valid calls of the functions whose first choices are refused together.
#include "choices.hpp"

#include <map>

namespace neighbours {

Choices added_choices(const std::string& symbol, const std::string& name) {
  for (const auto added : {added_to_virtual_memory})
    if (Choices all = added(symbol, name); !all.empty()) return all;
  return {};
}

std::vector<ValidCall> further_valid_calls(const std::string& symbol) {
  static const Variation lengths{"size", {"2097152", "0", "1", "2097153", "4194304", "8388608", "-1"}};
  static const std::map<std::string, std::vector<ValidCall>> all{
      {"cuMemAddressReserve",
       {{{"size",
          {"2097152", "0", "1", "4096", "2097153", "4194304", "1099511627776", "140737488355328", "-1"}},
         {"alignment", {"0", "1", "3", "4096", "2097152", "4194304", "1099511627776", "-1"}},
         {"addr", {"null", "plus_1", "reserved", "just_freed"}}}}},
      {"cuMemAddressFree",
       {{{"ptr",
          {"range", "null", "range_plus_1", "range_plus_4096", "range_plus_2097152", "range_plus_4194304",
           "mapped", "unmapped", "memory", "returned_range"}},
         {"size", {"4194304", "0", "1", "2097152", "2097153", "8388608", "-1"}}}}},
      {"cuMemUnmap",
       {{{"ptr",
          {"mapped", "null", "mapped_plus_1", "mapped_plus_4096", "mapped_with_access", "unmapped", "range",
           "range_plus_1", "range_plus_2097152", "range_plus_4194304", "memory"}},
         lengths}}},
      {"cuMemSetAccess",
       {{{"ptr",
          {"mapped", "null", "mapped_plus_1", "mapped_plus_4096", "mapped_with_access", "unmapped", "range",
           "range_plus_2097152", "memory"}},
         lengths,
         {"count", {"1", "0", "3"}}}}},
      {"cuMemGetAccess",
       {{{"ptr", {"mapped_with_access", "null", "mapped", "mapped_plus_1", "unmapped", "range"}}}}},
      {"cuMemRetainAllocationHandle",
       {{{"addr", {"mapped", "null", "mapped_plus_1", "mapped_with_access", "unmapped", "range"}}}}}};
  const auto found = all.find(symbol);
  return found == all.end() ? std::vector<ValidCall>{} : found->second;
}

} // namespace neighbours
