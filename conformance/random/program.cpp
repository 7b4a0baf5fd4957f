// SPDX-License-Identifier: MIT
#include "program.hpp"

#include <string_view>

namespace conformance {
namespace {

constexpr std::string_view forms[] = {
#define OP(name, form) form,
#include "operations.inc"
#undef OP
};

std::string stream_text(int stream) {
  switch (stream) {
  case null_stream:
    return "0";
  case legacy_stream:
    return "LEGACY";
  case per_thread_stream:
    return "PER_THREAD";
  default:
    return "s" + std::to_string(stream);
  }
}

std::string hexadecimal(unsigned value) {
  std::string digits;
  for (; value != 0; value >>= 4)
    digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
  return "0x" + (digits.empty() ? "0" : digits);
}

std::string slot_text(char kind, int slot) {
  if (kind == 's') return stream_text(slot);
  if (slot == no_object || slot == null_object) return "null";
  if (kind == 'i' || kind == 'n') return std::to_string(slot);
  return kind == 'w' ? "word" + std::to_string(slot) : kind + std::to_string(slot);
}

} // namespace

std::string_view form_of(Op op) { return forms[static_cast<std::size_t>(op)]; }

std::string text_of(const Call& call) {
  std::string text = "t" + std::to_string(call.thread) + " ";
  const std::string_view form = form_of(call.op);
  int argument = 0;
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] != '%')
      text += form[i];
    else if (form[++i] == 'f')
      text += hexadecimal(call.flags);
    else
      text += slot_text(form[i], call.arguments[argument++]);
  }
  return call.flags == null_result ? text + ", no place for the result" : text;
}

std::string text_of(const Program& program) {
  std::string text;
  for (const Call& call : program)
    text += text_of(call) + "\n";
  return text;
}

std::uint64_t fingerprint(const Program& program) { // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : text_of(program))
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

} // namespace conformance
