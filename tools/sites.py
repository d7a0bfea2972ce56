"""Which fault sites hit data, and which what checks them: src/inject/sites.def is the only table of them."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def hitting(what):
    """Names of the sites that hit "DATA" or "CHECKS"."""
    with open(os.path.join(ROOT, "src", "inject", "sites.def")) as f:
        rows = re.findall(r'^X\(\w+, "(\w+)", (\w+),', f.read(), re.M)
    return {name for name, hits in rows if hits == what}
