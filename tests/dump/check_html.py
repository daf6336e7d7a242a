#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_html.py UIW-DUMP CAPTURES: the page in a headless Chromium, by the WebDriver protocol: light
and dark, keyboard and pointer, 10 and 10,000 messages, nothing from the network."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import check_fields as cf
import wire as w

SKIP = 77


class Browser:
    def __init__(self, driver, chrome, port):
        self.proc = subprocess.Popen([driver, f"--port={port}", "--silent"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}"
        for _ in range(100):
            try:
                self.call("GET", "/status")
                break
            except OSError:
                time.sleep(0.1)
        caps = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": {
            "binary": chrome, "args": ["--headless=new", "--no-sandbox", "--disable-gpu",
                                       "--disable-dev-shm-usage", "--window-size=1200,900"]}}}}
        self.base += "/session/" + self.call("POST", "/session", caps)["sessionId"]

    def call(self, method, path, body=None):
        req = urllib.request.Request(self.base + path, method=method,
                                     data=None if body is None else json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(req, timeout=60) as r:
            return json.load(r)["value"]

    def js(self, code, *args):
        return self.call("POST", "/execute/sync", {"script": code, "args": list(args)})

    def open(self, path):
        self.call("POST", "/url", {"url": "file://" + path})

    def keys(self, *keys):
        acts = [a for k in keys for a in ({"type": "keyDown", "value": k}, {"type": "keyUp", "value": k})]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": acts}]})

    def pointer(self, x, y, click):
        acts = [{"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y)}]
        if click:
            acts += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "m", "parameters": {
            "pointerType": "mouse"}, "actions": acts}]})

    def scheme(self, name):
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": name}]}})

    def close(self):
        try:
            self.call("DELETE", "")
        except OSError:
            pass
        self.proc.terminate()
        self.proc.wait()


def luminance(rgb):
    v = [c / 255 for c in rgb]
    v = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in v]
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]


def contrast(a, b):
    x, y = sorted((luminance(a), luminance(b)))
    return (y + 0.05) / (x + 0.05)


COLOURS = """
const css = getComputedStyle(document.documentElement), probe = document.createElement("i");
document.body.append(probe);
const out = {};
for (const n of ["bg","fg","dim","panel","send","write","read","atomic","bad","setup"]) {
  probe.style.color = css.getPropertyValue("--" + n);
  out[n] = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).map(Number);
}
probe.remove();
return out;"""


def many(path, n):
    """A capture of n Sends."""
    f = w.Flow(30000, 7999)
    f.open()
    f.add(0, cf.set_up(False, 0, 0))
    f.add(1, cf.set_up(True, 0, 0))
    for msn in range(1, n + 1):
        ulpdu = b"\x41\x43" + bytes(8) + msn.to_bytes(4, "big") + bytes(4) + b"octets"
        f.add(0, len(ulpdu).to_bytes(2, "big") + ulpdu + bytes(-(2 + len(ulpdu)) % 4 + 4))
    w.write(path, f.packets)


def expect(faults, ok, what):
    if not ok:
        faults.append(what)


def check_colours(b, faults):
    for scheme in ("light", "dark"):
        b.scheme(scheme)
        c = b.js(COLOURS)
        expect(faults, (luminance(c["bg"]) > 0.5) == (scheme == "light"), f"{scheme}: background")
        for name in ("fg", "dim", "send", "write", "read", "atomic", "bad", "setup"):
            expect(faults, contrast(c[name], c["bg"]) >= 4.5, f"{scheme}: {name} is hard to read")
        expect(faults, contrast(c["fg"], c["panel"]) >= 4.5, f"{scheme}: panel is hard to read")
    b.scheme("light")


def check_small(b, faults, page):
    b.open(page)
    text = b.js("return document.body.innerText")
    for word in ("uiw-dump", "MPA Request", "Regions touched", "RDMAP-5040-4.8-02"):
        expect(faults, word in text, f"'{word}' is not in the page")
    expect(faults, b.js("return performance.getEntriesByType('resource').length") == 0,
           "the page loads something")
    expect(faults, b.js("return document.querySelectorAll('script[src],link,img').length") == 0,
           "the page refers to other files")
    # The keyboard reaches the ladder, and moves in it.
    for _ in range(10):
        b.keys("\ue004")
        if b.js("return document.activeElement.id") == "ladder":
            break
    expect(faults, b.js("return document.activeElement.id") == "ladder", "Tab misses the ladder")
    b.keys("\ue015", "\ue015")
    expect(faults, "write" in b.js("return document.getElementById('detail').innerText"),
           "arrow keys do not move")
    expect(faults, b.js("return document.querySelector('#row-sel').getAttribute('aria-label')") != "",
           "the selected row has no name")
    b.keys("\ue011", "n")
    detail = b.js("return document.getElementById('detail').innerText")
    expect(faults, "RDMAP-5040-4.8-02" in detail, "n does not go to the first error")
    b.keys("\ue010")
    detail = b.js("return document.getElementById('detail').innerText")
    expect(faults, "terminate" in detail and "host order" in detail, "End shows no Terminate")
    expect(faults, "11 00 03 00" in detail, "no hex of the Terminate")
    expect(faults, b.js("const d = document.getElementById('detail'); return d.scrollWidth <= d.clientWidth"),
           "the hex dump is wider than its panel")
    red = b.js("return getComputedStyle(document.querySelector('#row-sel text:last-child')).fill")
    bad = b.js(COLOURS)["bad"]
    expect(faults, red == f"rgb({bad[0]}, {bad[1]}, {bad[2]})", f"an error is not red but {red}")
    # The pointer.
    box = b.js("const r = document.getElementById('ladder').getBoundingClientRect(); return [r.x, r.y]")
    b.pointer(box[0] + 200, box[1] + 16, False)
    expect(faults, "rev 2" in b.js("return document.getElementById('detail').innerText"),
           "hovering shows no fields")
    # Other connection, errors only.
    b.js("const s = document.getElementById('conn'); s.value = '1'; s.onchange()")
    b.js("const e = document.getElementById('errors'); e.checked = true; e.onchange()")
    expect(faults, "read request" not in b.js("return document.getElementById('ladder').textContent"),
           "errors only shows more")
    b.js("document.querySelector('#verdicts button').click()")
    expect(faults, b.js("return document.activeElement.id") == "ladder", "a verdict leads nowhere")
    wide = b.js("return document.documentElement.scrollWidth <= window.innerWidth")
    expect(faults, wide, "the page is wider than its window")


