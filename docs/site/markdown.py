"""The Markdown that the pages of docs/ are written in, as HTML: headings, paragraphs, lists, tables, code, links,
images, emphasis. Input: text. Output: HTML, the headings, and sections of plain text for the search. What is not
Markdown here stays text: nothing of a page is HTML but <br> in tables.
"""
import html
import re

FENCE = re.compile(r'^( *)```(.*)$')
HEADING = re.compile(r'^(#{1,6}) (.*)$')
ITEM = re.compile(r'^( *)([-*]|\d+\.) (.*)$')
RULE = re.compile(r'^\|(?:\s*:?-+:?\s*\|)+$')


def slug(title, taken):
    """The anchor of a heading, as GitHub makes it."""
    text = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', title)
    base = re.sub(r'[^\w\- ]', '', text.lower()).replace(' ', '-')
    name, count = base, 0
    while name in taken:
        count += 1
        name = f'{base}-{count}'
    taken.add(name)
    return name


def cells_of(line):
    """Cells of a row of a table; \\| is a bar, and so is one within code."""
    cells, cell, code, at = [], '', False, 0
    line = line.strip()[1:]
    line = line[:-1] if line.endswith('|') and not line.endswith('\\|') else line
    while at < len(line):
        if line[at] == '\\' and line[at + 1:at + 2] == '|':
            cell += '|'
            at += 1
        elif line[at] == '|' and not code:
            cells.append(cell.strip())
            cell = ''
        else:
            code ^= line[at] == '`'
            cell += line[at]
        at += 1
    return [*cells, cell.strip()]


