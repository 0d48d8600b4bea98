"""The public functions as the headers tell of them: for the checks and pages that list them."""
import pathlib
import re

PROTOTYPE = re.compile(r'\b(kiln_\w+)\s*\((.*)\)$', re.S)
FIELDS = re.compile(r'^typedef struct (kiln_\w+_(?:opts|spec)) \{\n(.*?)^\} \1;', re.M | re.S)
FIELD = re.compile(r'(\w+)(?:\[\d+\]|\)\([^()]*\))?(?:\s+KILN_0)?;')
OPTIONS = re.compile(r'^#define (KILN_\w+)\(\.\.\.\)\s+KILN_OPTS_\((\w+), __VA_ARGS__\)', re.M)


class Function:
    """One function: its doc, or None where it shares the one above, and its arguments as a reader writes them."""

    def __init__(self, name, header, section, doc, arguments):
        self.name, self.header, self.section, self.doc, self.arguments = name, header, section, doc, arguments

    def call(self, options):
        """`kiln_conv2d(x, weight, KILN_CONV2D)`: rank and dimensions are `shape`, options go by their macro."""
        names, known = [], {struct: macro for macro, (struct, _) in options.items()}
        for kind, name in self.arguments:
            struct = re.search(r'(kiln_\w+_(?:opts|spec))', kind)
            names.append(known.get(struct[1], name) if struct and 'const' in kind and '**' not in kind else name)
        text = ', '.join(names)
        text = re.sub(r'\b(\w+)_count, \1\b', r'\1', text)
        return f'{self.name}({re.sub(r"rank, dims", "shape", text)})'


def arguments_of(text):
    text = re.sub(r'\s+', ' ', text.strip())
    if text in ('', 'void'):
        return []
    out = []
    for part in re.split(r',(?![^(]*\))', text):
        found = re.match(r'(.*?)\(\*(\w+)\)\(.*\)$', part.strip()) or re.match(r'(.*?)(\w+)(\[\w*\])?$', part.strip())
        out.append((found[1].strip(), found[2]) if found else (part.strip(), part.strip()))
    return out


def comment(lines):
    return '\n'.join(re.sub(r'^\s*///<? ?', '', line) for line in lines)


def read_header(path):
    """Functions of a header in order. A declaration right below another one shares its comment."""
    lines, functions, section, doc, at = path.read_text().splitlines(), [], '', [], 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith('// --- '):
            section = re.split(r'[.:,]', line[7:])[0]
        if line.startswith('///'):
            doc.append(line)
        elif line.startswith('KILN_API'):
            text = line
            while ';' not in re.sub(r'//.*', '', text):
                text += '\n' + lines[at]
                at += 1
            trailing = re.findall(r'///< ?(.*)', text)
            while at < len(lines) and lines[at].lstrip().startswith('///<'):
                trailing.append(lines[at].lstrip()[4:].strip())
                at += 1
            found = PROTOTYPE.search(re.sub(r'//[^\n]*', '', text).split(';')[0].strip())
            own = ' '.join(trailing) if trailing else comment(doc) if doc else None
            functions.append(Function(found[1], path.name, section, own, arguments_of(found[2])))
            doc = []
        elif not line.startswith('#define') or not line.strip():
            doc = []
    return functions


def read_options(path):
    """{macro: (struct, fields)} of the options that a header defines."""
    text = path.read_text()
    fields = {name: [f for f in FIELD.findall(re.sub(r'//[^\n]*', '', body)) if f != 'size']
              for name, body in FIELDS.findall(text)}
    return {macro: (struct, fields.get(struct, [])) for macro, struct in OPTIONS.findall(text)}


def headers(include, build_include):
    return sorted(pathlib.Path(include).glob('*.h')) + [pathlib.Path(build_include) / 'kiln' / name
                                                        for name in ('ops.h', 'composites.h')]


def read_api(include, build_include):
    """(functions, options) of the hand-written headers, then of those that the build writes."""
    paths = headers(include, build_include)
    options = {}
    for path in paths:
        options.update(read_options(path))
    return [f for path in paths for f in read_header(path)], options
