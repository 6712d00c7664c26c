"""Installs a build into a folder, moves that folder, and uses it there: the program from another place, and the library
in a CMake project of its own (harness/install/example), whose output is compared with output.txt.

    install_test.py BUILD SLUICE CXX
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(*command, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **more)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        sys.exit(f"{words}: exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def same(what: str, found: str, expected: str) -> None:
    found, expected = (re.sub(r"search: .*", "search: ...", text) for text in (found, expected))
    if found != expected:
        sys.exit(f"{what} printed:\n{found}\nexpected:\n{expected}")


def check_program(prefix: Path, folder: Path, built: str) -> None:
    """The installed program gives what the built one does, and writes into the folder that it is started in."""
    sluice = prefix / "bin" / "sluice"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE")}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    outside = {"cwd": folder, "env": environment}
    for words in (["list"], ["plan", "-s", "1f1b", "-w", "gpt_1.3b", "-c", "dgx_h100"], ["list", "standard"]):
        same(" ".join(words), run(sluice, *words, **outside), run(built, *words))
    run(sluice, "run", "-s", "gpipe", "-w", "gpt_tiny", "-c", "flat:2", "--clock", "virtual", "--no-train", **outside)
    run(sluice, "new", "baseline", "my_system", **outside)
    for written in ("results/runs/gpipe-gpt_tiny.jsonl", "my_system.cpp"):
        if not (folder / written).exists():
            sys.exit(f"{written} was not written into the current folder")
    if not (prefix / "share/sluice/commit").read_text().strip():
        sys.exit("share/sluice/commit is empty")


def check_moved_checkout(folder: Path, built: str) -> None:
    """A program in the build folder of a copied checkout reads that one, not the one it was compiled in."""
    copy = folder / "copy"
    for part in ("build", "harness/sweeps", "workloads/clusters"):
        (copy / part).mkdir(parents=True)
    shutil.copy(built, copy / "build" / "sluice")
    cluster = HERE.parents[1] / "workloads/clusters/dgx_h100.json"
    shutil.copy(cluster, copy / "workloads/clusters/my_copy.json")
    environment = {k: v for k, v in os.environ.items() if k != "SLUICE_HOME"}
    clusters = run(copy / "build" / "sluice", "list", "clusters", env=environment)
    if "my_copy" not in clusters or "dgx_a100_x2" in clusters:
        sys.exit(f"list clusters of a copied checkout printed:\n{clusters}")


def check_library(prefix: Path, folder: Path, compiler: str) -> None:
    build = folder / "build"
    run("cmake", "-S", HERE / "example", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", build)
    same("the example", run(build / "my_planner"), (HERE / "example" / "output.txt").read_text())


def main() -> None:
    build, built, compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        first, prefix, folder = (Path(temporary) / name for name in ("first", "moved", "work"))
        run("cmake", "--install", build, "--prefix", first)
        first.rename(prefix)
        folder.mkdir()
        check_program(prefix, folder, built)
        check_moved_checkout(folder, built)
        check_library(prefix, folder, compiler)


main()
