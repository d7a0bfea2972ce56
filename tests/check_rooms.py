#!/usr/bin/python3
"""No room includes a header of a higher one: the order is that of docs/architecture.md, the rooms are the folders of src/.
The checker is shown such an include first."""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = re.compile(r'^\s*#\s*include\s+"([\w./-]+)"', re.M)


def order():
    """Rooms from high to low."""
    with open(os.path.join(ROOT, "docs", "architecture.md")) as f:
        return re.search(r"from high to low:\s+`([\w, ]+)`", f.read()).group(1).split(", ")


def upward(room, text, rooms):
    """Headers of higher rooms that a file in this room includes."""
    return [h for h in INCLUDE.findall(text) if h.split("/")[0] in rooms[:rooms.index(room)]]


def main():
    rooms = order()
    bad, files = 0, 0
    if upward("core", '#include "net/model.h"\n', rooms) != ["net/model.h"] or upward("net", '#include "core/file.h"\n', rooms):
        print("the checker does not see an include that runs up")
        bad += 1
    for path in glob.glob(os.path.join(ROOT, "src", "**", "*.*"), recursive=True):
        if not path.endswith((".c", ".h", ".cu", ".def")):
            continue
        name = os.path.relpath(path, ROOT)
        room = name.split("/")[1]
        files += 1
        if room not in rooms:
            print(f"{name}: {room} is no room of docs/architecture.md")
            bad += 1
            continue
        with open(path) as f:
            for header in upward(room, f.read(), rooms):
                print(f"{name}: includes {header}, of a higher room")
                bad += 1
    print(f"{files} files, {len(rooms)} rooms, {bad} that run up")
    return bad > 0 or files < 100


sys.exit(main())
