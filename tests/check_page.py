"""The pages of `redoubt report --html`, of a run and of campaigns, in a browser: phone, desk, paper, light and dark.

    check_page.py REDOUBT        (the path of the built program; needs chromium; exit code 77 where there is none)

The page holds no script. It is measured from outside: it stands in frames of a document that does.
"""
import copy
import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from expectations import expect

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits"
WIDTHS = [320, 360, 400, 520, 860, 861, 1100]
DARK_WIDTHS = [360, 1100]  # other colours of the same layout: scripts/test --full measures every width
to_measure = {False: {}, True: {}}  # light, dark: {name: text}
HOSTILE = ["<script>document.title = 'hit'</script>", "\"><img src=x onerror=\"document.title='hit'\">", "a & b < c \"d\" 'e'",
           "\x01\x1b[31m\x7f", "\u202ereversed", "x" * 300, "a b " * 80, "\u5c42" * 60, "</style></title>", ""]

# In each frame: does anything stick out, which text is hard to read?
MEASURE = """
function luminance(c) {
  const f = c.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
  return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2];
}
function colour(text) {
  const parts = (text.match(/[0-9.]+/g) || []).map(Number);
  return parts.length == 4 && parts[3] == 0 ? null : parts.slice(0, 3);
}
function contrast(view, e) {
  const ink = colour(view.getComputedStyle(e).color);
  let paper = null;
  for (let at = e; at && !paper; at = at.parentElement) paper = colour(view.getComputedStyle(at).backgroundColor);
  const a = luminance(ink), b = luminance(paper || [255, 255, 255]);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
function cut(view, e) { /* inside of something that cuts it on purpose */
  for (let at = e.parentElement; at; at = at.parentElement)
    if (['hidden', 'auto'].includes(view.getComputedStyle(at).overflowX) && at.getBoundingClientRect().right <= view.innerWidth + 0.5) return true;
  return false;
}
function words(svg) { /* the texts of a picture where they stand, in the direction in which they are written */
  return [...svg.querySelectorAll('text')].filter(e => e.textContent).map(e => {
    const turn = /rotate\\((-?[0-9.]+)/.exec(e.getAttribute('transform') || ''), angle = turn ? +turn[1] * Math.PI / 180 : 0;
    const x = +e.getAttribute('x'), y = +e.getAttribute('y'), box = e.getBBox();
    const dx = x * Math.cos(angle) + y * Math.sin(angle) - x, dy = y * Math.cos(angle) - x * Math.sin(angle) - y;
    return {e, angle, left: box.x + dx, right: box.x + box.width + dx, top: box.y + dy + 2, bottom: box.y + box.height + dy - 2};
  });
}
function pictures(view, page, found) {
  for (const svg of page.querySelectorAll('figure svg')) {
    const all = words(svg), frame = svg.getBoundingClientRect();
    for (const w of all) {
      const box = w.e.getBoundingClientRect(), size = parseFloat(view.getComputedStyle(w.e).fontSize) * svg.getScreenCTM().a;
      if (size < 9) found.pale.push('small: ' + w.e.textContent + ' ' + size);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) found.sticks.push('out of its picture: ' + w.e.textContent);
      for (const v of all)
        if (v !== w && v.angle == w.angle && v.left < w.right && w.left < v.right && v.top < w.bottom && w.top < v.bottom)
          found.overlaps.push(w.e.textContent + ' and ' + v.e.textContent);
    }
  }
}
function measure(frame) {
  const view = frame.contentWindow, page = view.document, found = {sticks: [], pale: [], overlaps: []};
  pictures(view, page, found);
  for (const d of page.querySelectorAll('details')) d.open = true;
  const root = page.documentElement;
  found.width = view.innerWidth;
  found.scroll = Math.max(root.scrollWidth, page.body.scrollWidth);
  found.height = root.scrollHeight;
  found.title = page.title;
  found.rows = page.querySelectorAll('tbody tr').length;
  for (const e of page.body.querySelectorAll('*')) {
    const box = e.getBoundingClientRect();
    if (box.width == 0 || box.height == 0) continue;
    if ((box.right > view.innerWidth + 0.5 || box.left < -0.5) && !cut(view, e))
      found.sticks.push(e.tagName + '.' + e.getAttribute('class') + ': ' + e.textContent.slice(0, 40));
    const text = [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim());
    if (text && !e.closest('svg') && contrast(view, e) < 4.5)
      found.pale.push(e.tagName + '.' + e.getAttribute('class') + ': ' + e.textContent.slice(0, 40));
  }
  for (const row of page.querySelectorAll('tr[class]')) { /* the badge must leave its neighbour alone */
    const badge = row.querySelector('.b').getBoundingClientRect(), cell = row.querySelector('td.v').getBoundingClientRect();
    if (badge.right > cell.right + 0.5) found.overlaps.push(row.textContent.slice(0, 60));
  }
  return found;
}
window.onload = () => {
  const all = [...document.querySelectorAll('iframe')].map(measure);
  const out = document.createElement('pre');
  out.textContent = JSON.stringify(all).replace(/[^\\x20-\\x7e]/g, '?');
  out.id = 'found';
  document.body.replaceChildren(out);
};
"""


