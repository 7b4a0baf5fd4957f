// SPDX-License-Identifier: MIT
// Two versions of cuevent in one process, each in an extension, and the program uses one of them too.
#include "extension.hpp"

#include <cuevent/driver_event.hpp>

#include <catch2/catch_session.hpp>
#include <catch2/catch_test_macros.hpp>

#include <string_view>
#include <system_error>
#include <typeinfo>

extern "C" {
Extend extend_this, extend_other;
}

using namespace cuevent;

namespace {

/// The exception as a program can catch it that does not know the version.
std::error_code code_of(const Extension& extension) {
  try {
    extension.fails();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

bool is_a_driver_error(const Extension& extension) {
  try {
    extension.fails();
  } catch (const DriverError&) {
    return true;
  } catch (const std::system_error&) {
  }
  return false;
}

} // namespace

TEST_CASE("two versions work side by side") {
  const Context context = Context::primary(0);
  for (const Extension& extension : {extend_this(), extend_other(), extend_this()})
    CHECK(extension.leases(context.native_handle(), CU_STREAM_LEGACY));
  CHECK(std::string_view(extend_this().type()) == typeid(DriverEvent).name());
  CHECK(std::string_view(extend_other().type()) != typeid(DriverEvent).name());
}

TEST_CASE("an exception of another version is caught as std::system_error") {
  CHECK(is_a_driver_error(extend_this()));
  CHECK_FALSE(is_a_driver_error(extend_other()));

  const std::error_code of_this = code_of(extend_this()), of_other = code_of(extend_other());
  CHECK(of_this == ErrorKind::usage);
  CHECK_FALSE(of_other == ErrorKind::usage); // another category
  for (const std::error_code& code : {of_this, of_other}) {
    CHECK(code.value() == CUDA_ERROR_INVALID_VALUE);
    CHECK(std::string_view(code.category().name()) == driver_category().name());
    CHECK(code == std::errc::invalid_argument);
  }
}

int main(int count, char** arguments) { return Catch::Session().run(count, arguments); }