def check_plots(b, faults, page):
    """rping: five Reads of 4096 octets by the server, as many Writes and ten Sends of 16 by it."""
    b.open(page)
    sums = b.js("const m = rows.filter(o => o.k === 'message'), s = octets(m, m[0].t, m.at(-1).t, 7);"
                "return s.map(x => x.reduce((a, v) => a + v, 0))")
    expect(faults, sums == [5 * 4096 + 10 * 16, 5 * 4096 + 10 * 16], f"payload by direction: {sums}")
    story = b.js("return document.getElementById('latency').textContent")
    expect(faults, story.startswith("5 answers: min ") and "p99" in story, f"latency: {story}")
    box = b.js("const c = document.getElementById('lat'); c.scrollIntoView(); const r = "
               "c.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]")
    b.pointer(box[0] + box[2] - 20, box[1] + box[3] / 2, True)
    detail = b.js("return document.getElementById('detail').innerText")
    expect(faults, "after frame" in detail, "a click on the latency plot leads nowhere")
    text = b.js("return document.body.innerText + document.title")
    expect(faults, "rping buffer STag" in text and "rping-v4-4096.pcap" in text, "names are missing")


def check_filtered(b, faults, page):
    """A page of a part says so; what was not captured is not made up."""
    b.open(page)
    text = b.js("return document.body.innerText")
    expect(faults, "Only what matches: op=read_request" in text, "the page keeps its filter to itself")
    expect(faults, "read request  ?" in text.replace("\u00a0", " ") or "read request ?" in text,
           "a size that was cut off is made up")
    expect(faults, "undefined" not in text and "NaN" not in text, "the page shows what is undefined")
    expect(faults, "0x00000000" not in text, "an STag that was cut off is made up")


def check_large(b, faults, page):
    start = time.time()
    b.open(page)
    took = time.time() - start
    expect(faults, took < 15, f"10,000 messages take {took:.1f} s to load")
    expect(faults, b.js("return document.querySelectorAll('#ladder g').length") < 300,
           "all rows are in the document")
    b.js("document.getElementById('ladder').focus()")
    start = time.time()
    b.keys("\ue010")
    for _ in range(10):
        b.keys("\ue00e")
    expect(faults, time.time() - start < 15, "moving in 10,000 messages is slow")
    expect(faults, "msn" in b.js("return document.getElementById('detail').innerText"), "no detail")


def check_narrow(b, faults, page):
    b.call("POST", "/window/rect", {"width": 500, "height": 900})
    b.open(page)
    expect(faults, b.js("return document.documentElement.scrollWidth <= window.innerWidth"),
           "on a narrow screen the page is too wide")
    b.call("POST", "/window/rect", {"width": 1200, "height": 900})


def main():
    tool, captures = sys.argv[1:3]
    driver, chrome = shutil.which("chromedriver"), shutil.which("chromium")
    if not driver or not chrome:
        print("no chromium and chromedriver here")
        sys.exit(SKIP)
    faults = []
    rping = os.path.join(captures, "rping-v4-4096.pcap")
    with tempfile.TemporaryDirectory() as d:
        small, large, ping, part, cap = (os.path.join(d, n) for n in (
            "small.html", "large.html", "ping.html", "part.html", "many.pcap"))
        many(cap, 10000)
        for page, source in ((small, os.path.join(captures, "raw-tagged.pcap")), (large, cap),
                             (ping, rping)):
            subprocess.run([tool, "--html", page, source], check=True)
        subprocess.run([tool, "--html", part, "--filter", "op=read_request",
                        os.path.join(captures, "snap96-rping.pcap")], check=True)
        b = Browser(driver, chrome, 9600 + os.getpid() % 300)
        try:
            b.open(small)
            check_colours(b, faults)
            check_small(b, faults, small)
            check_narrow(b, faults, small)
            check_plots(b, faults, ping)
            check_filtered(b, faults, part)
            check_large(b, faults, large)
        finally:
            b.close()
    print("\n".join(faults) if faults else "page: ok")
    sys.exit(1 if faults else 0)


main()