def redoubt(*arguments, code=0, **options):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **options)
    expect(done.returncode == code, f"{arguments}: exit code {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def browse(folder, page, *options):
    """What the browser prints on stdout and stderr."""
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                           f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--enable-logging=stderr", *options,
                           page.as_uri()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    expect(done.returncode == 0, f"the browser ends with {done.returncode}: {done.stderr.decode()[-500:]}")
    return done.stdout.decode(), done.stderr.decode()


def measure(folder, pages, dark):
    """All pages in one browser, {name: text}: to start it takes longer than to measure."""
    widths = DARK_WIDTHS if dark and not os.environ.get("RDT_WALK_ALL") else WIDTHS
    places = [(name, width) for name in pages for width in widths]
    frames = "".join(f'<iframe width={width} height=800 style="border:0" srcdoc="{html.escape(pages[name])}"></iframe>' for name, width in places)
    wrap = folder / "wrap.html"
    wrap.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{frames}<script>{MEASURE}</script>")
    dom, _ = browse(folder, wrap, "--dump-dom", f"--blink-settings=preferredColorScheme={0 if dark else 1}")
    match = re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)
    expect(match, "nothing was measured")
    if not match:
        return
    every = json.loads(html.unescape(match.group(1)))
    expect(len(every) == len(places), f"{len(every)} of {len(places)} were measured")
    for (name, width), found in zip(places, every):
        where = f"{name}, {found['width']} px wide, {'dark' if dark else 'light'}"
        expect(found["width"] == width, f"{where}: not {width}")
        expect(found["scroll"] <= found["width"], f"{where}: scrolls sideways, {found['scroll']} px")
        expect(found["title"].endswith("Redoubt") and found["title"] != "hit", f"{where}: title {found['title']}")
        for key in ("sticks", "pale", "overlaps"):
            expect(not found[key], f"{where}: {key}: {found[key][:5]}")
        expect(found["rows"] > 0, f"{where}: no layers")


def check_paper(folder, name, page, size):
    pdf = folder / f"{name}.pdf"
    _, log = browse(folder, page, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    expect("CONSOLE" not in log, f"{name}: {[line for line in log.splitlines() if 'CONSOLE' in line][:3]}")
    data = pdf.read_bytes() if pdf.exists() else b""
    boxes = {tuple(round(float(x)) for x in box.split()) for box in re.findall(rb"/MediaBox \[([^]]*)\]", data)}
    expect(data.startswith(b"%PDF-"), f"{name}: no PDF was printed")
    expect(boxes == {(0, 0, *size)}, f"{name}: pages of {boxes}, not of {size}")
    pages = len(re.findall(rb"/Type /Page\b", data))
    expect(pages > 1, f"{name}: {pages} pages")


class Resources(html.parser.HTMLParser):
    """Whatever a page would fetch or run."""

    def __init__(self, text):
        super().__init__()
        self.found = re.findall(r"url\(|@import|https?:", text[text.index("<style>"):text.index("</style>")])
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "link", "iframe", "img", "object", "embed", "base", "form", "use", "image"):
            self.found.append(tag)
        self.found += [name for name, _ in attrs if name in ("src", "href", "xlink:href", "srcset") or name.startswith("on")]


