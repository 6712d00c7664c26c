"""Opens a report in headless Chromium, wide and narrow, light, dark and on paper, and clicks through it.

    browser_test.py SLUICE RENDERER_PYTHON [SCREENSHOTS_DIR]

Finds no message on the console, nothing that is cut off, no empty chart, and no script that ran out of a record's text.
In charts and tables: no texts on top of each other, no line through a text, no name broken inside a word, contrasts of
WCAG 2 AA (texts 4.5, lines 3), three sizes of text, and tooltips without raw numbers.
Needs `chromium` (Debian's package); ends with exit code 77, which CTest reads as skipped, where it or the renderer is
missing. Speaks the browser's own protocol over a pipe: no driver is needed.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HOME = pathlib.Path(__file__).resolve().parent.parent
PAYLOADS = ["<script>window.pwned=1</script>", "<img src=x onerror='window.pwned=2'>", "\"><svg onload=window.pwned=3>",
            "</script><script>window.pwned=4</script>", "'-window.pwned=5-'"]
SWEEP = {
    "name": "browser", "title": "For a browser",
    "defaults": {"clock": "virtual", "steps": 12, "train": False, "seed": 1},
    "grid": [
        {"workload": "vgg16", "cluster": "flat:8", "ranks": [2, 4, 8],
         "system": ["single_device", "data_parallel", "gpipe", "one_f_one_b", "zero_bubble", "pipedream_2bw",
                    "dualpipe"]},
        {"workload": "vgg16", "cluster": "flat:4", "ranks": 4, "microbatches": [4, 8, 16],
         "system": ["gpipe", "one_f_one_b", "zero_bubble"]},
        {"workload": "gpt_1.3b", "cluster": "flat:4", "ranks": 4, "system": ["single_device", "gpipe"]},
        # Out of memory next to what fits, on a cluster that the heading has to name; many points of a front.
        {"workload": "gpt_1.3b", "cluster": "flat:4,memory=24GiB", "ranks": 4, "microbatches": [64, 128],
         "system": ["single_device", "gpipe", "one_f_one_b", "zero_bubble", "fsdp", "controllable_memory",
                    "interleaved_1f1b", "data_parallel"]}]}

# What reaches out of the window or of a frame that cuts. A table may be wider: it scrolls in its own frame.
CLIPPED = """
(function () {
  var wrong = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide + 1) wrong.push('the page scrolls sideways');
  document.querySelectorAll('body *').forEach(function (e) {
    if (!e.checkVisibility() || e.closest('svg') || e.closest('script,#tip')) return;
    var box = e.getBoundingClientRect(), frame = e.closest('.scroll'), name = e.tagName + '.' + e.className + ': ' +
      e.textContent.slice(0, 40);
    if (box.width && !frame && (box.left < -1 || box.right > wide + 1)) wrong.push('outside ' + name);
    var style = getComputedStyle(e), cuts = style.overflowX === 'hidden' || style.overflowX === 'clip';
    if (cuts && e.scrollWidth > e.clientWidth + 1) wrong.push('cut ' + name);
  });
  document.querySelectorAll('.chart').forEach(function (chart) {
    if (!chart.checkVisibility() || chart.querySelector('canvas')) return;  // drawn once it is in sight
    var svg = chart.querySelector('svg'), frame = svg && svg.getBoundingClientRect();
    var name = chart.getAttribute('aria-label');
    if (!svg || frame.width < 60 || frame.height < 40) { wrong.push('empty chart ' + name); return; }
    if (!svg.querySelector('.role-mark path, .role-mark line, .role-mark text')) wrong.push('no mark in ' + name);
    svg.querySelectorAll('text').forEach(function (text) {
      if (text.closest('[clip-path]')) return;
      var box = text.getBoundingClientRect();
      if (box.width && (box.left < frame.left - 2 || box.right > frame.right + 2 || box.top < frame.top - 2 ||
          box.bottom > frame.bottom + 2)) wrong.push('text "' + text.textContent + '" cut in ' + name);
    });
  });
  return wrong;
})()
"""

# How texts look, in charts and tables.
LEGIBLE = r"""
(function () {
  var wrong = [], sizes = {}, all = function (what, where) {
    return Array.from((where || document).querySelectorAll(what));
  };
  function rgb(text) {
    var found = /^rgba?\(([^)]*)\)/.exec(text);
    return found && found[1].split(/[ ,/]+/).map(Number);
  }
  function luminance(c) {
    return [0.2126, 0.7152, 0.0722].reduce(function (sum, weight, k) {
      var v = c[k] / 255;
      return sum + weight * (v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
    }, 0);
  }
  function contrast(a, b) {
    var x = luminance(a), y = luminance(b);
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  }
  function ground(element) {  // the first that is not transparent
    for (var at = element; at; at = at.parentElement) {
      var color = rgb(getComputedStyle(at).backgroundColor);
      if (color && (color.length < 4 || color[3] > 0.5)) return color;
    }
    return [255, 255, 255];
  }
  function meets(a, b, by) {  // by this many pixels in both directions
    return Math.min(a.right, b.right) - Math.max(a.left, b.left) > by &&
      Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > by;
  }
  function is_after(a, b) { return a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_PRECEDING; }

  all('.chart svg').forEach(function (svg) {
    if (!svg.checkVisibility()) return;
    var name = svg.parentElement.getAttribute('aria-label'), paper = ground(svg);
    var scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    var full = 13 / 12 * parseFloat(getComputedStyle(svg).getPropertyValue('--w'));
    var is_full = svg.getBoundingClientRect().width > full - 2;
    var texts = all('text', svg).filter(function (t) {
      return t.textContent.trim() && getComputedStyle(t).opacity > 0 && t.getAttribute('opacity') !== '0';
    }).map(function (t) {
      // Of a text at an angle, the box is no measure.
      return {e: t, text: t.textContent, box: t.getBoundingClientRect(), mark: !!t.closest('.role-mark'),
              outline: !!t.getAttribute('stroke'), turned: /rotate/.test(t.getAttribute('transform') || '')};
    });
    var shapes = all('.role-mark path, .role-mark line', svg).map(function (s) {
      return {e: s, box: s.getBoundingClientRect(), style: getComputedStyle(s)};
    });
    texts.forEach(function (a, k) {
      var size = Math.round(parseFloat(getComputedStyle(a.e).fontSize) * scale);
      if (is_full) sizes[size] = (sizes[size] || 0) + 1;  // drawn smaller where the window is narrow
      if (size < 9) wrong.push('tiny "' + a.text + '" in ' + name);
      // Names as long as a line may be shortened.
      if (/…/.test(a.text) && a.text.length < 64 && (a.mark || a.e.closest('.role-axis-label, .role-legend-label')))
        wrong.push('shortened "' + a.text + '" in ' + name);
      if (a.outline || a.turned) return;
      texts.slice(k + 1).forEach(function (b) {
        if (!b.outline && !b.turned && meets(a.box, b.box, 2))
          wrong.push('overlap of "' + a.text + '" and "' + b.text + '" in ' + name);
      });
      var outlines = texts.filter(function (o) { return o.outline && o.text === a.text && meets(o.box, a.box, 2); });
      if (a.mark) shapes.forEach(function (line) {
        var dash = line.style.strokeDasharray;
        if (line.e.tagName !== 'line' || dash === 'none' || !meets(line.box, a.box, 0) && !(
            line.box.left > a.box.left + 1 && line.box.left < a.box.right - 1 && line.box.top < a.box.bottom &&
            line.box.bottom > a.box.top)) return;
        if (!outlines.some(function (o) { return is_after(o.e, line.e); }))
          wrong.push('line through "' + a.text + '" in ' + name);
      });
      var under = paper, x = (a.box.left + a.box.right) / 2, y = (a.box.top + a.box.bottom) / 2;
      if (a.mark && !outlines.length) shapes.forEach(function (s) {
        var fill = rgb(s.style.fill);
        if (is_after(a.e, s.e) && fill && s.style.fillOpacity > 0.5 && !s.e.closest('.mark-symbol') &&
            s.box.left < x && s.box.right > x && s.box.top < y && s.box.bottom > y) under = fill;
      });
      var is = contrast(rgb(getComputedStyle(a.e).fill), under);
      if (is < 4.5) wrong.push('contrast ' + is.toFixed(1) + ' of "' + a.text + '" in ' + name);
    });
    all('.mark-line.role-mark path, .mark-rule.role-mark line', svg).forEach(function (line) {
      var stroke = rgb(getComputedStyle(line).stroke), own = line.getAttribute('stroke');
      // Systems keep their colours on the white page: there dash and marker tell the light ones.
      if (!stroke || own === 'white' || luminance(paper) > 0.5 && !/^Activations/.test(name)) return;
      if (contrast(stroke, paper) < 3) wrong.push('contrast of a line, ' + own + ', in ' + name);
    });
    all('.role-mark [aria-label]', svg).forEach(function (mark) {
      var words = window.sluicePage && window.sluicePage.words(mark.getAttribute('aria-label'));
      var raw = /[1-9][\d,]*\.\d{4,}|0\.0*[1-9]\d{4,}|\d{5,}\.\d|NaN|^(value|size|label|end|order|color|ink)\b/m;
      if (raw.test(words || '')) wrong.push('raw tooltip "' + words.replace(/\n/g, ' / ') + '" in ' + name);
    });
  });
  all('body *').forEach(function (e) {
    if (e.closest('svg, script, style, noscript, #tip') || !e.checkVisibility()) return;
    var own = Array.from(e.childNodes).filter(function (n) { return n.nodeType === 3 && n.data.trim(); });
    var box = e.getBoundingClientRect();
    if (!own.length || !box.width) return;
    var style = getComputedStyle(e), size = Math.round(parseFloat(style.fontSize));
    sizes[size] = (sizes[size] || 0) + 1;
    var is = contrast(rgb(style.color), ground(e));
    if (is < 4.5) wrong.push('contrast ' + is.toFixed(1) + ' of "' + own[0].data.trim().slice(0, 40) + '"');
    if (!e.closest('td:first-child')) return;
    own.forEach(function (node) {
      var word, words = /[^\s_=,]+/g;
      while ((word = words.exec(node.data))) {
        var range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (range.getClientRects().length > 1 && !/[-<]/.test(word[0]) && word[0].length < 24)
          wrong.push('broken name "' + word[0] + '"');
      }
    });
  });
  var heads = all('h2').map(function (h) { return h.textContent; });
  heads.forEach(function (h, k) { if (heads.indexOf(h) !== k) wrong.push('equal headings "' + h + '"'); });
  all('table.answers').forEach(function (table) {
    var rows = Array.from(table.tBodies[0].rows), places = rows.map(function (r) { return r.cells[0].textContent; });
    Array.from(table.tHead.rows[0].cells).forEach(function (head, k) {
      if (rows.every(function (r) { return r.cells[k].textContent === '–'; }))
        wrong.push('empty column "' + head.textContent + '"');
    });
    places.forEach(function (p, k) { if (places.indexOf(p) !== k) wrong.push('equal rows "' + p + '"'); });
  });
  if (Object.keys(sizes).length > 3 && !window.matchMedia('print').matches)
    wrong.push('sizes of text: ' + JSON.stringify(sizes));
  all('table.records, .panel[data-tab=Results] table.sort:not(.answers)').forEach(function (table) {
    var frame = table.parentElement.getBoundingClientRect(), column = table.tHead.rows[0].cells[1];
    if (table.checkVisibility() && table.parentElement.scrollLeft === 0 &&
        column.getBoundingClientRect().right > frame.right + 1)
      wrong.push('key column "' + column.textContent + '" is off the screen');
  });
  return wrong;
})()
"""


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, program, profile):
        to_browser, ours_out = os.pipe()
        ours_in, from_browser = os.pipe()

        def place_pipes():
            os.dup2(to_browser, 13), os.dup2(from_browser, 14)
            os.dup2(13, 3), os.dup2(14, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=place_pipes, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        self.out, self.input = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb")
        self.buffer, self.last, self.session = b"", 0, None
        self.messages, self.loaded = [], False
        target = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][0]["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.buffer:
            more = os.read(self.input.fileno(), 1 << 20)
            if not more:
                sys.exit("the browser has ended")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.event(answer)

    def event(self, event):
        kind, what = event["method"], event["params"]
        if kind == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description", details["text"]))
        elif kind == "Runtime.consoleAPICalled":
            self.messages.append(f"console: {[a.get('value') for a in what['args']]}")
        elif kind == "Log.entryAdded":
            self.messages.append(f"log: {what['entry']['text']}")
        elif kind == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "data:")):
            self.messages.append(f"asked the network for {what['request']['url']}")
        elif kind == "Page.loadEventFired":
            self.loaded = True

    def open(self, page, width, scheme="light", scripts=True, place=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.loading("Page.navigate", url="about:blank")  # the page at another place would not be loaded again
        self.loading("Page.navigate", url=page.as_uri() + place)

    def reload(self):
        self.loading("Page.reload")

    def loading(self, method, **parameters):
        self.loaded = False
        self.call(method, **parameters)
        while not self.loaded:
            self.event(self.read())

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"{script[:200]}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def photograph(self, file):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        pathlib.Path(file).write_bytes(base64.b64decode(shot["data"]))

    def print(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, paperWidth=8.27,
                                          paperHeight=11.69)["data"])

    def close(self):
        self.call("Browser.close")
        self.process.wait(30)


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def nothing_wrong(browser, where):
    wrong = browser.run(CLIPPED) + browser.run(LEGIBLE)
    expect(not wrong, f"{where}: {len(wrong)} cut off, empty or hard to read:\n  " + "\n  ".join(wrong[:12]))
    expect(not browser.messages, f"{where}: the console says {browser.messages}")
    expect(browser.run("window.pwned === undefined"), f"{where}: a record's text ran as a script")


def click_through(browser, where, shots):
    """Every tab of every section, each checked and photographed."""
    browser.run("document.querySelectorAll('details').forEach(function (d) { d.open = true; })")
    nothing_wrong(browser, f"{where}, all open")
    tabs = browser.run("Array.from(new Set(Array.from(document.querySelectorAll('.tabs button'))"
                       ".map(function (b) { return b.textContent; })))")
    expect({"Results", "Throughput", "Memory", "Scaling", "Timelines", "Records"} <= set(tabs), f"{where}: tabs {tabs}")
    for tab in tabs:
        browser.run("document.querySelectorAll('.tabs button').forEach(function (b) {"
                    f" if (b.textContent === {json.dumps(tab)}) b.click(); }})")
        nothing_wrong(browser, f"{where}, tab {tab}")
        if shots:
            browser.photograph(f"{shots}/{where.replace(' ', '-')}-{tab}.png")


def tables_sort_and_filter(browser):
    browser.run("t = Array.from(document.querySelectorAll('.section table.records')).sort(function (a, b) {"
                " return b.rows.length - a.rows.length; })[0]; a = t.closest('.section').querySelector('figure a');"
                "a.click()")
    expect(browser.run("new Promise(function (r) { setTimeout(r, 100); }).then(function () {"
                       " return a.hash.slice(1) === t.parentElement.id && t.checkVisibility(); })"),
           "a figure's link shows its records")
    browser.run("t.box.value = ''; t.box.dispatchEvent(new Event('input'))")
    heads = "Array.from(t.tHead.rows[0].cells).filter(function (c) { return /samples/.test(c.textContent); })[0]"
    values = ("Array.from(t.tBodies[0].rows).map(function (r) { return Number(r.cells[" + heads +
              ".cellIndex].dataset.v); }).filter(function (v) { return !isNaN(v); })")
    browser.run(heads + ".querySelector('button').click()")
    rising = browser.run(values)
    browser.run(heads + ".querySelector('button').click()")
    falling = browser.run(values)
    expect(len(rising) > 5 and rising == sorted(rising) and falling == sorted(rising, reverse=True),
           f"a table sorts: {rising} {falling}")
    browser.run("t.box.value = 'gpipe'; t.box.dispatchEvent(new Event('input'))")
    shown = browser.run("Array.from(t.tBodies[0].rows).filter(function (r) { return !r.hidden; })"
                        ".map(function (r) { return r.textContent; })")
    expect(shown and all("gpipe" in row for row in shown), f"a table filters: {shown[:3]}")


def timelines_zoom(browser, page, width, scheme):
    browser.run("f = Array.from(document.querySelectorAll('figure.timeline')).filter("
                "function (f) { return f.checkVisibility(); })[0]; f.scrollIntoView()")
    for _ in range(50):  # drawn once it is in sight
        if browser.run("f.dataset.zoom === '1'"):
            break
        time.sleep(0.1)
    inked = ("(function () { const c = f.querySelector('canvas'), d = c.getContext('2d').getImageData("
             "0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0;"
             " return n / (d.length / 4); })()")
    expect(browser.run(inked) > 0.2, "a timeline is drawn")
    browser.run("f.querySelector('[aria-label=\"Zoom in\"]').click(); f.querySelector('[aria-label=Later]').click()")
    expect(browser.run("f.dataset.zoom === '2' && Number(f.dataset.first) > 0"), "a timeline zooms and moves")
    nothing_wrong(browser, "a zoomed timeline")
    browser.run("c = f.querySelector('canvas'); b = c.getBoundingClientRect(); for (let s = 0.2; s < 1; s += 0.02)"
                " { if (document.getElementById('tip').textContent.includes('rank')) break;"
                " c.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: b.x + s * b.width,"
                " clientY: b.y + 14})); }")
    expect("rank" in browser.run("document.getElementById('tip').textContent"), "an op tells its details")
    browser.run("document.getElementById('theme').click()")
    theme = browser.run("document.documentElement.dataset.theme")
    browser.reload()
    expect(theme and browser.run("document.documentElement.dataset.theme") == theme, "the theme stays on reload")
    expect(browser.run("Array.from(document.querySelectorAll('.tabs button[aria-selected=true]')).some("
                       "function (b) { return b.textContent === 'Timelines'; })"), "the tab stays on reload")
    link = browser.run("location.hash")
    browser.open(page, width, scheme)
    expect(browser.run("document.documentElement.dataset.theme === undefined"), "a page without a choice has none")
    browser.open(page, width, scheme, place=link)
    expect(browser.run("document.documentElement.dataset.theme") == theme, f"a link has the theme: {link}")
    browser.open(page, width, scheme)


def the_check_itself_sees_faults(browser, page):
    faults = {"outside": "document.querySelector('h1').style.cssText = 'position:relative;left:2000px'",
              "cut": "document.querySelector('h1').style.cssText = 'width:20px;overflow:hidden;white-space:nowrap'",
              "empty chart": "document.querySelector('.chart svg').remove()",
              "no mark": "document.querySelectorAll('.chart .role-mark').forEach(function (m) { m.remove(); })",
              "text": "document.querySelector('.chart svg text').setAttribute('transform', 'translate(5000,0)')"}
    # As charts and tables were once: each put back must be found.
    bar = ("var t = Array.from(document.querySelectorAll('.chart .role-mark.mark-text')).map(function (g) {"
           " return g.querySelectorAll('text:not([stroke])'); }).filter(function (all) { return all.length > 2; })[0];")
    faults.update({
        "shortened": bar + "t[0].textContent = 'out of memory: rank 0 needs 23.4 GiB at its peak, its dev…'",
        "overlap": bar + "t[1].setAttribute('transform', t[0].getAttribute('transform'))",
        "line through": "document.querySelectorAll('.chart text[stroke]').forEach(function (t) { t.remove(); });"
                        "document.querySelectorAll('.chart .mark-rule.role-mark line').forEach(function (l) {"
                        " var t = l.parentElement.parentElement.querySelector('.mark-text.role-mark text');"
                        " var at = l.transform.baseVal[0];"
                        " if (t && at) t.setAttribute('transform',"
                        " 'translate(' + (at.matrix.e - 10) + ',' + (at.matrix.f + 12) + ')'); })",
        "contrast": "document.querySelector('.chart .role-axis-label text').style.fill = '#aaa'",
        "contrast of a line": "document.documentElement.dataset.theme = 'dark'; document.querySelectorAll("
                              "'.chart .mark-rule.role-mark line').forEach(function (l) { l.style.stroke = '#222'; })",
        "raw tooltip": "document.querySelector('.chart .role-mark path[aria-label]').setAttribute("
                       "'aria-label', 'value: 1316265.45671; label: GPipe')",
        "broken name": "var td = document.querySelectorAll('table.sort:not(.answers) td:first-child')[1];"
                       "td.style.cssText = 'max-width:30px;min-width:0;white-space:normal;word-break:break-all;"
                       "display:block'",
        "equal headings": "document.querySelectorAll('details.section h2').forEach(function (h) {"
                          " h.textContent = 'GPT: virtual clock'; })",
        "empty column": "document.querySelectorAll('table.answers tbody td:nth-child(3)').forEach(function (c) {"
                        " c.textContent = '–'; })",
        "equal rows": "document.querySelectorAll('table.answers tbody td:first-child').forEach(function (c) {"
                      " c.textContent = 'GPT, 8 ranks'; })",
        "sizes": "document.querySelector('h1').style.fontSize = '27px'",
        "key column": "document.querySelectorAll('table.records td:first-child').forEach(function (c) {"
                      " c.style.minWidth = '2000px'; })"})
    for fault, script in faults.items():
        browser.open(page, 1400)
        browser.run("document.querySelectorAll('.chart, table').forEach(function (c) {"
                    " var p = c.closest('.panel'); if (p) p.classList.add('shown'); })")
        browser.run(f"{{ {script} }}")
        wrong = browser.run(CLIPPED) + browser.run(LEGIBLE)
        expect(any(line.startswith(fault) for line in wrong), f"the check sees '{fault}': {wrong[:3]}")
    browser.run("console.error('x'); setTimeout(function () { nothing.there(); }, 0)")
    browser.run("new Promise(function (r) { setTimeout(r, 50); })")
    expect(len(browser.messages) == 2, f"the check sees messages: {browser.messages}")
    browser.messages.clear()


def make_records(sluice, folder):
    sweep = folder / "sweep.json"
    sweep.write_text(json.dumps(SWEEP))
    records = folder / "records.jsonl"
    # Cases that do not fit are records, too, and end the command with an exit code of their own.
    subprocess.run([sluice, "run", str(sweep), "--out", str(records)], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    lines = records.read_text().splitlines()
    attacker = json.loads(lines[3])
    attacker.pop("seal")  # it is not as it was written
    attacker.update(system=PAYLOADS[0], outcome="failed", reason=PAYLOADS[1], digest="0123456789abcdef")
    attacker["options"]["variant"] = PAYLOADS[2]
    attacker["environment"]["cpu"] = PAYLOADS[3]
    titled = []
    for line in lines[:4]:
        record = json.loads(line)
        record.pop("seal")
        record.update(cluster=PAYLOADS[3], digest=record["digest"][::-1])
        record["workload_facts"]["title"] = PAYLOADS[1] + PAYLOADS[4]
        titled.append(json.dumps(record))
    records.write_text("\n".join([*lines, json.dumps(attacker), *titled]) + "\n")
    return records


def timeline_page_answers(browser, sluice, folder, environment):
    """The page of a schedule: F and B of a second, two micro-batches."""
    page = folder / "timeline.html"
    subprocess.run([sluice, "schedule", "--system", "1f1b", "--ranks", "2", "--microbatches", "2",
                    "--costs", "1/0.5/0.5", "--html", str(page)],
                   check=True, env=environment, stdout=subprocess.DEVNULL)
    for width in (1300, 500):
        browser.open(page, width)
        nothing_wrong(browser, f"timeline page, {width}")
        expect("6 s for the schedule, bubble 33.3 %" in browser.run("document.getElementById('answer').textContent"),
               "the page computes the simulated makespan")
        browser.run("{ const slider = document.querySelector('input[aria-label=forward]'); slider.value = 1;"
                    " slider.dispatchEvent(new Event('input')); }")
        expect("9 s for the schedule, bubble 33.3 %: 50.0 % longer" in
               browser.run("document.getElementById('answer').textContent"), "forwards of two seconds take three more")
        browser.run("document.getElementById('reset').click()")
        expect("longer" not in browser.run("document.getElementById('answer').textContent"), "the button resets")


def main():
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        print("skipped: no chromium (Debian's package of that name)")
        return 77
    sluice, python = os.path.abspath(sys.argv[1]), sys.argv[2]
    if subprocess.run([python, "-c", "import vl_convert"], capture_output=True).returncode != 0:
        print("skipped: the renderer's vl-convert-python is missing")
        return 77
    shots = sys.argv[3] if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = {**os.environ, "SLUICE_PYTHON": python, "SLUICE_HOME": str(HOME)}
        records = make_records(sluice, folder)
        subprocess.run([sluice, "report", str(records), "--out", str(folder / "out"), "--claims"], check=True,
                       env=environment, stdout=subprocess.DEVNULL)
        page = folder / "out" / "report.html"
        browser = Browser(program, folder / "profile")
        try:
            for width in (1400, 1000, 500):
                for scheme in ("light", "dark"):
                    browser.open(page, width, scheme)
                    expect(browser.run("document.documentElement.dataset.ready === '1'"), "the script ran to its end")
                    nothing_wrong(browser, f"{width} {scheme}")
                    if shots:
                        browser.photograph(f"{shots}/{width}-{scheme}.png")
                    click_through(browser, f"{width} {scheme}", shots)
                    browser.run("Array.from(document.querySelectorAll('.tabs button')).forEach(function (b) {"
                                " if (b.textContent === 'Timelines') b.click(); })")
                    timelines_zoom(browser, page, width, scheme)
                    tables_sort_and_filter(browser)
                browser.open(page, width, scripts=False)
                browser.call("Emulation.setScriptExecutionDisabled", value=False)
                nothing_wrong(browser, f"{width} without scripts")
                visible = browser.run("Array.from(document.querySelectorAll('.chart, table')).every("
                                      "function (e) { return e.checkVisibility(); })")
                expect(visible, "everything shows without scripts")
            timeline_page_answers(browser, sluice, folder, environment)
            the_check_itself_sees_faults(browser, page)
            browser.open(page, 1400)
            browser.call("Emulation.setEmulatedMedia", media="print")
            nothing_wrong(browser, "on paper")
            paper = browser.print()
            if shots:
                (pathlib.Path(shots) / "paper.pdf").write_bytes(paper)
            expect(len(paper) > 50_000, "the page prints")
        finally:
            browser.close()
    print("1400, 1000 and 500 pixels, light, dark, on paper and without scripts:"
          " nothing cut off or hard to read, no message")
    return 0


if __name__ == "__main__":
    sys.exit(main())
