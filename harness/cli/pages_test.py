"""Every block of baselines/README.md does what the page says, the workload of workloads/README.md has a plan, and the
example for pandas in results/README.md runs.

    pages_test.py SLUICE COMPILER

Blocks of sh are run line by line in a folder that stands in for the project's; of json, are kept under the name that
the page gives them; of cpp, are compiled. What `sluice new` wrote is compiled, too (cli_test runs it).
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INCLUDES = """#include <algorithm>
#include "harness/base/index.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"
namespace sluice {
"""


def blocks(page):
    text = open(os.path.join(HOME, page)).read()
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)


def fail(what, run):
    sys.exit(f"{what}: exit code {run.returncode}\n{run.stdout}\n{run.stderr}")


def compiles(compiler, source, folder):
    run = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
                          "-Werror", "-Wno-missing-field-initializers", "-Wno-unused-function", f"-I{HOME}", source],
                         cwd=folder, capture_output=True, text=True)
    if run.returncode != 0:
        fail(source, run)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sluice, compiler = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        for part in ("baselines", "workloads/models", "workloads/clusters", "harness/sweeps"):
            os.makedirs(os.path.join(folder, part))
        for name in os.listdir(f"{HOME}/workloads/clusters"):
            shutil.copy(f"{HOME}/workloads/clusters/{name}", f"{folder}/workloads/clusters/{name}")
        environment = {**os.environ, "SLUICE_HOME": folder}
        seen = {"sh": 0, "cpp": 0, "json": 0}
        snippets = ""
        for language, text in blocks("baselines/README.md"):
            seen[language] += 1
            if language == "json":
                open(f"{folder}/mine.json", "w").write(text)
            elif language == "cpp":
                snippets += text.replace("my_system =", f"my_system_{seen['cpp']} =")
            else:
                for line in text.splitlines():
                    words, _, output = line.split("#")[0].partition(" > ")
                    command = words.split()
                    if command[0] != "sluice":
                        sys.exit(f"the page runs '{line}'")
                    run = subprocess.run([sluice, *command[1:]], cwd=folder, env=environment, capture_output=True,
                                         text=True, timeout=250)
                    if run.returncode != 0:
                        fail(line, run)
                    if output:
                        open(f"{folder}/{output.strip()}", "w").write(run.stdout)
        if min(seen.values()) == 0:
            sys.exit(f"blocks of the page: {seen}")
        open(f"{folder}/snippets.cpp", "w").write(INCLUDES + snippets + "}\n")
        compiles(compiler, f"{folder}/snippets.cpp", folder)
        compiles(compiler, f"{folder}/workloads/models/my_model_workload.cpp", folder)

        workloads = [text for _, text in blocks("workloads/README.md") if "sluice/workload/1" in text]
        if len(workloads) != 1:
            sys.exit("workloads/README.md has one workload as a file")
        open(f"{folder}/own.json", "w").write(workloads[0])
        run = subprocess.run([sluice, "plan", "--system", "1f1b", "--workload", "own.json", "--cluster", "flat:2"],
                             cwd=folder, env=environment, capture_output=True, text=True)
        if run.returncode != 0:
            fail("the workload of workloads/README.md", run)

        examples = [text for language, text in blocks("results/README.md") if language == "python"]
        if len(examples) != 1:
            sys.exit("results/README.md has one example for pandas")
        exported = subprocess.run([sluice, "export", f"{folder}/mine.jsonl"],
                                  capture_output=True, text=True, check=True)
        open(f"{folder}/quick.csv", "w").write(exported.stdout)
        has_pandas = subprocess.run([sys.executable, "-c", "import pandas, matplotlib"], capture_output=True)
        if has_pandas.returncode != 0:
            print("pandas or matplotlib is missing: the example of results/README.md was not run")
            return
        run = subprocess.run([sys.executable, "-c", examples[0]], cwd=folder, capture_output=True, text=True,
                             env={**os.environ, "MPLBACKEND": "agg"})
        if run.returncode != 0 or not os.path.exists(f"{folder}/throughput.svg"):
            fail("the example for pandas", run)


if __name__ == "__main__":
    main()
