#!/usr/bin/env python3
"""Open every page of the site in Chromium. Exit with 77 where there is none.

usage: check_browser.py ROOT

Served from a folder, by a page that opens each in a frame, wide and narrow, and tells what it finds: errors of
scripts, files that are missing, pictures without a size, pages wider than a narrow screen, colours that are hard to
read in light and in dark; and whether the search, the switch of colours and the list of pages do their work.
"""
import functools
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

SKIP = 77
LIMIT_S = 500
LISTEN = '<script>window.wrong = []; addEventListener("error", e => wrong.push(e.message || ' \
         '"no " + (e.target.src || e.target.href)), true); addEventListener("unhandledrejection", e => ' \
         'wrong.push(String(e.reason)));</script>'
DRIVER = """<!doctype html><html><head><link rel="icon" href="data:,"></head><body><script>
const pages = PAGES, bad = [];
const frame = document.createElement("iframe");
document.body.append(frame);
const size = w => { frame.style.cssText = `border:0;width:${w}px;height:900px`; };
const open = url => new Promise(done => { frame.onload = done; frame.src = url; });
const wait = async (what, text) => {
    for (let i = 0; i < 100; i++) { if (what()) return true; await new Promise(r => setTimeout(r, 20)); }
    bad.push(text);
    return false;
};
const parts = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
const light = c => { const [r, g, b] = parts(c); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const ground = e => { for (; e; e = e.parentElement) {
    const c = frame.contentWindow.getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$|transparent/.test(c)) return c; } return "rgb(255, 255, 255)"; };
function readable(page, theme) {
    const doc = frame.contentDocument, win = frame.contentWindow, seen = new Set();
    doc.documentElement.dataset.theme = theme;
    const dark = light(win.getComputedStyle(doc.body).backgroundColor) < 0.2;
    if (dark !== (theme === "dark")) bad.push(`${page}: ${theme} is not ${theme}`);
    for (const e of doc.querySelectorAll("p, li, td, th, h1, h2, a, code, b, i, figcaption")) {
        const ratio = contrast(win.getComputedStyle(e).color, ground(e)), kind = e.tagName + "." + e.className;
        if (ratio < 4.5 && !e.classList.contains("anchor") && !seen.has(kind)) {
            seen.add(kind);
            bad.push(`${page}: ${theme}: ${kind} "${e.textContent.slice(0, 30)}": contrast ${ratio.toFixed(1)}`);
        }
    }
}
function fits(page) {
    const doc = frame.contentDocument.documentElement;
    if (doc.scrollWidth > doc.clientWidth)
        bad.push(`${page}: ${doc.scrollWidth} wide on a screen of ${doc.clientWidth}`);
}
async function look(page) {
    size(1300);
    await open("/" + page);
    const doc = frame.contentDocument;
    for (const text of frame.contentWindow.wrong) bad.push(`${page}: ${text}`);
    for (const image of doc.images) if (!image.naturalWidth) bad.push(`${page}: ${image.src} shows nothing`);
    const lines = doc.querySelector(".lines"), code = lines && lines.nextElementSibling.firstElementChild;
    const high = e => parseFloat(frame.contentWindow.getComputedStyle(e).lineHeight);
    if (code && !(Math.abs(high(lines) - high(code)) < 0.01))
        bad.push(`${page}: lines are ${high(code)} high, their numbers ${high(lines)}`);
    fits(page);
    if (/^(index|guide.*)[.]html$/.test(page) && !page.includes("ops.")) {
        readable(page, "light");
        readable(page, "dark");
    }
    size(400);
    fits(page);
}
async function use() {
    size(1300);
    await open("/index.html");
    let doc = frame.contentDocument;
    const field = doc.getElementById("search"), found = () => [...doc.querySelectorAll("#found a")];
    field.value = "matmul";
    field.dispatchEvent(new Event("input"));
    if (await wait(() => found().length, "the search finds nothing for matmul")) {
        if (!found()[0].textContent.startsWith("kiln_matmul")) bad.push("matmul: " + found()[0].textContent);
        found()[0].click();
        await wait(() => frame.contentWindow.location.hash === "#kiln_matmul", "the search leads to no place");
        await wait(() => frame.contentDocument.querySelector("tr:target"), "kiln_matmul has no row");
    }
    await open("/guide/errors.html");
    doc = frame.contentDocument;
    const before = frame.contentWindow.getComputedStyle(doc.body).backgroundColor;
    doc.getElementById("theme").click();
    const after = frame.contentWindow.getComputedStyle(doc.body).backgroundColor;
    if (before === after) bad.push("the switch of colours does nothing");
    await open("/guide/networks.html");
    if (frame.contentWindow.getComputedStyle(frame.contentDocument.body).backgroundColor !== after)
        bad.push("the next page has forgotten the colours");
    localStorage.clear();
    size(400);
    await open("/guide/errors.html");
    doc = frame.contentDocument;
    const list = doc.getElementById("pages");
    const shown = () => frame.contentWindow.getComputedStyle(list).display !== "none";
    if (shown()) bad.push("narrow: the list of pages is open at first");
    doc.getElementById("menu").click();
    if (!shown()) bad.push("narrow: the list of pages does not open");
}
(async () => {
    try {
        await use();
        for (const page of pages) await look(page);
    } catch (e) { bad.push("the driver: " + e + e.stack); }
    fetch("/told", {method: "POST", body: JSON.stringify(bad)});
})();
</script></body></html>"""


class Server(http.server.SimpleHTTPRequestHandler):
    told, missing, driver = None, [], b''
    done = threading.Event()

    def do_GET(self):
        path = pathlib.Path(self.directory) / self.path.lstrip('/').split('#')[0].split('?')[0]
        if self.path == '/driver':
            return self.give(self.driver)
        if path.suffix == '.html' and path.is_file():
            return self.give(path.read_text().replace('<head>', '<head>' + LISTEN, 1).encode())
        if not path.is_file():
            self.missing.append(self.path)
        return super().do_GET()

    def do_POST(self):
        Server.told = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self.give(b'')
        self.done.set()

    def give(self, body):
        self.send_response(200)
        self.send_header('Content-Type', 'text/html; charset=utf-8')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def drive(browser, folder, pages):
    Server.driver = DRIVER.replace('PAGES', json.dumps(pages)).encode()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Server, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen([browser, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                                    f'--user-data-dir={profile}', '--window-size=1400,1000',
                                    '--remote-debugging-port=0',
                                    f'http://127.0.0.1:{server.server_address[1]}/driver'],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        Server.done.wait(LIMIT_S)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    server.shutdown()
    if Server.told is None:
        return ['the browser told nothing']
    return Server.told + [f'there is no {path}' for path in sorted(set(Server.missing))]


def main(root):
    browser = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
    if not browser:
        print('needs Chromium')
        return SKIP
    root = pathlib.Path(root).resolve()
    sys.path.insert(0, str(root / 'docs/site'))
    import build
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place) / 'site'
        build.Site(root, folder).build()
        pages = [str(p.relative_to(folder)) for p in sorted(folder.rglob('*.html'))]
        files = [page for page in pages if page.startswith('files/')]
        pages = [page for page in pages if page not in files[5:]]  # files look alike
        bad = drive(browser, folder, pages)
    print('\n'.join(bad) or f'{len(pages)} pages in {browser}, wide and narrow, light and dark')
    return int(bool(bad))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
