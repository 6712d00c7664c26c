#!/usr/bin/env python3
"""Gives every reader many inputs under the sanitizers, and keeps how many in inputs.tsv.

usage: count_inputs.py PROGRAM [--runs 1000000] [--seconds S] [--max-len 4096] [TARGET...]

PROGRAM is build-fuzz/sluice_fuzz. One target after the other starts from its corpus; what a run finds new stays in
found-TARGET in the current folder, where the next run goes on. Ends with 1 at the first defect, whose input it names.
A target that is through is a line of inputs.tsv in this folder: target, inputs, seconds, commit; a shorter count
does not replace a longer one.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "inputs.tsv"
HEADING = "target\tinputs\tseconds\tcommit"
# Half as long as by default: shorter traces of allocations, less freed memory kept, no stack kept after a return.
ASAN = "malloc_context_size=2:quarantine_size_mb=16:detect_stack_use_after_return=0"


def table():
    if not TABLE.exists():
        return {}
    return {line.split("\t")[0]: line.split("\t") for line in TABLE.read_text().splitlines()[1:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=0, help="at most, for each target (0: no limit)")
    parser.add_argument("--max-len", type=int, default=4096)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    a = parser.parse_intermixed_args()
    corpus = HERE / "corpus"
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    for target in a.targets or sorted(folder.name for folder in corpus.iterdir()):
        found = pathlib.Path(f"found-{target}")
        found.mkdir(exist_ok=True)
        begin = time.monotonic()
        done = subprocess.run(
            [str(a.program.resolve()), f"-runs={a.runs}", f"-max_total_time={a.seconds}", f"-max_len={a.max_len}",
             "-timeout=30", "-rss_limit_mb=4096", "-print_final_stats=1", f"-artifact_prefix={target}-", str(found),
             str(corpus / target)],
            env={"ASAN_OPTIONS": ASAN, **os.environ, "SLUICE_FUZZ_TARGET": target}, capture_output=True, text=True,
            errors="replace")
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            print(f"{target}: a defect\n{done.stderr[-6000:]}")
            return 1
        executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        inputs = int(executed[1]) if executed else 0
        lines = table()
        if target not in lines or int(lines[target][1]) <= inputs:
            lines[target] = [target, str(inputs), f"{seconds:.0f}", commit.stdout.strip()]
        TABLE.write_text("\n".join([HEADING] + ["\t".join(lines[name]) for name in sorted(lines)]) + "\n")
        print(f"{target}: {inputs} inputs in {seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