class Page:
    """One page. `link(target)` gives the address of a link, `code(text, info)` the HTML of a block, `name(text)` that
    of code in a line, `image(target, text)` that of a picture, `row(cells)` the attributes of a row of a table."""

    def __init__(self, text, link, code, name, image, row):
        self.link, self.code, self.name, self.image, self.row = link, code, name, image, row
        self.headings, self.sections, self.anchors = [], [['', '', []]], set()
        self.html = self.blocks(text.splitlines())

    def inline(self, text):
        kept = []

        def keep(piece):
            kept.append(piece)
            return f'\0{len(kept) - 1}\0'
        text = re.sub(r'\\([*|<`_\\\[\]])', lambda m: keep(html.escape(m[1])), self.hide_code(text, keep))
        text = text.replace('<br>', keep('<br>'))
        text = html.escape(text, quote=False)
        text = re.sub(r'!\[([^\]]*)\]\(([^)\s]*)\)', lambda m: keep(self.image(m[2], m[1])), text)
        text = re.sub(r'\[([^\[\]]*)\]\(([^)\s]*)\)',
                      lambda m: keep(f'<a href="{html.escape(self.link(m[2]))}">') + m[1] + keep('</a>'), text)
        text = re.sub(r'\*\*(\S(?:.*?\S)?)\*\*', r'<strong>\1</strong>', text)
        text = re.sub(r'(?<![\w*])\*(\S(?:[^*]*?\S)?)\*(?![\w*])', r'<em>\1</em>', text)
        while '\0' in text:
            text = re.sub(r'\0(\d+)\0', lambda m: kept[int(m[1])], text)
        return text

    def hide_code(self, text, keep):
        return re.sub(r'(`+)(.+?)(?<!`)\1(?!`)', lambda m: keep(self.name(m[2].strip() if m[1] != '`' else m[2])), text)

    def say(self, text):
        """Text for the search: without marks."""
        plain = re.sub(r'!?\[([^\]]*)\]\([^)]*\)', r'\1', text)
        self.sections[-1][2].append(re.sub(r'[`*\\]|<br>', ' ', plain))

    def blocks(self, lines):
        out, at = [], 0
        while at < len(lines):
            for take in (self.fence, self.heading, self.table, self.items, self.indented):
                found = take(lines, at)
                if found:
                    break
            else:
                found = self.paragraph(lines, at) if lines[at].strip() else ('', at + 1)
            out.append(found[0])
            at = found[1]
        return '\n'.join(piece for piece in out if piece)

    def fence(self, lines, at):
        begin = FENCE.match(lines[at])
        if not begin:
            return None
        end = at + 1
        while end < len(lines) and not FENCE.match(lines[end]):
            end += 1
        body = [line[len(begin[1]):] if line.startswith(begin[1]) else line for line in lines[at + 1:end]]
        return self.code('\n'.join(body), begin[2].strip()), end + 1

    def heading(self, lines, at):
        found = HEADING.match(lines[at])
        if not found:
            return None
        level, title = len(found[1]), found[2].strip()
        anchor = slug(re.sub(r'[`*]', '', title), self.anchors)
        self.headings.append((level, re.sub(r'[`*]', '', title), anchor))
        self.sections.append([re.sub(r'[`*]', '', title), anchor, []])
        return (f'<h{level} id="{anchor}">{self.inline(title)} <a class="anchor" href="#{anchor}" '
                f'aria-label="link to this section">#</a></h{level}>', at + 1)

    def table(self, lines, at):
        if not lines[at].startswith('|') or at + 1 >= len(lines) or not RULE.match(lines[at + 1].strip()):
            return None
        head, rows, end = cells_of(lines[at]), [], at + 2
        while end < len(lines) and lines[end].startswith('|'):
            rows.append(cells_of(lines[end]))
            self.say(lines[end].replace('|', ' '))
            end += 1
        titles = ''.join(f'<th>{self.inline(c)}</th>' for c in head)
        out = ['<div class="table"><table>', f'<thead><tr>{titles}</tr></thead>', '<tbody>']
        for cells in rows:
            cells += [''] * (len(head) - len(cells))
            inside = ''.join(f'<td>{self.inline(c)}</td>' for c in cells)
            out.append(f'<tr{self.row(cells)}>{inside}</tr>')
        return '\n'.join([*out, '</tbody></table></div>']), end

    def items(self, lines, at):
        first = ITEM.match(lines[at])
        if not first or first[1]:
            return None
        kind, bodies, end = 'ol' if first[2][0].isdigit() else 'ul', [], at
        while end < len(lines):
            item = ITEM.match(lines[end])
            if item and not item[1]:
                bodies.append([item[3]])
                width = len(item[2]) + 1
            elif lines[end].startswith(' ') and lines[end].strip():
                bodies[-1].append(lines[end][min(width, len(lines[end]) - len(lines[end].lstrip())):])
            elif not lines[end].strip() and end + 1 < len(lines) and (lines[end + 1].startswith('  ') or (
                    ITEM.match(lines[end + 1]) and not ITEM.match(lines[end + 1])[1])):
                bodies[-1].append('')
            elif lines[end].strip() and not HEADING.match(lines[end]) and not lines[end].startswith(('|', '```')):
                bodies[-1].append(lines[end])
                if not lines[end - 1].strip():
                    bodies[-1].pop()
                    break
            else:
                break
            end += 1
        inside = ''.join(f'<li>{self.item(body)}</li>\n' for body in bodies)
        return f'<{kind}>\n{inside}</{kind}>', end

    def item(self, body):
        text = self.blocks(body)
        one = re.fullmatch(r'<p>(.*?)</p>(.*)', text, re.S)
        return one[1] + one[2] if one else text

    def indented(self, lines, at):
        if not lines[at].startswith('    ') or (at and lines[at - 1].strip()):
            return None
        end = at
        while end < len(lines) and (lines[end].startswith('    ') or not lines[end].strip()):
            end += 1
        while not lines[end - 1].strip():
            end -= 1
        return self.code('\n'.join(line[4:] for line in lines[at:end]), 'plain'), end

    def paragraph(self, lines, at):
        end = at
        while end < len(lines) and lines[end].strip() and not (
                end > at and (HEADING.match(lines[end]) or FENCE.match(lines[end]) or lines[end].startswith('|')
                              or (ITEM.match(lines[end]) and not ITEM.match(lines[end])[1]
                                  and ITEM.match(lines[end])[2] in ('-', '1.')))):
            end += 1
        text = ' '.join(line.strip() for line in lines[at:end])
        self.say(text)
        if re.fullmatch(r'(?:!\[[^\]]*\]\([^)\s]*\)\s*)+', text):
            found = re.findall(r'!\[([^\]]*)\]\(([^)\s]*)\)', text)
            return ''.join(self.image(target, alt) for alt, target in found), end
        return f'<p>{self.inline(text)}</p>', end
