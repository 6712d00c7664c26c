#!/usr/bin/env python3
"""Checks results files against results/record.schema.json.

    python results/check_records.py FILE.jsonl...

Every line must be one record. Prints FILE:LINE: POINTER: what is wrong, for every violation, and
exits with 1 if there is one; with 2 if a file cannot be read. Needs the package `jsonschema`.
"""

import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    sys.exit("check_records.py: the package jsonschema is missing; run: pip install jsonschema")


def violations(path, validator):
    """Yields (line number, JSON pointer, message) of one file."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith("\n"):
                yield number, "/", "torn: the line does not end"
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                yield number, "/", f"not JSON: {error}"
                continue
            for error in sorted(validator.iter_errors(record), key=lambda e: list(map(str, e.path))):
                yield number, "/" + "/".join(map(str, error.absolute_path)), error.message


def main(paths):
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    schema = json.loads(pathlib.Path(__file__).with_name("record.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    found = 0
    for path in paths:
        try:
            for number, pointer, message in violations(path, validator):
                found += 1
                print(f"{path}:{number}: {pointer}: {message[:300]}")
        except (OSError, UnicodeDecodeError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
