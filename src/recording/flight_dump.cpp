// SPDX-License-Identifier: MIT
#include "recording/flight_dump.hpp"

#include "core/name_text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <unistd.h>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr Position reached_marks = 8; // the number of reached places to write for each stream

/// Writes text to a file descriptor, with nothing but write(2).
class Writer {
public:
  explicit Writer(int file) noexcept : file_(file) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { flush(); }

  Writer& operator<<(std::string_view text) noexcept {
    for (const char c : text) {
      if (size_ == buffer_.size()) flush();
      buffer_[size_++] = c;
    }
    return *this;
  }
  Writer& operator<<(std::uint64_t value) noexcept {
    std::array<char, 20> characters;
    std::size_t first = characters.size();
    do
      characters[--first] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    return *this << std::string_view(&characters[first], characters.size() - first);
  }
  Writer& quoted(std::string_view text) noexcept {
    *this << "'";
    each_printable(text, [this](std::string_view piece) { *this << piece; });
    return *this << "'";
  }
  /// Milliseconds as seconds: "31.240 s".
  Writer& seconds(std::uint64_t milliseconds) noexcept {
    const std::uint64_t part = milliseconds % 1000;
    return *this << milliseconds / 1000 << (part < 10 ? ".00" : part < 100 ? ".0" : ".") << part << " s";
  }

private:
  void flush() noexcept {
    for (const char* at = buffer_.data(); size_ != 0;) {
      const ssize_t written = write(file_, at, size_);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break; // nobody can be told
      at += written;
      size_ -= static_cast<std::size_t>(written);
    }
    size_ = 0;
  }

  const int file_;
  std::array<char, 512> buffer_;
  std::size_t size_ = 0;
};

void write_place(Writer& out, const MarkedPlace& place, bool reached, long long now) noexcept {
  out << (reached ? "  reached  " : "  pending  ");
  if (place.graph != 0)
    out << "replay " << place.replay << " of graph " << place.graph;
  else if (place.name.text().empty())
    out << "a record or a signal";
  else
    out.quoted(place.name.text());
  if (now >= place.time) {
    out << ", submitted ";
    out.seconds(static_cast<std::uint64_t>((now - place.time) / 1'000'000)) << " ago";
  }
  out << "\n";
}

void write_stream(Writer& out, const RecordedStream& stream, long long now) noexcept {
  ShortName buffer;
  const Position submitted = stream.ring.submitted(), seen = std::min(stream.ring.seen(), submitted);
  out << "stream " << std::uint64_t{stream.index} << " ";
  out.quoted(stream.name_in(buffer)) << ": " << submitted << " places submitted, " << seen
                                     << " seen reached, " << stream.dropped.load(std::memory_order_relaxed)
                                     << " dropped"
                                     << (stream.is_over() ? ", ended with its context\n" : "\n");
  const Position first = std::max(seen < reached_marks ? 0 : seen - reached_marks, stream.ring.oldest());
  for (Position at = first; at < submitted; ++at) {
    MarkedPlace place;
    if (stream.ring.read(at, place)) write_place(out, place, at < seen, now);
  }
}

} // namespace

void dump_streams(int file, const RecordedStreams& streams, long long now) noexcept {
  Writer out(file);
  out << "cuevent flight recorder; no event was queried, so more may have been reached\n";
  streams.each([&](const RecordedStream& each) { write_stream(out, each, now); });
  out << "end of the flight recorder\n";
}

}} // namespace cuevent::CUEVENT_ABI
