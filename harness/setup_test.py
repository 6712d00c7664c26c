"""./check and ./quickstart: their help does nothing, and no option of the build is left to what a cache holds."""
import json
import os
import re
import subprocess
import sys

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    wrong = []
    for script in ("check", "quickstart"):
        for flag in ("--help", "-h"):
            # Without a PATH to any tool but cat and dirname, whatever else it did would fail.
            tools = {"PATH": "/nowhere"}
            shell = f'cat() {{ while IFS= read -r l; do echo "$l"; done; }}; dirname() {{ echo "{HOME}"; }}; ' \
                    f'BASH_ARGV0={HOME}/{script}; set -- {flag}; source {HOME}/{script}'
            run = subprocess.run(["/bin/bash", "-c", shell], env=tools, capture_output=True, text=True, timeout=120)
            if run.returncode != 0 or not run.stdout.startswith(f"usage: ./{script}") or run.stderr:
                wrong.append(f"{script} {flag}: {run.returncode} {run.stdout} {run.stderr}")
        run = subprocess.run([f"{HOME}/{script}", "--nonsense"], capture_output=True, text=True, timeout=120)
        if run.returncode != 2 or "unknown argument '--nonsense'" not in run.stderr:
            wrong.append(f"{script} --nonsense: {run.returncode} {run.stderr}")
    cmake = open(f"{HOME}/CMakeLists.txt").read()
    options = set(re.findall(r"^(?:option\((SLUICE_\w+)|set\((SLUICE_\w+) \S+ CACHE)", cmake, re.M))
    options = {name for pair in options for name in pair if name} | {"CMAKE_BUILD_TYPE"}
    presets = json.load(open(f"{HOME}/CMakePresets.json"))["configurePresets"]
    default = next(p for p in presets if p["name"] == "default")["cacheVariables"]
    for option in sorted(options - set(default)):
        wrong.append(f"CMakePresets.json: the preset 'default' leaves {option} to the cache")
    print("\n".join(wrong))
    return 1 if wrong or len(options) < 6 else 0


if __name__ == "__main__":
    sys.exit(main())
