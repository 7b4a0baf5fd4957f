// SPDX-License-Identifier: MIT
// Words that one thread replaces while others read them. Models PublishedWords in
// src/recording/published_words.hpp; each function has the name of the one that it models.
#include "models.hpp"

using namespace model;

namespace {

struct Orders {
  std::memory_order store_word = release, store_number = release, load_word = acquire, load_number = acquire;
};

/// A thread publishes the words 1 1 under number 1, and then 2 2 under number 2. Another one reads.
struct PublishAndRead {
  Execution& execution;
  const Orders orders;
  Atomic number{execution, "number_", 0};
  Atomic first{execution, "words_[0]", 0}, second{execution, "words_[1]", 0};

  PublishAndRead(Execution& its, const Orders& used) : execution(its), orders(used) {
    its.spawn("publishes", publish());
    its.spawn("reads 1", read(1));
    its.spawn("reads 2", read(2));
  }
  Task<> publish() {
    for (std::int64_t next = 1; next <= 2; ++next) {
      co_await number.store(0, relaxed); // retract
      co_await first.store(next, orders.store_word);
      co_await second.store(next, orders.store_word);
      co_await number.store(next, orders.store_number);
    }
  }
  Task<> read(std::int64_t wanted) {
    if (co_await number.load(orders.load_number) != wanted) co_return;
    const std::int64_t a = co_await first.load(orders.load_word);
    const std::int64_t b = co_await second.load(orders.load_word);
    if (co_await number.load(orders.load_number) != wanted) co_return;
    execution.check(a == wanted && b == wanted, "words of another number are read");
  }
  void finish() {}
};

} // namespace

TEST_CASE("a reader gets the words of the number that it wants, or none") {
  CHECK(explore<PublishAndRead>(Orders{}).violation == "");
}

TEST_CASE("the checker finds each weak memory order of published words") {
  const auto violation = [](const Orders& orders) { return explore<PublishAndRead>(orders).violation; };
  CHECK_THAT(violation({.store_word = relaxed}), StartsWith("words of another number"));
  CHECK_THAT(violation({.store_number = relaxed}), StartsWith("words of another number"));
  CHECK_THAT(violation({.load_word = relaxed}), StartsWith("words of another number"));
  CHECK_THAT(violation({.load_number = relaxed}), StartsWith("words of another number"));
}
