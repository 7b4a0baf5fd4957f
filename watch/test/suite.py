# SPDX-License-Identifier: MIT
"""The test programs of an executable, as programs.hpp registers them, and one watched run."""
import json
import subprocess
import typing

import schema


class Program(typing.NamedTuple):
    name: str
    rules: str  # that find the mistake, with spaces between them; empty if the program is right
    options: str  # of `cuevent watch`
    source: str
    what: str


def programs_of(executable):
    listed = subprocess.run([executable, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [Program(*line.split("\t")) for line in listed.splitlines()]


def watch(cuevent, written, options, program, environment):
    """The finished command, and the answer that it has written to a file, or None."""
    given = subprocess.run([cuevent, "watch", "--json", written, *options, "--", *program],
                           capture_output=True, text=True, env=environment, timeout=90, check=False)
    answer = json.loads(written.read_text()) if written.exists() else None
    if answer is not None:
        schema.check(answer)
    return given, answer
