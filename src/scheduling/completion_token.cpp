// SPDX-License-Identifier: MIT
#include <cuevent/completion_token.hpp>

#include "scheduling/callback_storage.hpp"

namespace cuevent {

bool CompletionToken::cancel() const noexcept {
  return storage_ != nullptr && storage_->cancel(node_, life_);
}

void CompletionToken::drop() noexcept { storage_->drop(); }

} // namespace cuevent
