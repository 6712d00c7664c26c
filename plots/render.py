#!/usr/bin/env python3
"""Renders Vega-Lite charts without a browser and without a network.

    python plots/render.py CHARTS_DIR [--bundle FILE]

Makes NAME.svg, NAME.png and NAME.pdf of every NAME.vl.json in CHARTS_DIR. --bundle writes Vega,
Vega-Lite and Vega-Embed as one script, for pages that must work offline. Needs the package
`vl-convert-python`. Exit codes: 0 done, 1 a chart could not be rendered, 3 the package is missing.
"""

import argparse
import os
import pathlib
import sys

try:
    import vl_convert
except ImportError:
    print("the Python package vl-convert-python is missing", file=sys.stderr)
    sys.exit(3)

VEGA_LITE = "5.21"  # the specs are version 5; the renderer's default may be newer
PNG_SCALE = 2


def write(path, content):
    """Writes whole files only: a reader never sees half a chart."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("charts", type=pathlib.Path)
    parser.add_argument("--bundle", type=pathlib.Path)
    arguments = parser.parse_args()
    failed = 0
    for spec_path in sorted(arguments.charts.glob("*.vl.json")):
        stem = spec_path.name.removesuffix(".vl.json")
        try:
            # Once to SVG; the other two are made from it.
            # Data comes inside the specs: nothing may be fetched.
            svg = vl_convert.vegalite_to_svg(
                spec_path.read_text(), vl_version=VEGA_LITE, allowed_base_urls=[]
            )
            write(spec_path.with_name(stem + ".svg"), svg)
            write(spec_path.with_name(stem + ".png"), vl_convert.svg_to_png(svg, scale=PNG_SCALE))
            write(spec_path.with_name(stem + ".pdf"), vl_convert.svg_to_pdf(svg))
        except Exception as error:  # the library raises ValueError for all that it dislikes
            failed += 1
            print(f"{spec_path}: {error}", file=sys.stderr)
    if arguments.bundle:
        write(arguments.bundle, vl_convert.javascript_bundle(vl_version=VEGA_LITE))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
