"""Runs the scripts of harness/examples and compares what each prints with the file NAME.out in the same folder.

    examples_test.py SLUICE [--write]    --write: replace the files
"""
import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "examples"


def output(script: Path, sluice: str) -> str:
    run = subprocess.run([script], env={**os.environ, "SLUICE": sluice}, capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        sys.exit(f"{script.name} ends with exit code {run.returncode}:\n{run.stderr}")
    lines = re.sub(r"search: [0-9.]+ \w+", "search: ...", run.stdout).splitlines()
    return "".join(line.rstrip() + "\n" for line in lines)


def main() -> None:
    sluice = str(Path(sys.argv[1]).resolve())
    scripts = sorted(FOLDER.glob("*.sh"))
    wrong = []
    for script in scripts:
        text, shown = output(script, sluice), script.with_suffix(".out")
        if sys.argv[2:] == ["--write"]:
            shown.write_text(text)
        elif not shown.exists() or shown.read_text() != text:
            wrong.append(script.name)
            print(f"{script.name} printed:\n{text}")
    if wrong or not scripts:
        sys.exit(f"not as shown: {', '.join(wrong) or 'no example found'}; run: examples_test.py SLUICE --write")


main()
