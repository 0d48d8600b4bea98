#!/usr/bin/env python3
"""The page of kiln_explain in a browser: it parses as HTML, its script runs, a click on a box fills the panel and marks
the ops of its kernel, light and dark.

usage: test_explain_page.py TEST_JIT_EXPLAIN [FOLDER]

The program writes the page with --page FILE. Screenshots go to FOLDER, where one is given. Without Chromium what needs
it is left out, and the exit status is 77.
"""
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
import zlib

PROGRAM = None
FOLDER = None
BROWSER = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
CLICK = '''<script>
var box = document.querySelector('.b.fused');
box.dispatchEvent(new MouseEvent('click', {bubbles: true}));
document.body.dataset.panel = document.querySelector('.panel').textContent;
document.body.dataset.same = box.closest('section').querySelectorAll('.same').length;
document.body.dataset.alike = box.closest('section').querySelectorAll('[data-k="' + box.dataset.k + '"]').length;
document.body.dataset.fill = getComputedStyle(box.querySelector('rect')).fill;
document.body.dataset.ground = getComputedStyle(document.body).backgroundColor;
</script></body>'''


def rows_of(png):
    """The rows of an RGB or RGBA image of 8 bits, and the bytes of a pixel."""
    data, at, packed = png.read_bytes(), 8, b''
    while at < len(data):
        size, kind = struct.unpack('>I4s', data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b'IHDR':
            width, height, _, colour = struct.unpack('>IIBB', body[:10])
        elif kind == b'IDAT':
            packed += body
        at += size + 12
    pixel = {2: 3, 6: 4}[colour]
    raw, stride, before, rows = zlib.decompress(packed), width * pixel, bytes(width * pixel), []
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left, up = line[x - pixel] if x >= pixel else 0, before[x]
            corner = before[x - pixel] if x >= pixel else 0
            near = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            line[x] = (line[x] + (0, left, up, (left + up) // 2, near)[kind]) & 255
        rows.append(bytes(line))
        before = line
    return rows, pixel


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='kiln-page-'))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.page = self.folder / 'page.html'
        subprocess.run([PROGRAM, '--page', self.page], check=True)

    def browse(self, *flags):
        run = subprocess.run([BROWSER, '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                              '--enable-logging=stderr', f'--user-data-dir={self.folder / "user"}', *flags],
                             capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotRegex(run.stderr, 'Uncaught|CONSOLE')
        return run.stdout

    def test_form(self):
        text = self.page.read_text()
        root = xml.etree.ElementTree.fromstring(text.split('\n', 1)[1])
        names = [element.tag.split('}')[1] for element in root.iter()]
        self.assertTrue(text.startswith('<!DOCTYPE html>\n'))
        self.assertEqual(names.count('title') - names.count('g'), 1, 'the page and each box have one title')
        self.assertEqual(names.count('h1'), 1)
        self.assertEqual(names.count('section'), 2, 'forward and backward')
        ids = [element.get('id') for element in root.iter() if element.get('id')]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertFalse(re.findall(r'https?://(?!www\.w3\.org/)', text))

    @unittest.skipUnless(BROWSER, 'no Chromium')
    def test_click(self):
        self.page.write_text(self.page.read_text().replace('</body>', CLICK))
        dom = self.browse('--dump-dom', self.page.as_uri())
        found = dict(re.findall(r'data-(panel|same|alike|fill|ground)="([^"]*)"', dom))
        self.assertRegex(found['panel'], r'kernel \d+ of \d+: ')
        self.assertRegex(found['panel'], r'reads .* writes ')
        self.assertGreater(int(found['same']), 1)
        self.assertEqual(found['same'], found['alike'])

    @unittest.skipUnless(BROWSER, 'no Chromium')
    def test_light_and_dark(self):
        ground = {}
        for scheme, flags in ('light', []), ('dark', ['--blink-settings=preferredColorScheme=0']):
            png = (FOLDER or self.folder) / f'page-{scheme}.png'
            self.browse(*flags, '--window-size=800,1000', f'--screenshot={png}', self.page.as_uri())
            rows, pixel = rows_of(png)
            ground[scheme] = sum(rows[2][:3]) / 3
            colours = {row[x:x + 3] for row in rows[::3] for x in range(0, len(row), 3 * pixel)}
            self.assertGreater(len(colours), 20, 'a drawing, not an empty page')
        self.assertGreater(ground['light'], 200)
        self.assertLess(ground['dark'], 60)


if __name__ == '__main__':
    PROGRAM = sys.argv[1]
    FOLDER = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 0 if BROWSER else 77)
