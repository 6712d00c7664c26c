"""A bundle starts with a copy of PyTorch that it was not compiled against, and says what it lacks.

    bundle_test.py [--bundle FOLDER]      default: makes one with ./bundle in a temporary folder

Exit code 77 (skipped) where this machine lacks CUDA libraries that PyTorch loads as it starts. What needs a GPU is for
FOLDER/measure, on a machine that has one.
"""

import argparse
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HOME = HERE.parents[3]
LARGEST = 60 << 20  # bytes


def size_of(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class Bundle:
    def __init__(self, folder, site, work):
        self.folder, self.site, self.work = folder, site, work
        # CUDA's libraries, which other wheels bring: here those of .venv, and the toolkit's.
        others = glob.glob(str(HOME / ".venv/lib/python3*/site-packages/nvidia/*/lib"))
        toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/lib64"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(work), "PYTHON": sys.executable,
                            "PYTHONPATH": str(site), "LD_LIBRARY_PATH": ":".join([*others, toolkit]),
                            "SLUICE_PROFILE_CACHE": str(work / "profiles"), "OMP_NUM_THREADS": "1"}

    def run(self, *words, status=0, **more):
        done = subprocess.run([str(self.folder / "run"), *map(str, words)], env={**self.environment, **more},
                              cwd=self.work, capture_output=True, text=True, timeout=300)
        text = done.stdout + done.stderr
        if lacking := re.search(r"lib(cu|nv)\w*\.so\S*: cannot open shared object file", text):
            print(f"skipped: {lacking[0]}")
            sys.exit(77)
        if done.returncode != status:
            sys.exit(f"run {' '.join(map(str, words))}: exit code {done.returncode}, expected {status}\n{text}")
        return text


def expect(found, what):
    if not found:
        sys.exit(f"not as expected: {what}")


def loads_the_copy(b):
    text = b.run("sluice", "--version", LD_DEBUG="libs")
    torch = set(re.findall(r"calling init: (\S*/lib(?:torch|c10)[a-z_]*\.so)", text))
    expect(any(path.endswith("libtorch_cuda.so") for path in torch), "libtorch_cuda.so is loaded")
    strangers = [path for path in torch if not path.startswith(str(b.site))]
    expect(not strangers, f"all of PyTorch is that of the copy, but {strangers}")


def says_what_it_is(b, version):
    expect(f"LibTorch {version}" in b.run("sluice", "--version"), f"--version names LibTorch {version}")
    expect("one_f_one_b" in b.run("sluice", "list", "systems"), "list names systems")
    expect("v100" in b.run("sluice", "list", "calibrations"), "the bundle's own files are read")


def runs_on_the_cpu(b):
    case = ["--workload", "tiny", "--steps", "3", "--costs", "analytic", "--progress", "none"]
    b.run("sluice", "run", "--system", "gpipe", "--clock", "virtual", *case, "--no-train", "--out", "virtual.jsonl")
    b.run("sluice", "run", "--system", "gpipe", *case, "--out", "wall.jsonl")
    b.run("mpirun", "-n", "2", "--oversubscribe", b.folder / "run", "sluice", "run", "--system", "one_f_one_b", *case,
          "--transport", "mpi", "--out", "processes.jsonl")
    for name in ("virtual", "wall", "processes"):
        expect('"outcome":"ok"' in (b.work / f"{name}.jsonl").read_text().replace(" ", ""), f"{name} ends well")


def names_what_is_missing(b):
    text = b.run("cuda_test", "--gtest_brief=1")
    if "needs a CUDA device" in text:
        text = b.run("sluice", "run", "--system", "gpipe", "--workload", "vgg16_batch64", "--device", "cuda", status=2)
        expect(text.startswith("error: --device cuda: no CUDA device is usable here"), text)
    expect("has no PyTorch" in b.run("sluice", "--version", status=2, PYTHONPATH=""), "an error without PyTorch")
    expect("no program 'other'" in b.run("other", status=2), "an error about an unknown program")
    version = b.folder / "torch-version"
    right = version.read_text()
    version.write_text("1.0\n")
    expect("this bundle is for PyTorch 1.0" in b.run("sluice", "--version", status=2), "an error about another version")
    version.write_text(right)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path)
    parser.add_argument("--torch", default="2.11.0")
    a = parser.parse_args()
    (HOME / ".cache").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME / ".cache") as folder:
        work = pathlib.Path(folder)
        bundle = work / "bundle"
        if a.bundle:
            shutil.copytree(a.bundle, bundle)
        else:
            subprocess.run([HERE / "bundle", "--torch", a.torch, bundle], check=True)
        expect(size_of(bundle) < LARGEST, f"{size_of(bundle)} bytes are below {LARGEST}")
        site = work / "site"  # hard links, so that it takes no space
        for part in ("torch", "nvidia"):
            shutil.copytree(HOME / f".cache/torch-{a.torch}" / part, site / part, copy_function=os.link)
        b = Bundle(bundle, site, work)
        says_what_it_is(b, a.torch)
        loads_the_copy(b)
        runs_on_the_cpu(b)
        names_what_is_missing(b)


if __name__ == "__main__":
    main()
