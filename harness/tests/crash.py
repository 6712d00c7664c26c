#!/usr/bin/env python3
"""Kills sweeps at random moments, and fills disks, and looks at what is left.

usage: crash.py PROGRAM [--kills 1000] [--rounds 200] [--seed 1] [--wall] [--shards-only]

A sweep of many short cases runs again and again with --resume into one file, each run ended by kill -9 after a random
time, until it is through; then the next sweep begins. They run with and without --checkpoints, --jobs and --shard and,
with --wall, train for real. Then come Ctrl-C, SIGTERM, SIGHUP, a folder that may only be read, ulimit -f and -v, and,
where a file system of 1 MiB can be mounted, a full disk. After every run: each line of the file is a record (except for
one torn last line after a kill), no finished record of an earlier run is gone or changed, none is there twice, and the
exit code is one of the documented ones. The next run goes on.

In --rounds rounds several shards write one file at once, also through links to it. Each is killed at a random moment
and started again, as another shard of 1, 2 or 3 too; in the end every case has one record.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SETTLED = {"ok", "diverged", "unsupported", "out_of_memory"}
CODES = {0, 1, 2}


class Wrong(Exception):
    pass


def records(path, may_be_torn):
    """The records of a file by digest; complains about lines that are none."""
    found = collections.defaultdict(list)
    if not path.exists():
        return found
    lines = path.read_bytes().split(b"\n")
    torn = lines.pop()
    if torn and not may_be_torn:
        raise Wrong(f"{path}: the last line has no end")
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            if may_be_torn and number == len(lines):
                continue
            raise Wrong(f"{path}:{number}: is torn")
        found[record["digest"]].append(line)
    return found


def comparable(found):
    return {digest: lines for digest, lines in found.items()
            if any(json.loads(line)["outcome"] in SETTLED for line in lines)}


def compare(before, after, path):
    for digest, lines in before.items():
        if after.get(digest, [])[:len(lines)] != lines:
            raise Wrong(f"{path}: the record of {digest} was lost or changed")
    for digest, lines in after.items():
        results = [line for line in lines if json.loads(line)["outcome"] in SETTLED]
        if len(results) > 1:
            raise Wrong(f"{path}: {digest} was done {len(results)} times")


class Sweeps:
    def __init__(self, program, seed, wall):
        self.program, self.wall = program, wall
        self.random = random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-crash-"))
        self.counts = collections.Counter()

    def sweep(self, name, cases):
        entry = {"system": ["gpipe", "1f1b", "pipedream"], "workload": "tiny", "ranks": 2, "steps": 3,
                 "costs": "analytic"}
        numbers = range(1, cases // 3 + 1)
        if self.wall:
            entry.update(seed=list(numbers))
        else:  # a seed decides nothing where nothing is trained
            entry.update(clock="virtual", cluster="flat:2", train=False, microbatches=4, batch=[4 * n for n in numbers])
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({"name": name, "grid": [entry]}))
        return file

    def start(self, sweep, out, *options, limits=None):
        return subprocess.Popen(
            [self.program, "run", sweep, "--out", out, "--resume", "--progress", "none", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limits, cwd=self.folder)

    def end(self, process, what, codes=CODES):
        _, errors = process.communicate(timeout=120)
        text = errors.decode(errors="replace")
        if process.returncode not in codes:
            raise Wrong(f"{what}: exit code {process.returncode}, not one of {sorted(codes)}\n{text[-2000:]}")
        for word in ("json.exception", "std::", "vector::", "filesystem error", "c10", "terminate", "basic_string"):
            if word in text:
                raise Wrong(f"{what}: says '{word}'\n{text[-2000:]}")
        self.counts[what] += 1
        return process.returncode, text

    def finish(self, sweep, out, what, *options):
        """A last, undisturbed run goes on and ends the sweep."""
        before = records(out, True)
        code, text = self.end(self.start(sweep, out, *options), what + ", then to the end", {0})
        after = records(out, False)
        compare(comparable(before), comparable(after), out)
        return after

    def kills(self, count):
        """Returns how many finished records stood in the files that were killed over."""
        seen = round_number = 0
        while self.counts["kill -9"] < count:
            round_number += 1
            cases = self.random.choice([30, 90, 300])
            sweep = self.sweep(f"s{round_number}", cases)
            out = self.folder / f"s{round_number}.jsonl"
            kept = ["--checkpoints", str(self.folder / "kept")]
            options = [[], kept, ["--shard", "0/2"], ["--jobs", "1"], ["--jobs", "4", *kept]][round_number % 5]
            # As long as a run takes here, so that kills fall all over it.
            begin = time.monotonic()
            probe = self.folder / "probe.jsonl"
            self.end(self.start(sweep, probe, *options), "undisturbed", {0})
            length = time.monotonic() - begin
            probe.unlink()
            for _ in range(min(25, count - self.counts["kill -9"])):
                before = comparable(records(out, True))
                process = self.start(sweep, out, *options)
                time.sleep(self.random.uniform(0, length * 0.7))
                process.kill()
                process.communicate()
                self.counts["kill -9"] += 1
                after = comparable(records(out, True))
                compare(before, after, out)
                if len(after) >= cases // (2 if "--shard" in options else 1):
                    break
            seen += len(self.finish(sweep, out, "killed", *options))
        return seen

    def shards(self, rounds):
        for number in range(rounds):
            cases = 90
            sweep = self.sweep(f"shards{number}", cases)
            out = self.folder / f"shards{number}.jsonl"
            out.touch()
            names = [out, self.folder / f"symlink{number}.jsonl", self.folder / f"hardlink{number}.jsonl"]
            names[1].symlink_to(out.name)
            os.link(out, names[2])
            for _ in range(self.random.choice([1, 2, 3])):
                n = self.random.choice([1, 2, 2, 3])
                # The last one is of another n, or the same as another one: one of them is rejected.
                parts = [(k, n) for k in range(n)] + [(0, self.random.choice([1, 2, 3]))]
                running = [self.start(sweep, self.random.choice(names), "--shard", f"{i}/{m}", "--jobs", "4")
                           for i, m in self.random.sample(parts, len(parts))]
                for process in running:
                    time.sleep(self.random.uniform(0, 0.15))
                    process.kill()
                    _, errors = process.communicate()
                    if process.returncode == 2 and b"is writing" not in errors:
                        raise Wrong(f"{out}: {errors.decode()}")
                    if process.returncode not in (0, 2, -signal.SIGKILL):
                        raise Wrong(f"{out}: exit code {process.returncode}: {errors.decode()}")
                    self.counts["shard killed" if process.returncode < 0 else "shard ended"] += 1
            n = self.random.choice([1, 2, 3])
            last = [self.start(sweep, self.random.choice(names[:2]), "--shard", f"{i}/{n}", "--jobs", "4")
                    for i in range(n)]
            for process in last:
                self.end(process, "last shard", {0})
            # Early records that were left under the other name are stored already, and go.
            self.end(self.start(sweep, names[2]), "hard link", {0})
            after = records(out, False)
            if len(after) != cases:
                raise Wrong(f"{out}: {len(after)} cases of {cases}")
            for digest, lines in after.items():
                if len(lines) > 1:
                    raise Wrong(f"{out}: {digest} is there {len(lines)} times")
            left = [p.name for p in self.folder.glob("*.early*")]
            if left:
                raise Wrong(f"{out}: {left} are left")

    def signals(self):
        sweep = self.sweep("signals", 900)
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            for k in range(5):
                out = self.folder / f"{name}.jsonl"
                before = comparable(records(out, False))
                process = self.start(sweep, out)
                time.sleep(self.random.uniform(0.3, 0.8))
                begin = time.monotonic()
                process.send_signal(getattr(signal, name))
                # 0: it was through before the signal; -n: the signal came before anything had begun.
                self.end(process, name, {0, 1, -getattr(signal, name)})
                answered = time.monotonic() - begin
                if answered > 5:
                    raise Wrong(f"{name}: answered after {answered:.1f} s")
                compare(before, comparable(records(out, False)), out)
        self.finish(sweep, self.folder / "SIGINT.jsonl", "SIGINT")

    def limits(self):
        sweep = self.sweep("limits", 90)
        for size in (1, 3000, 10000, 50000):
            out = self.folder / f"limit-f-{size}.jsonl"
            limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            code, text = self.end(self.start(sweep, out, limits=limit), "ulimit -f")
            found = records(out, False)
            self.finish(sweep, out, "ulimit -f")
            compare(comparable(found), comparable(records(out, False)), out)
        for megabytes in (32, 40, 48, 56, 64, 100, 150, 200, 300, 400, 600, 1000, 2000, 4000):
            out = self.folder / f"limit-v-{megabytes}.jsonl"
            size = megabytes << 20
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))
            # Where the program's libraries do not fit, or LibTorch's own beginning, nothing of Sluice's runs.
            starts = subprocess.run([self.program, "--version"], preexec_fn=limit, capture_output=True)
            if starts.returncode != 0:
                self.counts["ulimit -v, too little to start"] += 1
                continue
            self.end(self.start(sweep, out, limits=limit), "ulimit -v")
            found = records(out, False)
            self.finish(sweep, out, "ulimit -v")
            compare(comparable(found), comparable(records(out, False)), out)
        if self.counts["ulimit -v"] == 0:
            raise Wrong("ulimit -v: the program starts under none of the limits")

    def read_only_folder(self):
        sweep = self.sweep("readonly", 30)
        folder = self.folder / "readonly"
        folder.mkdir()
        folder.chmod(0o500)
        # Root may write in every folder, but not on a file system that is read only.
        mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(folder)]
        mounted = os.access(folder, os.W_OK) and subprocess.run(mount, capture_output=True).returncode == 0
        if os.access(folder, os.W_OK):
            print("not done here: a read-only folder (root may write everywhere, and nothing can be mounted)")
            return
        try:
            self.end(self.start(sweep, folder / "out.jsonl"), "read-only folder", {2})
            out = self.folder / "readonly.jsonl"
            self.end(self.start(sweep, out, "--checkpoints", str(folder / "kept")), "read-only checkpoints", {0, 2})
            self.finish(sweep, out, "read-only checkpoints")
        finally:
            if mounted:
                subprocess.run(["umount", str(folder)], check=True)

    def full_disk(self):
        place = self.folder / "small"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            print("not done here: a full disk (no file system of 1 MiB can be mounted)")
            return
        try:
            sweep = self.sweep("full", 900)
            out = place / "out.jsonl"
            filler = place / "filler"
            for free in (0, 4096, 20000, 100000):
                filler.write_bytes(b"x" * max(0, shutil.disk_usage(place).free - free))
                before = comparable(records(out, False))
                self.end(self.start(sweep, out), "full disk", {1, 2})
                compare(before, comparable(records(out, False)), out)
                filler.unlink()
            process = self.start(sweep, out, "--shard", "0/20")
            self.end(process, "room again", {0})
            filler.write_bytes(b"x" * shutil.disk_usage(place).free)
            kept = self.sweep("kept", 30)
            self.end(self.start(kept, self.folder / "kept.jsonl", "--checkpoints", str(place / "kept")),
                     "full disk under --checkpoints", {0})
        finally:
            subprocess.run(["umount", str(place)], check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards-only", action="store_true")
    parser.add_argument("--wall", action="store_true")
    a = parser.parse_args()
    sweeps = Sweeps(os.path.abspath(a.program), a.seed, a.wall)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # nohup and & let children ignore some
        signal.signal(number, signal.SIG_DFL)
    try:
        sweeps.shards(a.rounds)
        kept = 0
        if not a.shards_only:
            kept = sweeps.kills(a.kills)
            sweeps.signals()
            sweeps.limits()
            sweeps.read_only_folder()
            sweeps.full_disk()
    except (Wrong, subprocess.TimeoutExpired) as error:
        print(f"error: {error}\nthe files are in {sweeps.folder}")
        return 1
    shutil.rmtree(sweeps.folder, ignore_errors=True)
    for what, count in sorted(sweeps.counts.items()):
        print(f"{count:6} x {what}")
    if not a.shards_only:
        print(f"{kept} finished records, none lost, doubled or torn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
