#!/usr/bin/env python3
"""Opens a report in headless Chromium, wide and narrow, light and dark; takes screenshots and fails
on console errors, requests to anywhere, a page wider than its window, charts whose texts overlap,
and tables that a click does not sort.

    build/graft bench --quick --json run.json && build/graft report run.json --html run.html
    tests/report/check_page.py run.html --out /tmp/pictures
"""
import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = {"wide": (1200, 900, 1), "phone": (390, 844, 2)}

# Overlaps of at least two pixels each way; a chart's own texts only.
OVERLAPS = """
(() => {
  const out = [];
  for (const chart of document.querySelectorAll('svg.chart')) {
    const texts = [...chart.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()])
        .filter(([, box]) => box.width > 0);
    texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
      const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (across > 2 && down > 3) out.push(`'${a}' and '${b}' in ${chart.getAttribute('aria-label').slice(0, 40)}`);
    }));
    for (const [text, box] of texts)
      if (box.left < -1 || box.right > innerWidth + 1) out.push(`'${text}' leaves the window`);
  }
  return out;
})()"""

# Both ways round, each column that holds numbers.
SORTS = """
(() => {
  const out = [];
  for (const table of document.querySelectorAll('table.sortable')) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      for (const direction of ['ascending', 'descending']) {
        head.querySelector('button').click();
        if (head.getAttribute('aria-sort') !== direction) out.push(`${head.textContent}: not ${direction}`);
        const keys = [...table.tBodies[0].rows].map(r => r.cells[column].dataset.key)
            .filter(k => k !== undefined).map(Number);
        const sign = direction === 'ascending' ? 1 : -1;
        if (keys.some((k, i) => i > 0 && sign * (k - keys[i - 1]) < 0)) out.push(`${head.textContent}: unsorted`);
      }
    });
  }
  return out;
})()"""


class Browser:
    """Chromium spoken to over its debugging pipe: messages of JSON with a zero byte between."""

    def __init__(self, program, folder):
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash", program, "--headless=new",
             "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}",
             "--no-first-run", "--remote-debugging-pipe"],
            pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.count, self.events, self.session = b"", 0, [], None

    def receive(self):
        while b"\0" not in self.rest:
            chunk = os.read(self.read, 1 << 16)
            if not chunk:
                raise SystemExit("check_page: the browser ended; try it by hand with --headless=new")
            self.rest += chunk
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") != self.count:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise SystemExit(f"check_page: {method}: {answer['error']['message']}")
            return answer["result"]

    def wait_for(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"check_page: {answer['exceptionDetails']['text']} in {expression[:80]}")
        return answer["result"].get("value")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(20)


def complaints(browser, url):
    for event in browser.events:
        params = event.get("params", {})
        method = event.get("method")
        if method == "Runtime.exceptionThrown":
            yield "exception: " + params["exceptionDetails"]["text"]
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            yield f"console: {params['args']}"
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            yield "log: " + params["entry"]["text"]
        if method == "Network.requestWillBeSent":
            asked = params["request"]["url"]
            if asked != url and not asked.startswith("data:"):
                yield "request: " + asked


def check(browser, url, name, scheme, out):
    width, height, scale = SIZES[name]
    browser.session = None
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(domain + ".enable")
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=scale, mobile=name == "phone")
    browser.call("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.events.clear()
    browser.call("Page.navigate", url=url)
    browser.wait_for("Page.loadEventFired")

    found = browser.value(OVERLAPS)
    shown = browser.value("document.documentElement.scrollWidth")
    if shown > width:
        found.append(f"the page is {shown} px wide in a window of {width}")
    size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
    picture = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
        "x": 0, "y": 0, "width": width, "height": min(size["height"], 15000 / scale), "scale": 1})
    (out / f"{name}-{scheme}.png").write_bytes(base64.b64decode(picture["data"]))
    found += browser.value(SORTS)
    found += complaints(browser, url)
    print(f"{name} {scheme}: {width} x {size['height']:.0f} px, {len(found)} complaints")
    for text in found:
        print("  " + text)
    return len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the screenshots")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    args = parser.parse_args()
    if not args.chromium:
        sys.exit("check_page: no chromium on the PATH; install it (apt-get install chromium) or name one with --chromium")
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(args.chromium, folder)
        count = sum(check(browser, args.page.resolve().as_uri(), name, scheme, args.out)
                    for name in SIZES for scheme in ("light", "dark"))
        browser.close()
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
