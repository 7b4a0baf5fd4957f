# SPDX-License-Identifier: MIT
"""Becomes the command `cuevent`."""
import os
import sys

from cuevent import prefix


def main():
    command = os.path.join(prefix(), "bin", "cuevent")
    try:
        os.execv(command, ["cuevent", *sys.argv[1:]])
    except PermissionError:  # pip makes the command executable, but unzip and zipfile do not
        sys.exit(f"cuevent: {command} may not be run: the wheel was unpacked without pip. Run chmod +x on it")
    except OSError as error:
        sys.exit(f"cuevent: {command}: {error.strerror}. Install the wheel of this kind of machine with pip")


if __name__ == "__main__":
    main()
