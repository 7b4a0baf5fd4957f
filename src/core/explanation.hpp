// SPDX-License-Identifier: MIT
// What has access to the members that find the cause of a failure. Internal to the library.
#pragma once

#include <cuevent/event_ref.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The members themselves throw: explain.hpp turns the exception into its text, see text_of().
struct Explanation {
#define CUEVENT_CAUSE(name)                                                                                  \
  template <class Object, class... Given>                                                                    \
  [[noreturn]] static void name(const Object& object, CUresult result, const Given&... given) {              \
    object.name(result, given...);                                                                           \
  }
  CUEVENT_CAUSE(fail)
  CUEVENT_CAUSE(fail_abandon_on_death)
  CUEVENT_CAUSE(fail_acquire)
  CUEVENT_CAUSE(fail_begin)
  CUEVENT_CAUSE(fail_close)
  CUEVENT_CAUSE(fail_elapsed)
  CUEVENT_CAUSE(fail_end)
  CUEVENT_CAUSE(fail_export)
  CUEVENT_CAUSE(fail_find)
  CUEVENT_CAUSE(fail_instantiate)
  CUEVENT_CAUSE(fail_launch)
  CUEVENT_CAUSE(fail_query)
  CUEVENT_CAUSE(fail_record)
  CUEVENT_CAUSE(fail_reserve)
  CUEVENT_CAUSE(fail_retain)
  CUEVENT_CAUSE(fail_set_event)
  CUEVENT_CAUSE(fail_signal)
  CUEVENT_CAUSE(fail_timer)
  CUEVENT_CAUSE(fail_wait)
  CUEVENT_CAUSE(fail_wait_for)
  CUEVENT_CAUSE(fail_wait_stream)
  CUEVENT_CAUSE(fail_when_complete)
#undef CUEVENT_CAUSE

#define CUEVENT_CAUSE(name)                                                                                  \
  template <class Object, class... Given>                                                                    \
  [[noreturn]] static void name(CUresult result, const Given&... given) {                                    \
    Object::name(result, given...);                                                                          \
  }
  CUEVENT_CAUSE(fail_create)
  CUEVENT_CAUSE(fail_import)
  CUEVENT_CAUSE(fail_points)
#undef CUEVENT_CAUSE
};

}} // namespace cuevent::CUEVENT_ABI
