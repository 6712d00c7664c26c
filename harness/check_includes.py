#!/usr/bin/env python3
"""Checks who includes whom: one line per violation, exit code 1 if there is any.

    core <- plan <- {baselines, systems}      core <- workloads      core <- sim
    core <- exec <- exec/torch                core <- results <- plots
    everything <- run <- cli

LibTorch's headers only under harness/exec/torch, CLI11's only under harness/cli. Tests and benchmarks
may also use the virtual clock (harness/sim); those of systems may use more.

usage: check_includes.py [FOLDER]    the project's root; default: the folder above this file
"""
import pathlib
import re
import sys

# Longest prefix first: the room of a file is the first that its path begins with.
ROOMS = {
    "harness/exec/torch": ["harness/exec/torch", "harness/exec/nccl", "harness/exec", "harness/core"],
    "harness/exec/nccl": ["harness/exec/nccl", "harness/exec", "harness/core"],
    "harness/exec": ["harness/exec", "harness/core"],
    "harness/core": ["harness/core"],
    "harness/plan": ["harness/plan", "harness/core"],
    "harness/sim": ["harness/sim", "harness/core"],
    "harness/run": None,  # everything but the command line
    "harness/cli": None,  # everything
    "baselines": ["harness/plan", "harness/core"],
    "systems": ["harness/plan", "harness/core"],
    "workloads/profiles": ["workloads/profiles", "harness/core"],
    "workloads": ["workloads", "harness/core"],
    "results": ["results", "harness/core"],
    "plots": ["plots", "results", "harness/core"],
}
TESTS_MAY = {
    "": ["harness/sim"],
    "baselines": ["harness/sim", "harness/exec", "harness/run", "workloads", "workloads/profiles", "results"],
    "systems": ["harness/sim", "harness/exec", "harness/run", "workloads", "workloads/profiles", "results"],
}
OUTSIDE = [  # (headers, what they are, the only room that includes them)
    (re.compile(r"(torch|ATen|c10)/"), "LibTorch", "harness/exec/torch"),
    (re.compile(r"CLI/"), "CLI11", "harness/cli"),
    (re.compile(r"mpi\.h$"), "MPI", "harness/exec"),
    (re.compile(r"hwloc\.h$"), "hwloc", "harness/exec"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def violations(root):
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        room = room_of(path)
        if room is None or file.suffix not in (".h", ".cpp", ".cu"):
            continue
        test = file.stem.endswith(("_test", "_bench"))
        allowed = ROOMS[room]
        if allowed is not None and test:
            allowed = allowed + TESTS_MAY.get(room, TESTS_MAY[""])
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            quote, header = found.groups()
            place = f"{path}:{number}: "
            for pattern, name, home in OUTSIDE:
                if pattern.match(header) and room != home:
                    yield f"{place}<{header}> is {name}: include it only under {home}"
            target = room_of(header)
            if quote == '"' and not (root / header).is_file():
                yield f'{place}"{header}" is not a file of the project, written from its root'
            elif target == "harness/cli" and room != "harness/cli":
                yield f"{place}{room} may not include {header}: nothing but the command line does"
            elif target is not None and allowed is not None and target not in allowed:
                yield f"{place}{room} may not include {header}: only {', '.join(allowed)}"


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else default
    found = list(violations(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
