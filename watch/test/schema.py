# SPDX-License-Identifier: MIT
"""What `cuevent watch --json` writes agrees with its schema."""
import json
import pathlib

try:
    import jsonschema
except ImportError:  # tools/setup --ci installs it
    jsonschema = None

IS_CHECKED = hasattr(jsonschema, "Draft202012Validator")
SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "docs/watch.schema.json").read_text())


def check(answer):
    """Raises an error that names the place, if the answer differs from the schema."""
    if IS_CHECKED:
        jsonschema.Draft202012Validator(SCHEMA).validate(answer)
