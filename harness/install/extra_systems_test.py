"""Configures Sluice with a folder of systems of one's own, and checks which systems CMake puts into the table.

    extra_systems_test.py SOURCE SLUICE CXX
"""
import subprocess
import sys
import tempfile
from pathlib import Path


def configure(source: str, build: Path, compiler: str, folders: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}", "-DSLUICE_TORCH=OFF",
         "-DSLUICE_TESTS=OFF", "-DSLUICE_BENCHMARKS=OFF", f"-DSLUICE_EXTRA_SYSTEMS={folders}"],
        capture_output=True, text=True, timeout=300)


def demand(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(text)


def main() -> None:
    source, sluice, compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        own, build = Path(temporary) / "own systems", Path(temporary) / "build"
        (own / "with_folder").mkdir(parents=True)
        new = subprocess.run([sluice, "new", "baseline", "my_system", "--folder", own], capture_output=True, text=True)
        demand(new.returncode == 0, new.stderr)
        demand(f"configure Sluice with -DSLUICE_EXTRA_SYSTEMS={own}" in new.stdout, new.stdout)
        text = (own / "my_system.cpp").read_text()
        (own / "with_folder" / "with_folder.cpp").write_text(text.replace("my_system", "with_folder"))
        (own / "with_folder" / "its_search.cpp").write_text("// what else it needs\n")

        done = configure(source, build, compiler, str(own))
        demand(done.returncode == 0, done.stdout + done.stderr)
        table = (build / "generated" / "system_table.cpp").read_text()
        entries = [line.strip(" &,") for line in table.splitlines() if line.startswith("    &")]
        demand(entries[-2:] == ["my_system", "with_folder"], f"the table ends with {entries[-2:]}")
        demand(f"kShipped = {len(entries) - 2};" in table, "the shipped systems are not counted")
        rules = (build / "build.ninja").read_text()
        for name in ("my_system.cpp.o", "with_folder.cpp.o", "unity_with_folder"):  # which holds its_search.cpp
            demand(name in rules, f"{name} is not made")

        (own / "gpipe.cpp").write_text(text.replace("my_system", "gpipe"))
        done = configure(source, build, compiler, str(own))
        demand(done.returncode != 0 and "there is a system 'gpipe' already" in done.stderr, done.stderr)
        done = configure(source, build, compiler, str(own / "nowhere"))
        demand(done.returncode != 0 and "is no folder" in done.stderr, done.stderr)


main()
