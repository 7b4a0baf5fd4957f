// SPDX-License-Identifier: MIT
// The library in version 1.1.
#include "recorder.hpp"

namespace growing { inline namespace v1 {

namespace {
Options state; // of the only recorder
}

Recorder::Recorder(const Options& options) : state_(&state) { state = options; }

Report Recorder::report() const {
  return {std::vector<Stream>(static_cast<Options*>(state_)->rings, {"ring", state.colour})};
}

}} // namespace growing::v1

// What programs of version 1.0 call.
namespace growing::v1_0 {

struct Options {
  unsigned rings;
};
struct Stream {
  std::string name;
};
struct Report {
  std::vector<Stream> streams;
};

// The complete constructor. A class that others may derive from needs the name with C2, too.
void construct(Recorder& self, const Options& options) asm("_ZN7growing2v18RecorderC1ERKNS0_7OptionsE");
void construct(Recorder& self, const Options& options) { self = Recorder(v1::Options{options.rings}); }

Report report(const Recorder& self) asm("_ZNK7growing2v18Recorder6reportEv");
Report report(const Recorder& self) {
  Report old;
  for (const v1::Stream& stream : self.report().streams)
    old.streams.push_back({stream.name});
  return old;
}

} // namespace growing::v1_0
