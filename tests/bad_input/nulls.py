"""Writes a C program's table of calls: every public function of the headers with each pointer argument NULL in turn,
and with options whose size no struct has, the other arguments valid. usage: nulls.py OUTPUT HEADER..."""
import re
import sys

NUMBERS = {'size_t': '1', 'int64_t': '1', 'uint64_t': '1', 'uint32_t': '1', 'int': '1', 'unsigned': '1', 'double': '1',
           'bool': 'false', 'kiln_operand': 'KILN_OPERAND(1)', 'kiln_ints': 'KILN_AXES(0)', 'kiln_dtype': 'KILN_F32'}
# By the type without const and spaces: see nulls.c.
VALID = {'kiln_tensor*': 'tensor', 'kiln_device*': 'dev', 'kiln_cell*': 'cell', 'kiln_optim*': 'optim',
         'kiln_schedule*': 'schedule', 'kiln_function*': 'function', 'kiln_graph*': 'graph', 'kiln_loader*': 'loader',
         'kiln_archive*': 'archive', 'kiln_checkpoint*': 'checkpoint', 'kiln_capture_region*': 'region',
         'FILE*': 'sink', 'char*': '"x"', 'kiln_tensor**': 'tensors', 'kiln_cell**': 'cells', 'int64_t*': 'ones',
         'char**': 'names', 'kiln_bundle*': 'bundle', 'kiln_model*': 'model', 'kiln_value*': 'value',
         'kiln_index_item*': 'items', 'kiln_average*': 'average', 'kiln_generator*': 'generator',
         'kiln_table*': 'table', 'kiln_training*': 'training',
         'kiln_metric*': 'metric', 'kiln_vocabulary*': 'vocabulary'}


def functions(text):
    text = re.sub(r'//.*', '', text)
    text = re.sub(r'^[ \t]*#.*(\\\n.*)*', '', text, flags=re.M)
    for found in re.finditer(r'KILN_API\s[^;{(]*?\b(kiln_\w+)\s*\(([^;]*)\)\s*;', text):
        params = ' '.join(found.group(2).split())
        yield found.group(1), [] if params == 'void' else split(params)


def split(params):
    parts, depth = [''], 0
    for c in params:
        depth += (c == '(') - (c == ')')
        if c == ',' and depth == 0:
            parts.append('')
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def argument(param):
    """The C of a valid argument, and whether it is a pointer."""
    if '(*' in param:
        return '(void *)nothing', True
    kind = re.sub(r'\bconst\b|\s', '', re.sub(r'\w+$', '', param))
    if param.endswith('path'):
        return '"/dev/null/x"', True  # where no file can be
    if kind in NUMBERS:
        return NUMBERS[kind], False
    if kind.endswith(('_fn', '_hook')):
        return '(void *)nothing', True
    name = re.search(r'\w+$', param).group()
    if kind == 'void*' and f'kiln_{name}*' in VALID:
        return f'(void *){name}', True  # user data that has to be a handle: of kiln_cell_fn
    if kind.endswith('*'):
        return '(void *)' + VALID.get(kind, 'room'), True
    return '0', False


def wrong_values(param, pointer):
    """What is wrong for a parameter, and whether it is a size."""
    if pointer:
        yield 'NULL', 'false'
    options = re.match(r'const (kiln_\w+_opts) \*', param)
    if options:
        yield f'&({options.group(1)}){{.size = 7}}', 'true'


def wrong_calls(name, params):
    """The calls with one wrong argument each: the C of the call, the parameter's name, whether it is a size."""
    made = [argument(p) for p in params if p != '...']  # a format without places
    for i, (_, pointer) in enumerate(made):
        param = re.search(r'(\w+)\W*(\(.*)?$', params[i].replace('(*', '')).group(1)
        for value, sized in wrong_values(params[i], pointer):
            args = ', '.join(value if k == i else a for k, (a, _) in enumerate(made))
            yield f'{name}({args})', param, sized


def main():
    with open(sys.argv[1], 'w', encoding='utf-8') as out:
        rows = []
        for path in sys.argv[2:]:
            with open(path, encoding='utf-8') as f:
                for name, params in functions(f.read()):
                    for call, param, sized in wrong_calls(name, params):
                        out.write(f'static void call_{len(rows)}(void)\n{{\n    (void)({call}, 0);\n}}\n')
                        rows.append(f'    {{call_{len(rows)}, "{name}", "{param}", {sized}}},\n')
        out.write('static const struct wrong_call calls[] = {\n' + ''.join(rows) + '};\n')


main()
