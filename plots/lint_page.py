"""Checks the files of plots/page: scripts and templates can be parsed, every HTML element is closed.

    lint_page.py NODE

NODE: Node.js, which parses the scripts. Without it ("") the rest is checked, and the exit code is 77, which CTest reads
as skipped. What pages look like is checked by browser_test.py.
"""
import html.parser
import json
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent / "page"
VOID = {"meta", "input", "br", "link", "img"}


class Elements(html.parser.HTMLParser):
    """Collects the scripts and what is wrong with the nesting of elements."""

    def __init__(self, text):
        super().__init__()
        self.open, self.scripts, self.wrong = [], [], []
        self.feed(text)
        self.close()
        self.wrong += [f"line {line}: <{tag}> is not closed" for tag, line in self.open]

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append((tag, self.getpos()[0]))

    def handle_endtag(self, tag):
        if self.open and self.open[-1][0] == tag:
            self.open.pop()
        else:
            self.wrong.append(f"line {self.getpos()[0]}: </{tag}> closes nothing")

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "script":
            self.scripts.append(data)


def faults_of_script(node, text):
    done = subprocess.run([node, "--check", "-"], input=text, capture_output=True, text=True)
    return [done.stderr.strip()] if done.returncode else []


def faults_of(file, node):
    text = file.read_text()
    scripts = [text] if file.suffix == ".js" else []
    wrong = []
    if file.suffix == ".html":
        elements = Elements(re.sub(r"\{\{\w+\}\}", "null", text))  # what the program fills in
        wrong, scripts = elements.wrong, elements.scripts
    if file.suffix == ".json":
        try:
            json.loads(text)
        except ValueError as error:
            wrong.append(str(error))
    for script in scripts if node else []:
        wrong += faults_of_script(node, script)
    return [f"{file.name}: {fault}" for fault in wrong]


def the_check_itself_sees_faults(node):
    assert Elements("<p><b>a</p>").wrong and Elements("<p>").wrong and not Elements("<p>a<br></p>").wrong
    assert not node or faults_of_script(node, "var = 1;") and not faults_of_script(node, "var a = 1;")


def main():
    node = sys.argv[1]
    the_check_itself_sees_faults(node)
    files = sorted(PAGE.iterdir())
    wrong = [fault for file in files for fault in faults_of(file, node)]
    print("\n".join(wrong) or f"{len(files)} files of plots/page: no faults")
    if not node:
        print("skipped: scripts are not checked without Node.js (Debian's package nodejs)")
    return 1 if wrong else 0 if node else 77


if __name__ == "__main__":
    sys.exit(main())
