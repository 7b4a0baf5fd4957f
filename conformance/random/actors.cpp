// SPDX-License-Identifier: MIT
#include "actors.hpp"

namespace conformance {

Actors::~Actors() {
  for (auto& actor : actors_) {
    if (!actor) continue;
    actor->turn = 2;
    actor->turn.notify_one();
    actor->thread.join();
  }
}

void Actors::loop(Actor& actor) {
  for (;;) {
    actor.turn.wait(0);
    if (actor.turn == 2) return;
    (*actor.action)();
    actor.turn = 0;
    actor.turn.notify_one();
  }
}

void Actors::act(int thread, const std::function<void()>& action) {
  if (thread == 0) return action();
  auto& actor = actors_[thread];
  if (!actor) {
    actor = std::make_unique<Actor>();
    actor->thread = std::thread([&one = *actor] { loop(one); });
  }
  actor->action = &action;
  actor->turn = 1;
  actor->turn.notify_one();
  actor->turn.wait(1);
}

} // namespace conformance
