// SPDX-License-Identifier: MIT
#include <cuevent/text.hpp>

#include "core/error_texts.hpp"

#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

std::string to_string(CUresult result) {
  char text[longest_message];
  write_name(text, result, ErrorText(result));
  return text;
}

}} // namespace cuevent::CUEVENT_ABI
