# SPDX-License-Identifier: MIT
"""The test programs of an executable, as programs.hpp registers them."""
import subprocess
import typing


class Program(typing.NamedTuple):
    name: str
    rules: str  # that find the mistake, with spaces between them; empty if the program is right
    options: str  # of `cuevent watch`
    source: str
    what: str


def programs_of(executable):
    listed = subprocess.run([executable, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [Program(*line.split("\t")) for line in listed.splitlines()]
