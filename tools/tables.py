"""Tables that stand in the sources once, for tools that go by them."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def rows_of(path, pattern):
    with open(os.path.join(ROOT, path)) as f:
        return re.findall(pattern, f.read(), re.M)


def sites(what):
    """Names of the fault sites that hit "DATA" or "CHECKS"."""
    return {name for name, hits in rows_of("src/inject/sites.def", r'^X\(\w+, "(\w+)", (\w+),') if hits == what}


def families_without_rate():
    """Names of the families of data of which lambda states no share of suspects."""
    return {name for name, stated in rows_of("src/campaign/families.h", r'^  X\(\w+, "(\w+)", (\d),') if stated == "0"}
