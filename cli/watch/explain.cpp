// SPDX-License-Identifier: MIT
#include "watch/explain.hpp"

#include "rules/nearest_name.hpp"
#include "rules/rule_pages.hpp"

#include <cstdio>
#include <stdexcept>

namespace cli {

int explain_rule(const std::string& name) {
  if (name == "all") {
    for (const watch::RulePage& page : watch::rule_pages())
      std::printf("%-26s the program %s\n", page.name, page.title);
    return 0;
  }
  const watch::RulePage* const page = watch::page_named(name);
  if (page == nullptr)
    throw std::runtime_error("there is no rule " + name + watch::suggestion(name, watch::rule_names()) +
                             ". `cuevent watch --explain all` lists the rules");
  std::printf("%s: the program %s\n\nWhat the driver does\n  %s\n\nHow to fix it\n  %s\n", page->name,
              page->title, page->driver, page->fix);
  return 0;
}

} // namespace cli
