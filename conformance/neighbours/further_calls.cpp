// SPDX-License-Identifier: MIT
// Valid calls of the functions whose first choices are refused together.
#include "choices.hpp"

#include <map>

namespace neighbours {

Choices added_choices(const std::string& symbol, const std::string& name) {
  for (const auto added :
       {added_to_virtual_memory, added_to_graph_memory, added_to_memory_ranges, added_to_linker})
    if (Choices all = added(symbol, name); !all.empty()) return all;
  return {};
}

std::vector<ValidCall> further_valid_calls(const std::string& symbol) {
  static const Variation lengths{"size", {"2097152", "0", "1", "2097153", "4194304", "8388608", "-1"}};
  static const Variation pointers{
      "dptrs", {"managed", "address_0", "null", "managed_plus_1", "memory", "pinned", "of_pool", "pageable"}};
  static const Variation sizes{"sizes", {"4096", "0", "null", "1", "4095", "4097", "1099511627776"}};
  static const Variation one{"count", {"1", "0", "3"}};
  static const Variation first{"prefetchLocIdxs", {"first_0", "first_1", "null", "first_100"}};
  static const Variation places{"numPrefetchLocs", {"1", "0", "3"}};
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
       {{{"addr", {"mapped", "null", "mapped_plus_1", "mapped_with_access", "unmapped", "range"}}}}},
      {"cuGraphMemAllocNodeGetParams",
       {{{"hNode", {"allocation", "null", "free", "allocation_of_other_graph", "allocation_destroyed"}}}}},
      {"cuGraphMemFreeNodeGetParams", {{{"hNode", {"free", "null", "allocation", "allocation_destroyed"}}}}},
      {"cuMemRangeGetAttributes",
       {{{"data", {"list", "null", "list_of_nulls"}},
         {"dataSizes", {"first_4", "null", "first_0", "first_1", "first_3", "first_8"}},
         {"attributes",
          {"first_1", "null", "first_2", "first_3", "first_4", "first_5", "first_6", "first_7", "first_8",
           "first_9", "first_0", "first_-1", "first_100"}},
         {"numAttributes", {"2", "0", "1", "3"}},
         {"devPtr", {"managed", "null", "memory", "pinned", "of_pool", "pageable", "freed"}},
         {"count", {"4096", "0", "1", "4097", "1048576", "1099511627776", "-1"}}}}},
      {"cuMemDiscardBatchAsync", {{pointers, sizes, one}}},
      {"cuMemPrefetchBatchAsync", {{pointers, sizes, one, first, places}}},
      {"cuMemDiscardAndPrefetchBatchAsync", {{pointers, sizes, one, first, places}}},
      {"cuLinkCreate_v2",
       {{{"numOptions", {"0"}}},
        {{"options",
          {"option_0",  "null",      "option_-1", "option_1",  "option_2",  "option_3",  "option_4",
           "option_5",  "option_6",  "option_7",  "option_8",  "option_9",  "option_10", "option_11",
           "option_12", "option_13", "option_14", "option_15", "option_16", "option_17", "option_18",
           "option_19", "option_20", "option_21", "option_22", "option_23", "option_24", "option_25",
           "option_26", "option_27", "option_28", "option_29", "option_30", "option_31", "option_32",
           "option_33", "option_34", "option_35", "option_36", "option_37", "option_38"}},
         {"optionValues", {"first_1", "null", "first_0", "first_2", "first_90", "first_2_to_the_32"}}}}}};
  const auto found = all.find(symbol);
  return found == all.end() ? std::vector<ValidCall>{} : found->second;
}

} // namespace neighbours
