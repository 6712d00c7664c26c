"""An SVG that Vega drew as PGF commands, for \\input in a LaTeX document with \\usepackage{pgf}.

Paths keep their place to a hundredth of a point (of 1/72 inch); texts are set by LaTeX, in the
document's font and in the chart's size.
"""

import re
import xml.etree.ElementTree as tree

INHERITED = ("fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "stroke-opacity",
             "text-anchor", "font-size", "font-weight")
NAMES = {"white": "ffffff", "black": "000000", "transparent": "none"}
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "≤": r"$\leq$",
           "≥": r"$\geq$", "×": r"$\times$", "µ": r"$\mu$", "·": r"$\cdot$", "−": r"$-$", "…": r"\dots{}",
           **{c: "\\" + c for c in "&%$#_{}"}}


def numbers(text):
    return [float(n) for n in re.findall(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", text, re.I)]


def point(value):
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def color(text):
    """Six hexadecimal digits, or none."""
    text = NAMES.get(text, text)
    if text.startswith("rgb("):
        text = "%02x%02x%02x" % tuple(int(n) for n in numbers(text)[:3])
    text = text.lstrip("#")
    if len(text) == 3:
        text = "".join(c + c for c in text)
    return text.upper() if re.fullmatch("[0-9A-Fa-f]{6}", text) else None


def transforms(text):
    """What a transform attribute does, in its order."""
    commands = []
    for name, arguments in re.findall(r"(\w+)\(([^)]*)\)", text or ""):
        n = numbers(arguments)
        if name == "translate" and any(n):
            commands.append(rf"\pgftransformshift{{\pgfqpoint{{{point(n[0])}bp}}{{{point((n + [0])[1])}bp}}}}")
        elif name == "rotate" and n[0] % 360:
            commands.append(rf"\pgftransformrotate{{{point(n[0])}}}")
        elif name == "scale" and n != [1, 1]:
            commands.append(rf"\pgftransformxscale{{{point(n[0])}}}\pgftransformyscale{{{point(n[-1])}}}")
    return commands


def path(element, kind):
    """The outline of an element as path data of SVG; "" where it has none."""
    get = lambda name: float(element.get(name, 0))
    if kind == "path":
        return element.get("d", "")
    if kind == "line":
        return f"M{get('x1')},{get('y1')}L{get('x2')},{get('y2')}"
    if kind == "rect":
        return f"M{get('x')},{get('y')}h{get('width')}v{get('height')}h{-get('width')}Z"
    return ""


def drawn(data, style):
    """A path, filled and stroked."""
    fill, stroke = color(style.get("fill", "none")), color(style.get("stroke", "none"))
    opacity = float(style.get("opacity", 1))
    width = float(style.get("stroke-width", 1))
    if stroke and width == 0:
        stroke = None
    if not data or not (fill or stroke) or opacity == 0:
        return []
    lines = []
    if fill:
        lines.append(rf"\definecolor{{chart}}{{HTML}}{{{fill}}}\pgfsetfillcolor{{chart}}"
                     rf"\pgfsetfillopacity{{{point(opacity * float(style.get('fill-opacity', 1)))}}}")
    if stroke:
        dashes = numbers(style.get("stroke-dasharray", ""))
        dashes = "" if dashes[1:] == [0] else "".join(f"{{{point(d)}bp}}" for d in dashes)
        lines.append(rf"\definecolor{{chart}}{{HTML}}{{{stroke}}}\pgfsetstrokecolor{{chart}}"
                     rf"\pgfsetlinewidth{{{point(width)}bp}}\pgfsetdash{{{dashes}}}{{0bp}}"
                     rf"\pgfsetstrokeopacity{{{point(opacity * float(style.get('stroke-opacity', 1)))}}}")
    data = re.sub(r"-?\d*\.\d+(?:e-?\d+)?", lambda n: point(float(n.group())), data)
    # The library counts in TeX's points, of which 72.27 are an inch.
    lines.append(rf"\pgftransformscale{{1.00375}}\pgfpathsvg{{{data}}}"
                 rf"\pgfusepath{{{','.join(['fill'] * bool(fill) + ['stroke'] * bool(stroke))}}}")
    return [r"\begin{pgfscope}", *lines, r"\end{pgfscope}"]


def text(element, style):
    words = "".join(SPECIAL.get(c, c) for c in "".join(element.itertext()))
    fill = color(style.get("fill", "#000"))
    if not words or not fill or float(style.get("opacity", 1)) == 0:
        return []
    side = {"middle": "", "end": "right,"}.get(style.get("text-anchor"), "left,")
    size = numbers(style.get("font-size", "10"))[0]
    # Paths have y downwards, letters upwards.
    return [r"\begin{pgfscope}", rf"\definecolor{{chart}}{{HTML}}{{{fill}}}\pgftransformyscale{{-1}}"
            rf"\pgftext[{side}base]{{\color{{chart}}\fontsize{{{point(size)}bp}}{{{point(1.2 * size)}bp}}\selectfont "
            rf"{words}}}", r"\end{pgfscope}"]


def walk(element, style, clips):
    kind = element.tag.split("}")[-1]
    if kind == "defs" or element.get("display") == "none":
        return []
    own = {name: element.get(name) for name in INHERITED if element.get(name) is not None}
    # An opacity is of the element, not of what is in it.
    style = {**{k: v for k, v in style.items() if k != "opacity" or kind == "g"}, **own}
    lines = []
    clip = re.match(r"url\(#(.*)\)", element.get("clip-path", ""))
    if clip and clip.group(1) in clips:
        lines.append(rf"\pgftransformscale{{1.00375}}\pgfpathsvg{{{clips[clip.group(1)]}}}\pgfusepath{{clip}}"
                     r"\pgftransformscale{0.996264}")
    if kind == "text":
        lines += text(element, style)
    elif kind in ("g", "svg"):
        for child in element:
            lines += walk(child, style, clips)
    else:
        lines += drawn(path(element, kind), style)
    before = transforms(element.get("transform"))
    if not [line for line in lines if "scope" not in line]:
        return []
    return [r"\begin{pgfscope}", *before, *lines, r"\end{pgfscope}"] if before or clip else lines


def svg_to_pgf(svg):
    root = tree.fromstring(svg)
    width, height = numbers(root.get("viewBox"))[2:4]
    clips = {}
    for clip in root.iter("{http://www.w3.org/2000/svg}clipPath"):
        for shape in clip:
            clips[clip.get("id")] = path(shape, shape.tag.split("}")[-1])
    lines = [r"% Drawn by sluice. In the preamble: \usepackage{pgf,xcolor}\usepgflibrary{svg.path}",
             r"\begin{pgfpicture}",
             rf"\pgfpathrectangle{{\pgfpointorigin}}{{\pgfqpoint{{{point(width)}bp}}{{{point(height)}bp}}}}"
             r"\pgfusepath{use as bounding box}",
             rf"\pgftransformshift{{\pgfqpoint{{0bp}}{{{point(height)}bp}}}}\pgftransformyscale{{-1}}"]
    body = [child for child in root if child.tag.split("}")[-1] != "rect"]  # not the white behind all
    for child in body:
        lines += walk(child, {}, clips)
    return "\n".join([*lines, r"\end{pgfpicture}", ""])
