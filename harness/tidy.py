#!/usr/bin/env python3
"""Runs clang-tidy, with the checks of .clang-tidy, over what a build compiles.

usage: tidy.py BUILD [--jobs N] [--changed COMMIT] [PART...]

BUILD is a build folder with compile_commands.json; PART is a part of the paths to look at (all without). With
--changed, only files that differ from a commit. Prints what clang-tidy says, once, and ends with 1 if it says
anything, with 77 (skipped) where there is no clang-tidy of version 23 or later, in .venv or on PATH: version 16 crashes
on two of the files and runs for minutes on others.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OLDEST = 23
PINNED = "23.1.4"


def find_clang_tidy():
    named = [f"clang-tidy-{version}" for version in range(30, OLDEST - 1, -1)]
    on_path = [shutil.which(name) for name in ["clang-tidy"] + named]
    for path in [ROOT / ".venv/bin/clang-tidy"] + on_path:
        if not path or not os.access(path, os.X_OK):
            continue
        said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        version = re.search(r"version (\d+)", said)
        if version and int(version[1]) >= OLDEST:
            return str(path)
    return None


def commands_of(build, folder, together):
    """The build's commands, without g++'s precompiled headers (their text is read) and g++'s own warnings."""
    commands = json.loads((build / "compile_commands.json").read_text())
    copied = {}
    for command in commands:
        text = command["command"]
        for header in re.findall(r"-include (\S+cmake_pch\.hxx)", text):
            if header not in copied:
                copied[header] = folder / f"headers{len(copied)}.hxx"
                shutil.copy(header, copied[header])
            text = text.replace(header, str(copied[header]))
        text = re.sub(r"\S*/ccache ", "", re.sub(r"^\S*/cmake -E env (?:\w+=\S+ )+", "", text))
        command["command"] = re.sub(r"-Winvalid-pch |-Wno-error=\S+ |-fpch-\S+ |-Werror ", "", text)
    if not together:
        commands = [alone for command in commands for alone in commands_of_each(command)]
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    return commands


def commands_of_each(command):
    """A command for each of the files that a room compiles together."""
    path = pathlib.Path(command["file"])
    if path.parent.name != "Unity":
        return [command]
    files = re.findall(r'(?m)^#include "(.*)"$', path.read_text())
    return [command | {"file": f, "command": command["command"].replace(str(path), f)} for f in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--changed", metavar="COMMIT")
    parser.add_argument("parts", nargs="*", metavar="PART")
    a = parser.parse_intermixed_args()
    program = find_clang_tidy()
    if not program:
        print(f"skipped: no clang-tidy {OLDEST} or later (.venv/bin/pip install clang-tidy=={PINNED})")
        return 77
    if not (a.build / "compile_commands.json").exists():
        print(f"error: {a.build}: no compile_commands.json; configure the build first", file=sys.stderr)
        return 2
    # Without a choice, what the build compiles together is read together: a third of the time.
    together = not a.parts and not a.changed
    changed = None
    if a.changed:
        names = subprocess.run(["git", "-C", str(ROOT), "diff", "--name-only", a.changed], capture_output=True,
                               text=True, check=True).stdout
        changed = {str(ROOT / name) for name in names.split()}
    with tempfile.TemporaryDirectory(prefix="sluice-tidy-") as name:
        folder = pathlib.Path(name)
        files = sorted({c["file"] for c in commands_of(a.build, folder, together)})
        made = str(a.build.resolve()) + "/"
        files = [f for f in files if f.startswith(str(ROOT) + "/")
                 and (not f.startswith(made) or together and "/Unity/" in f)
                 and (not a.parts or any(part in f for part in a.parts)) and (changed is None or f in changed)]
        said = set()

        def look(file):
            left_out = []
            if together:  # what is compiled together includes files that are no headers
                left_out.append("-bugprone-suspicious-include")
            if "_test." in file:
                # clang-tidy does not see that ASSERT_TRUE(optional) leaves the test; a test's numbers are small, its
                # expected values are written as they are reckoned, and it starts the program under test.
                left_out += ["-bugprone-unchecked-optional-access", "-bugprone-command-processor",
                             "-bugprone-implicit-widening-of-multiplication-result",
                             "-bugprone-misplaced-widening-cast", "-bugprone-integer-division"]
            checks = ["--checks=" + ",".join(left_out)] if left_out else []
            done = subprocess.run([program, "--quiet", *checks, "-p", str(folder), file], capture_output=True,
                                  text=True)
            ended = f"clang-tidy ended with {done.returncode}\n" if done.returncode else ""
            return file, done.stdout, ended and done.stderr + ended

        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            for file, out, errors in pool.map(look, files):
                for finding in re.split(r"(?m)^(?=\S+:\d+:\d+: (?:warning|error):)", out):
                    if re.match(r"\S+:\d+:\d+:", finding) and finding not in said:
                        said.add(finding)
                        print(finding.replace(str(ROOT) + "/", ""), end="", flush=True)
                if not out and errors:
                    said.add(file)
                    print(f"{file}: {errors}", flush=True)
    print(f"{len(files)} files, {len(said)} findings")
    return 1 if said or not files else 0


if __name__ == "__main__":
    sys.exit(main())
