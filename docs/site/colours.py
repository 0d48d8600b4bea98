"""Code of C and C++ as HTML: comments, strings, numbers, words of the language, and links from names of Kiln."""
import html
import re

WORDS = set('auto bool break case char class const continue default do double else enum extern false float for goto if '
            'inline int int32_t int64_t long namespace nullptr public return short signed size_t sizeof static struct '
            'switch template true typedef uint32_t uint64_t uint8_t union unsigned using void volatile while '
            'NULL'.split())
TOKEN = re.compile(r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')|'
                   r'(?P<directive>^[ \t]*#[ \t]*\w+(?:[ \t]*<[^>\n]*>)?)|(?P<number>\b\d[\w.]*)|'
                   r'(?P<word>[A-Za-z_]\w*)',
                   re.S | re.M)
LANGUAGES = ('c', 'cpp')


def paint(code, address):
    """`address(name)`: where a function is described, or None."""
    out, at = [], 0
    for token in TOKEN.finditer(code):
        out.append(html.escape(code[at:token.start()], quote=False))
        kind, text = token.lastgroup, html.escape(token[0], quote=False)
        where = address(token[0]) if kind == 'word' else None
        if where:
            out.append(f'<a class="f" href="{where}">{text}</a>')
        elif kind == 'word' and token[0] in WORDS:
            out.append(f'<b>{text}</b>')
        elif kind == 'word':
            out.append(text)
        else:
            out.append(f'<i class="{kind[0]}">{text}</i>')
        at = token.end()
    return ''.join(out) + html.escape(code[at:], quote=False)
