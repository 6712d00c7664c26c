#!/usr/bin/env python3
"""Checks who includes whom: one line per violation, exit code 1 if there is any.

A room may include itself and the rooms below it, as ROOMS lists them. No two files include each other in a circle, by
whatever way round; a header and the .cpp of the same name count as one file. LibTorch's headers only under
harness/exec/torch, CLI11's only under harness/cli, nlohmann/json's only in harness/base, MPI's only under
harness/exec/mpi. Tests and benchmarks may also use what TESTS_MAY lists.

usage: check_includes.py [FOLDER]    the project's root; default: the folder above this file
"""
import pathlib
import re
import sys

BASE = ["harness/base"]
MODEL = ["harness/model"] + BASE
PIPELINE = ["harness/pipeline"] + MODEL
PROGRAM = ["harness/program"] + PIPELINE
EXEC = ["harness/exec"] + PROGRAM
MPI = ["harness/exec/mpi"] + EXEC
NCCL = ["harness/exec/nccl"] + EXEC
TORCH_LAYERS = ["harness/exec/torch/layers"] + EXEC
TORCH_STAGE = ["harness/exec/torch/stage"] + TORCH_LAYERS + NCCL
TORCH_SESSION = ["harness/exec/torch/session"] + TORCH_STAGE
SIM = ["harness/sim"] + PROGRAM
PLAN = ["harness/plan"] + PIPELINE
SYSTEMS = ["baselines", "systems"]
MODELS = ["workloads/models"] + MODEL
DATA = ["workloads/data"] + MODEL
PROFILES = ["workloads/profiles"] + PIPELINE
RESULTS = ["results"] + PIPELINE
CASE = ["harness/case"] + SIM + PLAN + MPI + MODELS + PROFILES + DATA + RESULTS
TRAIN = ["harness/train"] + CASE
RUN = ["harness/run"] + TRAIN
PLOTS = ["plots"] + RESULTS
CLAIMS = ["harness/claims"] + CASE + PLOTS
# The room of a file is the longest of these that its path begins with. Of a system, the folder of its own.
ROOMS = {
    "harness/base": BASE,
    "harness/model": MODEL,
    "harness/pipeline": PIPELINE,
    "harness/program": PROGRAM,
    "harness/sim": SIM,
    "harness/plan": PLAN,
    "harness/exec": EXEC,
    "harness/exec/mpi": MPI,
    "harness/exec/nccl": NCCL,
    "harness/exec/torch/layers": TORCH_LAYERS,
    "harness/exec/torch/stage": TORCH_STAGE,
    "harness/exec/torch/session": TORCH_SESSION,
    "harness/exec/torch/cuda": ["harness/exec/torch/cuda"] + TORCH_SESSION,
    "harness/exec/torch/library": TORCH_SESSION,
    "workloads/models": MODELS,
    "workloads/data": DATA,
    "workloads/profiles": PROFILES,
    "results": RESULTS,
    "plots": PLOTS,
    "baselines": PLAN + ["harness/program"],
    "systems": PLAN,
    "harness/case": CASE,
    "harness/train": TRAIN,
    "harness/run": RUN,
    "harness/claims": CLAIMS,
    "harness/cli": ["harness/cli"] + RUN + CLAIMS,
    "harness/tests": ["harness/tests"] + RUN + SYSTEMS + NCCL + CLAIMS,
    "harness/tests/fuzz": ["harness/tests/fuzz", "harness/cli"] + RUN + SYSTEMS + CLAIMS,
}
TESTS_MAY = {
    "": ["harness/program", "harness/sim"],
    "harness/cli": ["harness/tests"],
    "harness/train": ["harness/tests", "harness/run"],
    "harness/run": ["harness/tests"],
    "harness/exec/torch/layers": ["harness/exec/torch/stage"],
    "harness/exec/torch/cuda": ["harness/exec/mpi"],
}
OUTSIDE = [  # (headers, what they are, the only folder that includes them)
    (re.compile(r"(torch|ATen|c10)/"), "LibTorch", "harness/exec/torch"),
    (re.compile(r"CLI/"), "CLI11", "harness/cli"),
    (re.compile(r"nlohmann/"), "nlohmann/json", "harness/base"),
    (re.compile(r"mpi\.h$"), "MPI", "harness/exec/mpi"),
    (re.compile(r"hwloc\.h$"), "hwloc", "harness/exec"),
    (re.compile(r"(cuda|nccl)[a-z_]*\.h$"), "CUDA", "harness/exec/torch/cuda"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default=None)


def allowed_in(room, path, test):
    allowed = ROOMS[room] + (TESTS_MAY.get(room, []) + TESTS_MAY[""] if test else [])
    if room in SYSTEMS:  # a system's own folder, and nobody else's
        allowed = allowed + [room]
    return allowed


def includes_of(file):
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1), found.group(2)


def source_files(root):
    for top in ("baselines", "systems", "workloads", "harness", "results", "plots"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix in (".h", ".cpp", ".cu"):
                yield file


def room_violations(root):
    for file in source_files(root):
        path = file.relative_to(root).as_posix()
        room = room_of(path)
        if room is None:
            continue
        test = re.search(r"_(test|bench|support)$", file.stem) is not None
        allowed = allowed_in(room, path, test)
        for number, quote, header in includes_of(file):
            place = f"{path}:{number}: "
            for pattern, name, home in OUTSIDE:
                if quote == "<" and pattern.match(header) and not path.startswith(home + "/"):
                    yield f"{place}<{header}> is {name}: include it only under {home}"
            if quote != '"':
                continue
            if not (root / header).is_file():
                yield f'{place}"{header}" is not a file of the project, written from its root'
                continue
            target = room_of(header)
            if target is not None and target not in allowed:
                yield f"{place}{room} may not include {header}: only {', '.join(sorted(allowed))}"
            elif room in SYSTEMS and not test and target in SYSTEMS and "/".join(path.split("/")[:2]) != "/".join(
                    header.split("/")[:2]):
                yield f"{place}a system does not include another one's {header}"


def circles(root):
    """Circles among the files, a header and its .cpp being one: the shortest through each first file."""
    edges = {}
    for file in source_files(root):
        name = file.relative_to(root).with_suffix("").as_posix()
        for _, quote, header in includes_of(file):
            other = header.rsplit(".", 1)[0]
            if quote == '"' and other != name:
                edges.setdefault(name, set()).add(other)
    reported = set()
    for start in sorted(edges):
        before = {start: None}
        queue = [start]
        for at in queue:
            if start in edges.get(at, ()):
                way = []
                while at is not None:
                    way.append(at)
                    at = before[at]
                if not reported & set(way):
                    reported |= set(way)
                    yield f"{start}: files include each other in a circle: {' -> '.join(way[::-1] + [start])}"
                break
            for other in sorted(edges.get(at, ())):
                if other not in before:
                    before[other] = at
                    queue.append(other)


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else default
    found = list(room_violations(root)) + list(circles(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
