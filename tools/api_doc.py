#!/usr/bin/python3
"""docs/api.md from the public headers: a section for each header, in it every function, type and constant with its comment.

    tools/api_doc.py >docs/api.md
    tools/api_doc.py --check          is docs/api.md what the headers say?

A declaration belongs to the comment right above it (a run of declarations without an empty line shares one), or to the one at
the end of its line. A public function, type or macro without either is an error: it says how to use it, or nobody knows."""
import difflib
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = ["redoubt", "status", "tensor", "context", "plan", "model"]  # as they build on each other; others follow
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)


class Bad(Exception):
    pass


def plain(comment):
    """The words of a comment, paragraphs apart."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().split("\n")]
    return "\n".join(lines).strip()


def items(text):
    """(comment, code) of each declaration at the top level; comment None where there is no own one, "" in a run."""
    pending, at, found = None, 0, []
    while at < len(text):
        space = re.match(r"\s*", text[at:]).group()
        if space.count("\n") > 1:
            pending = None  # an empty line: a comment above it belongs to none
        at += len(space)
        if at >= len(text):
            break
        comment = COMMENT.match(text, at)
        if comment:
            pending, at = plain(comment.group(1)), comment.end()
            continue
        if text[at] == "#":
            end = at
            while True:  # lines that end with a backslash go on
                end = text.find("\n", end)
                if end < 0 or text[end - 1] != "\\":
                    break
                end += 1
            end = len(text) if end < 0 else end
        else:
            end, depth = at, 0
            while end < len(text):
                inner = COMMENT.match(text, end)
                if inner:
                    end = inner.end()
                    continue
                depth += (text[end] == "{") - (text[end] == "}")
                end += 1
                if depth == 0 and text[end - 1] == ";":
                    break
        code = text[at:end]
        behind = re.match(r"[ \t]*/\*(.*?)\*/", text[end:], re.S)
        if behind and not code.startswith("#"):
            own = plain(behind.group(1))
            end += behind.end()
        elif code.startswith("#") and COMMENT.search(code):
            own = plain(COMMENT.search(code).group(1))
        else:
            own = None
        found.append((pending, own, code.strip()))
        at = end
    return found


def name_of(code):
    """What a declaration declares, and of which kind; None: nothing that a caller uses."""
    if code.startswith("#"):
        macro = re.match(r"#define (\w+)", code)
        hidden = not macro or re.match(r"(REDOUBT_\w*H|RDT_API|RDT_MUST_USE)$", macro.group(1))
        return None if hidden else (macro.group(1), "constant")
    kind = re.match(r"typedef (?:struct|enum|union) (\w+)", code)
    if kind:
        return kind.group(1), "type"
    pointer = re.match(r"typedef .*?\(\*(\w+)\)", code, re.S)
    if pointer:
        return pointer.group(1), "type"
    values = re.match(r"enum \{ *(\w+)", code)
    if values:
        return values.group(1), "constant"
    function = re.search(r"\b(rdt_\w+)\(", code)
    return (function.group(1), "function") if function else None


def header(name):
    """What a header is, and its declarations: (name, kind, comment, code), those that share a comment together."""
    with open(os.path.join(ROOT, "include", "redoubt", name + ".h")) as f:
        text = f.read()
    top = COMMENT.match(text)
    if not top:
        raise Bad(f"include/redoubt/{name}.h does not begin with a comment that says what it is for")
    text = re.sub(r"#ifdef __cplusplus.*?#endif\n", "", text[top.end():], flags=re.S)
    text = re.sub(r"#if defined\(__GNUC__\).*?#endif\n", "", text, flags=re.S)
    groups, shared = [], None
    for pending, own, code in items(text):
        declared = name_of(code)
        if not declared:
            continue
        if pending is not None and (shared is None or pending != shared[0]):
            shared = (pending, [])
            groups.append(shared)
        elif pending is None or shared is None:
            shared = (None, [])
            groups.append(shared)
        if pending is None and own is None and "/*" not in code and declared[1] != "constant":
            raise Bad(f"include/redoubt/{name}.h: {declared[0]} has no comment: say above it what it does, what it takes, "
                      "which errors it gives")
        shared[1].append((*declared, own, code))
    return plain(top.group(1)), groups


def tidy(code, own):
    """The declaration without what only the compiler needs; its further lines move left with the first one."""
    marks = re.match(r"((RDT_API|RDT_MUST_USE) )*", code).end()
    lines = code[marks:].split("\n")
    if marks:
        lines[1:] = [line[marks:] if line[:marks].isspace() else line for line in lines[1:]]
    return "\n".join(lines) + (f" /* {' '.join(own.split())} */" if own and not code.startswith("#") else "")


def linked(text, known):
    """Names of the API become links to where they are explained, or code."""
    return re.sub(r"\b(?:rdt_|RDT_)\w+", lambda m: f"[`{m[0]}`](#{m[0]})" if m[0] in known else f"`{m[0]}`", text)


def page():
    folder = os.path.join(ROOT, "include", "redoubt")
    there = sorted(f[:-2] for f in os.listdir(folder) if f.endswith(".h"))
    order = [h for h in HEADERS if h in there] + [h for h in there if h not in HEADERS]
    out = ["# The C API", "",
           "`#include <redoubt/redoubt.h>` brings all of it. Written by `tools/api_doc.py >docs/api.md` from the headers in",
           "`include/redoubt/`; [examples/protect_gemm.c](../examples/protect_gemm.c) is a whole program. Functions marked *checked*",
           "warn where their status is ignored.", ""]
    parsed = {h: header(h) for h in order}
    known = {name for _, groups in parsed.values() for _, members in groups for name, *_ in members}
    names, sections = [], []
    for h in order:
        what, groups = parsed[h]
        part = [f"## {h}.h", "", linked(what, known), ""]
        for comment, members in groups:
            for name, kind, _, code in members:
                names.append((name, kind))
                part.append(f'<a id="{name}"></a>')
            titles = ", ".join(f"`{name}`" for name, *_ in members)
            checked = " *(checked)*" if any("RDT_MUST_USE" in code for *_, code in members) else ""
            part += [f"### {titles}{checked}", ""]
            if comment:
                part += [linked(comment, known), ""]
            part += ["```c"] + [tidy(code, own) for _, _, own, code in members] + ["```", ""]
        sections.append(part)
    for kind, title in (("function", "Functions"), ("type", "Types"), ("constant", "Constants")):
        links = ", ".join(f"[`{n}`](#{n})" for n, k in names if k == kind)
        out += [f"{title}: {links}.", ""]
    for part in sections:
        out += part
    return "\n".join(out).rstrip() + "\n"


def main():
    try:
        text = page()
    except Bad as bad:
        print(f"tools/api_doc.py: {bad}", file=sys.stderr)
        return 1
    if sys.argv[1:] != ["--check"]:
        sys.stdout.write(text)
        return 0
    with open(os.path.join(ROOT, "docs", "api.md")) as f:
        committed = f.read()
    if committed == text:
        return 0
    sys.stderr.writelines(difflib.unified_diff(committed.splitlines(True), text.splitlines(True), "docs/api.md", "the headers"))
    print("docs/api.md is not what the headers say: tools/api_doc.py >docs/api.md", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
