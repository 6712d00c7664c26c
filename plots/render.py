#!/usr/bin/env python3
"""Renders Vega-Lite charts without a browser and without a network.

    python plots/render.py CHARTS_DIR [--formats svg,png,pdf,pgf] [--points]

Makes NAME.svg (and what --formats names besides) of every NAME.vl.json in CHARTS_DIR, on all
cores. CHARTS_DIR/.rendered.json keeps a hash of what each chart was drawn from: a chart that has
not changed is not drawn again. --points: a unit of a chart is 1/72 inch. Needs the package
`vl-convert-python`. Exit codes: 0 done, 1 a chart could not be rendered, 3 the package is missing,
4 a process that draws crashed.
"""

import argparse
import concurrent.futures.process
import hashlib
import json
import os
import pathlib
import re
import sys

from svg_to_pgf import svg_to_pgf

try:
    import vl_convert
except ImportError:
    print("the Python package vl-convert-python is missing", file=sys.stderr)
    sys.exit(3)

VEGA_LITE = "5.21"  # the specs are version 5; the renderer's default may be newer
PNG_SCALE = 2
PIXELS_AN_INCH = 300  # of a PNG whose units are points
FORMATS = ("svg", "png", "pdf", "pgf")
CHARTS_A_PROCESS = 4  # starting one costs about as much as drawing four


def write(path, content):
    """Writes whole files only: a reader never sees half a chart. A link in the folder is not followed."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    with open(temporary, "xb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    os.replace(temporary, path)


def hash_of(spec):
    drawn_by = f"{vl_convert.__version__} {VEGA_LITE} {PNG_SCALE}\n"
    return hashlib.sha256(drawn_by.encode() + spec.read_bytes()).hexdigest()


def words(error):
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__


def in_unit(svg, old, new):
    """With width and height in another unit."""
    size = rf'(<svg [^>]*?width="[0-9.]+){old}(" height="[0-9.]+){old}"'
    return re.sub(size, rf'\g<1>{new}\g<2>{new}"', svg, count=1)


def draw(stem, formats, points):
    """Makes the formats of the chart STEM.vl.json: once to SVG, the others are made from it.
    Returns what went wrong, or nothing."""
    try:
        svg_path = pathlib.Path(stem + ".svg")
        if "svg" in formats:
            # Data comes inside the specs: nothing may be fetched.
            svg = vl_convert.vegalite_to_svg(
                pathlib.Path(stem + ".vl.json").read_text(), vl_version=VEGA_LITE, allowed_base_urls=[]
            )
            write(svg_path, in_unit(svg, "", "pt") if points else svg)
        else:
            svg = in_unit(svg_path.read_text(), "pt", "")
        if "png" in formats:
            # A little more: 240 points are 1000 pixels, not 999.
            scale = PIXELS_AN_INCH / 72 + 1e-6 if points else PNG_SCALE
            write(pathlib.Path(stem + ".png"), vl_convert.svg_to_png(svg, scale=scale))
        if "pdf" in formats:
            write(pathlib.Path(stem + ".pdf"), vl_convert.svg_to_pdf(svg))
        if "pgf" in formats:
            write(pathlib.Path(stem + ".pgf"), svg_to_pgf(svg))
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        return f"{stem}.vl.json: {words(error)}"
    except BaseException:  # the panic of a library in Rust, whose words are for its authors
        return f"{stem}.vl.json: the library that draws crashed: no more memory or threads (ulimit), or a defect of it"
    return ""


def read_state(path):
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def draw_all(due, points):
    """Returns what went wrong, chart by chart."""
    processes = min(len(os.sched_getaffinity(0)), (len(due) + CHARTS_A_PROCESS - 1) // CHARTS_A_PROCESS)
    if processes < 2:
        return [draw(stem, formats, points) for stem, formats in due]
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        return list(pool.map(draw, *zip(*due), [points] * len(due), chunksize=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("charts", type=pathlib.Path)
    parser.add_argument("--formats", default="svg", help="svg (always made), png, pdf, pgf; separated by commas")
    parser.add_argument("--points", action="store_true", help="a unit of the charts is a point: 1/72 inch")
    arguments = parser.parse_args()
    wanted = {"svg", *arguments.formats.split(",")}
    if not wanted <= set(FORMATS):
        parser.error(f"no such format: {', '.join(sorted(wanted - set(FORMATS)))}")

    messages = os.fdopen(os.dup(sys.stderr.fileno()), "w")
    with open(os.devnull, "w") as nowhere:  # for what libraries print while they crash
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    try:
        return render(arguments.charts, wanted, arguments.points, messages)
    except concurrent.futures.process.BrokenProcessPool:
        return 4
    except (OSError, MemoryError, RuntimeError) as error:
        print(words(error), file=messages)
        return 1


def render(charts, wanted, points, messages):
    """Returns the exit code."""
    state_path = charts / ".rendered.json"
    before, state, due = read_state(state_path), {}, []
    for spec in sorted(charts.glob("*.vl.json")):
        stem = str(spec).removesuffix(".vl.json")
        name, current = os.path.basename(stem), hash_of(spec)
        if before.get(name) != current:
            for ending in FORMATS:
                pathlib.Path(f"{stem}.{ending}").unlink(missing_ok=True)
        else:
            state[name] = current
        missing = [f for f in FORMATS if f in wanted and not os.path.exists(f"{stem}.{f}")]
        if missing:
            due.append((stem, missing))
    # A drawing that is cut off here leaves no chart with the hash of another.
    write(state_path, json.dumps(state, indent=0))
    problems = draw_all(due, points)
    for (stem, _), problem in zip(due, problems):
        if problem:
            print(problem, file=messages)
        else:
            state[os.path.basename(stem)] = hash_of(pathlib.Path(stem + ".vl.json"))
    write(state_path, json.dumps(state, indent=0))
    return 1 if any(problems) else 0


if __name__ == "__main__":
    sys.exit(main())
