#!/usr/bin/env python3
"""A browser shows the page of a training: numbers stand under the pointer.

usage: test_page.py PROGRAM

PROGRAM FILE writes a page of 100 steps. Without chromium there is nothing to ask: 77.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Points at 30 % of the plot's width, then beside it.
POINT = """<script>
const box=svg.getBoundingClientRect(),k=box.width/svg.viewBox.baseVal.width,p=data.panels[0];
const move=(x,y)=>svg.dispatchEvent(new PointerEvent('pointermove',{clientX:box.left+k*x,clientY:box.top+k*y}));
move(data.left+0.3*(data.right-data.left),(p.top+p.bottom)/2);
const shown=tip.style.display+'|'+tip.textContent+'|'+lines[0].getAttribute('d');
move(data.left,p.top-20);
document.body.innerHTML='<pre>'+shown+'|'+tip.style.display+'</pre>';
</script></html>"""


def main(program):
    browser = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
    if not browser:
        print('there is no chromium')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / 'page.html'
        subprocess.run([program, str(page)], check=True)
        text = page.read_text()
        page.write_text(text.replace('</html>', POINT))
        done = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', f'--user-data-dir={folder}/user',
                               '--dump-dom', page.as_uri()], capture_output=True, text=True, timeout=120)
    shown = re.search(r'<pre>(.*?)</pre>', done.stdout, re.S)
    if not shown:
        print(done.stdout[-2000:], done.stderr[-2000:])
        return 1
    print(shown[1])
    # The axis begins at 0 and ends at step 100.
    good = re.fullmatch(r'block\|step 30\ntrain/loss: 71\nvalid/loss: 29.5\|M[0-9.]+ [0-9]+V[0-9]+\|none', shown[1])
    return int(not good)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
