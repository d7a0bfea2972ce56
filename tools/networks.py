"""What the tools that time networks share: their options, the walk over networks and numbers of threads, what is kept."""
import argparse
import os
import tempfile

import graph_inputs
import make_weights
import record

DEFAULT = ("resnet50", "minilm:batch=1,sequence=128")


def options(text, rounds, **folders):
    """Those of the command line; folders: positional ones behind BUILD, and what they are."""
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    for name, what in {"build": "folder with libredoubt.so and cli/redoubt", **folders}.items():
        parser.add_argument(name, metavar=name.upper(), help=what)
    parser.add_argument("names", nargs="*", metavar="NAME[:dim=N,...]")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--dir", help="where graphs with weights are kept from call to call")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_intermixed_args()


def measure(args, tool, row_of, tell):
    """row_of(path, sizes, threads, rounds) for each; tell(row): what is printed of it. Kept as tool's where --json says so."""
    rows = []
    for text in args.names or DEFAULT:
        name, sizes = graph_inputs.sizes_of(text)
        with tempfile.TemporaryDirectory() as temporary:
            path = make_weights.graph_with_weights(name, args.dir or temporary)
            for threads in map(int, args.threads.split(",")):
                row = {"model": text, **row_of(path, sizes, threads, args.rounds)}
                rows.append(row)
                print(f"{text}, {threads} thread(s): {tell(row)}", flush=True)
    if args.json:
        redoubt = os.path.join(args.build, "cli", "redoubt")
        result = {"schema": f"redoubt.{tool.replace('_', '-')}/1", "rows": rows}
        record.keep(args.json, record.document(redoubt, record.typed(f"tools/{tool}.py"), 0, result))
