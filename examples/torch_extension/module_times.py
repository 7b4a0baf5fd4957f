# SPDX-License-Identifier: MIT
"""Times the modules of a model on the device, without waiting for the device."""
import torch  # before cuevent_torch, which needs its libraries

import cuevent_torch


class ModuleTimes:
    """Times the forward pass of each module with a name: `ModuleTimes(model, device=0)`.

    The times appear in table() after their work has completed. remove() takes the hooks away.
    """

    def __init__(self, model, device):
        self.device = device
        self.timer = cuevent_torch.StageTimer(device)
        self.hooks = []
        for name, module in model.named_modules():
            name = name or type(model).__name__
            self.hooks += [
                module.register_forward_pre_hook(lambda *_, name=name: self.open(name)),
                # Also if the module raises an exception, so that no stage stays open.
                module.register_forward_hook(lambda *_: self.close(), always_call=True),
            ]

    def open(self, name):
        self.timer.open(torch.cuda.current_stream(self.device), name)

    def close(self):
        self.timer.close(torch.cuda.current_stream(self.device))

    def remove(self):
        for hook in self.hooks:
            hook.remove()

    def table(self):
        lines = [f"{'stage':<24}{'count':>8}{'p50 us':>10}{'p99 us':>10}"]
        for name, stage in self.timer.report().items():
            lines.append(f"{name:<24}{stage['count']:>8}{stage['p50_us']:>10.1f}{stage['p99_us']:>10.1f}")
        return "\n".join(lines)