def check(folder, name, report, schemes=(False, True)):
    source = folder / f"{name}.json"
    source.write_text(json.dumps(report))
    check_sources(folder, name, [source], schemes, (595, 842))


def check_campaigns(folder):
    """Of an op, with long labels, and of a network, with and without protection."""
    kept = []
    for name, options in {"row": ["--scheme", "row"], "rowcol": ["--scheme", "rowcol"], "none": ["--scheme", "none"],
                          "clean": ["--scheme", "row", "--fault", "none"]}.items():
        kept.append(folder / name)
        redoubt("inject", "gemm:64x64x64", "--n", 400, "--threads", 1, "-q", "-o", kept[-1], *options)
    check_sources(folder, "op", kept, (False, True), (842, 595))
    kept = [folder / "digits-auto", folder / "digits-none"]
    for to in kept:
        redoubt("inject", DIGITS / "digits.onnx", "-i", DIGITS / "images.npy", "--n", 300, "-q", "-o", to, "--scheme", to.name[7:])
    check_sources(folder, "network", kept, (False, True), (842, 595))


def check_sources(folder, name, sources, schemes, size):
    before, page = expect.failed, folder / f"{name}.html"
    redoubt("report", *sources, "--html", page)
    text = page.read_text()
    needs = Resources(text).found
    expect(not needs, f"{name}: the page needs {needs[:5]}")
    for dark in schemes:
        to_measure[dark][name] = text
    check_paper(folder, name, page, size)
    print(f"{'ok   ' if expect.failed == before else 'FAIL '} {name}: {len(text)} bytes")


def many(report):
    """Five hundred layers with hostile and long names, every verdict, and as many events as are kept."""
    report = copy.deepcopy(report)
    layers, events = report["layers"], report["events"]
    while len(layers) < 500:
        n = len(layers)
        layer = dict(layers[n % 11], name=HOSTILE[n % len(HOSTILE)] + f"/block.{n}/attention/dense/MatMul")
        if n % 100 == 99:
            layer["verdict"] = ["CORRECTED", "UNCHECKED", "DETECTED", "RECOMPUTED"][n // 100 % 4]
            layer.update(ratio=None, residual=None, op=HOSTILE[n // 100] * 3)
        layers.append(layer)
    for n in range(len(events), 60):
        events.append(dict(events[0], text=HOSTILE[n % len(HOSTILE)] * 3, layer=HOSTILE[n % len(HOSTILE)], diagnosis="unknown",
                           rungs=[{"name": "layer", "seconds": None, "outcome": "new word"}], verdict="DETECTED"))
    for name in HOSTILE:
        report["inputs"].append({"name": name, "dtype": "f32", "shape": [1, None, 10 ** 12]})
    report.update(verdict="DETECTED", model="/a/" + "b" * 200 + ".onnx", host=HOSTILE[0], cpu=HOSTILE[5])
    return report


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run = ["run", DIGITS / "digits.onnx", "-i", DIGITS / "some.npy", "--labels", DIGITS / "some-labels.npy", "--json"]
        clean = json.loads(redoubt(*run))
        fault = json.loads(redoubt(*run, "--fault", "bit:30@accum,layer=conv4,seed=2"))
        check(folder, "clean", clean, [False])
        check(folder, "fault", fault)
        check(folder, "unprotected", json.loads(redoubt(*run, "--scheme", "none")), [True])
        check(folder, "many", many(fault))
        check_campaigns(folder)
        for dark, pages in to_measure.items():
            measure(folder, pages, dark)
    return 1 if expect.failed else 0


BROWSER = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
if __name__ == "__main__":
    if not BROWSER:
        print("there is no chromium (Debian: chromium)")
        sys.exit(77)
    sys.exit(main())
