#!/usr/bin/python3
"""What the pages in docs/ and at the root name is there: files between backticks and behind links, functions, macros and words
of the tables. Names of examples (a file that the reader writes) are x.c, found.json, or in capitals."""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("src", "include", "cli", "bench", "tests", "tools", "scripts", "cmake", "examples", "docs")
PLACES = ("", "docs", "src", "src/cpu", "src/cpu/generic", "src/core", "src/check", "src/net", "src/net/ops", "src/plan", "src/schemes", "src/inject",
          "src/report", "cli", "tests", "tests/emulated_gpu", "bench", "include/redoubt", "examples/fleet")
PATH = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:c|h|def|py|sh|md|json|txt|cmake|supp)")
SYMBOL = re.compile(r"\b(?:rdt|RDT|REDOUBT)_\w+")


def sources():
    text = []
    for folder in FOLDERS:
        for path in glob.glob(os.path.join(ROOT, folder, "**", "*"), recursive=True):
            if path.endswith((".c", ".h", ".def", ".txt", ".py", ".cmake", ".in", ".sh")) and os.path.isfile(path):
                with open(path, errors="replace") as f:
                    text.append(f.read())
    with open(os.path.join(ROOT, "CMakeLists.txt")) as f:
        text.append(f.read())
    return "\n".join(text)


def is_example(path):
    stem = os.path.basename(path).rsplit(".", 1)[0]
    folder = path.split("/")[0]
    return stem in ("x", "f", "name", "e", "r", "found", "run", "model") or stem.isupper() or folder.isupper()


def exists(path):
    return any(os.path.exists(os.path.join(ROOT, place, path)) for place in PLACES)


def missing(text, page, code, made):
    """Names in the text of a page that are not among the words of the sources, nor begin as those that macros put together."""
    found = []
    here = os.path.dirname(page)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target and not os.path.exists(os.path.join(ROOT, here, target)):
            found.append(f"the link to {target}")
    for words in re.findall(r"`([^`\n]+)`", text):
        for path in PATH.findall(words):
            if words == path and not is_example(path) and not exists(path):
                found.append(f"the file {path}")
        if re.fullmatch(r"[a-z]\w*_\w+", words) and not words.startswith("test_x") and not exists(f"tests/{words}.c") \
                and words not in code:
            found.append(words)
        if re.fullmatch(r"(?:src|cli|tests|tools|scripts|include|bench|examples|docs)/[\w/-]+/?", words):
            if not glob.glob(os.path.join(ROOT, words.rstrip("/") + "*")):
                found.append(f"the file or folder {words}")
    for symbol in SYMBOL.findall(re.sub(r"(?m)^    .*$", "", text)):  # not in code that is only an outline
        if not re.search(r"_x\b|_X\b|_$|NAME", symbol) and symbol not in code and not symbol.startswith(made):
            found.append(symbol)
    return found


def main():
    text = sources()
    code, made = set(re.findall(r"\w+", text)), tuple(set(re.findall(r"\b(?:rdt|RDT)_\w*?_(?=##)", text)))
    pages = [os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "docs", "*.md"))]
    pages += ["README.md", "CONTRIBUTING.md"]
    bad = 0
    for page in sorted(pages):
        with open(os.path.join(ROOT, page)) as f:
            text = f.read()
        for what in missing(text, page, code, made):
            bad += 1
            print(f"{page} names {what}, which is not there")
    false = "[x](no/such.md) `src/no/such.c` `src/nothing/here` rdt_no_such_function `no_such_thing`"
    if len(missing(false, "docs/x.md", code - {"rdt_no_such_function", "no_such_thing"}, made)) != 5:
        bad += 1
        print("five names that are nowhere were not all noticed")
    print(f"{len(pages)} pages, {bad} names that are not there")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
