"""Instructions that a memory-bound kernel of the catalogue cannot be without, from its text and its bytes, to compare
with those that a compiler made.

  accesses     one for each 16 bytes that an invocation loads or stores
  arithmetic   one for each operation on each element, by class as COSTS says; signs and moves of bits are free within
               an expression; a bool is one instruction on its way from memory and one on its way there
  index        FRAME for the kernel, WALK for each loop that walks over elements, and one for each access: its place
"""
import re

# Arguments are loaded and awaited, the invocation's number is made and scaled, memory is awaited, the end; a loop has
# its counter, a comparison, a branch and a wait.
FRAME, WALK = 8, 4
# Instructions for one operation on values of 32 bits, on doubles, on integers of 64 bits.
#
# SPIR-V has no nearer word for a quotient of doubles than OpFDiv, and no compiler a shorter form than Mesa's
# (nir_lower_double_ops): f32's reciprocal of the mantissa, two steps of Newton, the exponent, infinities and zeros; a
# root is the like. Integers are divided by scalar_div of src/scalar/emit.c: of 32 bits 19 for the quotient (f32's
# reciprocal, a step, two corrections) and 10 for signs and zero; of 64 bits 10 for f32's reciprocal, 48 for two steps,
# 22 for the quotient and what it leaves, 14 for two corrections, 18 for signs and zero.
CLASSES = {'float': 0, 'int': 0, 'uint': 0, 'bool': 0, 'double': 1, 'int64_t': 2, 'uint64_t': 2}
COSTS = {'+': (1, 1, 2), '-': (1, 1, 2), '*': (1, 1, 5), '/': (2, 27, 0), '&': (1, 1, 2),
         '|': (1, 1, 2), '^': (1, 1, 2), '~': (1, 1, 2), '<<': (1, 1, 1), '>>': (1, 1, 1), '?': (1, 2, 2),
         '&&': (1, 1, 1), '||': (1, 1, 1), 'fma': (1, 1, 1), 'sqrt': (1, 31, 1), 'max': (1, 1, 3), 'min': (1, 1, 3),
         'scalar_umulhi': (1, 1, 8), 'scalar_div': (29, 0, 112), 'scalar_max': (0, 0, 3),
         'scalar_min': (0, 0, 3), 'is_nan': (2, 3, 0), 'isnan': (2, 3, 0), 'isinf': (2, 3, 0)}
ONES = {'==', '!=', '<', '>', '<=', '>=', 'floor', 'ceil', 'trunc', 'roundEven', 'scalar_rint', 'float', 'int', 'uint',
        'double', 'int64_t', 'uint64_t'}
# What joins an element to a reduction, as shaders/row.glsl and found.glsl have it; others take one instruction.
JOINS = {'max': 5, 'min': 5, 'argmax': 14, 'argmin': 14}
# Of 64 bits a choice gives two words, which two moves make a pair.
JOINS_OF = {'i64': {'sum': 2, 'prod': 5, 'max': 5, 'min': 5}, 'f64': {'max': 6, 'min': 6, 'argmax': 15, 'argmin': 15}}
SIZES = {'f32': 4, 'f64': 8, 'i32': 4, 'i64': 8, 'bool': 4}

STATEMENT = re.compile(r'^ *(?:precise )?(float|double|int|int64_t|bool|uint|uint64_t) (t\d+) = (.*);$', re.M)
TOKEN = re.compile(r'[A-Za-z_]\w*(?=\()|<<|>>|&&|\|\||[=!<>]=|[-+*/%&|^~<>?]')
SIGN = re.compile(r'(^|[(=?:,*/+<>&|-] ?)-')


def of_expression(cls, text):
    """A part in brackets that stands there twice costs once."""
    seen = set()
    for part in re.findall(r'\([^()]*\)', text):
        if part in seen:
            text = text.replace(part, '()', 1)
        seen.add(part)
    tokens = TOKEN.findall(SIGN.sub(r'\1', text))
    return sum(1 if t in ONES else COSTS.get(t, (0, 0, 0))[CLASSES[cls]] for t in tokens)


def of_statements(text):
    """Each once, however often it is written."""
    return sum(of_expression(cls, value) for cls, _, value in set(STATEMENT.findall(text)))


def point(text):
    """Of a pointwise kernel: arithmetic of a point."""
    body = re.search(r'(?s)\n(\w+) point\((.*?)\)\n\{(.*?)\n\}\n', text)
    result, inputs, inside = body.groups()
    back = re.search(r'return (.*);$', inside).group(1)
    made = {name: value for _, name, value in STATEMENT.findall(inside)}.get(back, '')
    alone = made.startswith(('-', 'abs('))   # nothing is there to take the sign
    bools = inputs.count('bool ') + (result == 'bool')
    return of_statements(inside) + (of_expression(result, back) if '(' in back else 0) + alone + bools


def packed(text):
    """Of a pointwise kernel of bools: arithmetic of 16 points, in words of four."""
    body = re.search(r'(?s)\nuvec4 packed\((.*?)\)\n\{(.*?)\n\}\n', text).group(2)
    return 4 * sum(len(re.findall(r'[&|^]', line)) for line in set(body.split('\n')))


def stages(text):
    """Of a row kernel: for each walk over the row, arithmetic of an element."""
    parts = re.split(r'\n    // (?:Stage \d+|The output)\.\n', text)[1:]
    return [of_statements(part) + sum(JOINS_OF.get(cls, JOINS).get(how, JOINS.get(how, 1))
                                      for how, cls in re.findall(r'block\d+ = identity_(\w+)_(\w+)\(', part))
            for part in parts if 'uint j = 0' in part]


def of_fused(text, counts):
    """The same of a fused kernel of points, in fours or eights; None of others. An access is what the compiler made
    one: operands may lie so that no four are. A conversion of a half is one instruction."""
    whole = r'(?:full|(?:aligned && )?first [^\n]*)'   # a chunk, or the chunks of a workgroup
    part = re.search(rf'(?s)\n        if \({whole}\) \{{\n(.*?)\n        \}} else \{{\n', text)
    spent, loads, stores = (counts.get('straight ' + what, 0) for what in ('instructions', 'loads', 'stores'))
    accesses = loads + stores
    if not part or not spent or not accesses or re.search(r'(?<!\[\[unroll\]\] )for \(|while \(', part.group(1)):
        return None
    halves = len(re.findall(r'(?:load|store)4?_b?f16\(', part.group(1)))
    chunk = int(re.search(r'c < (\d+)u', part.group(1)).group(1))
    chunks = int((re.search(r's < (\d+)u', part.group(1)) or [0, 1])[1])   # of an invocation
    return spent, FRAME + 2 * accesses + chunks * (chunk * of_statements(part.group(1)) + 4 * halves)


def of_kernel(kind, text, counts):
    """Instructions that were spent and those that are needed, from what kiln-shader-dump counts; None: neither."""
    of = 'straight ' if kind == 'pointwise' else 'walks '
    load_B, store_B, spent = (counts.get(of + what, 0) for what in ('load bytes', 'store bytes', 'instructions'))
    accesses = -(-load_B // 16) - (-store_B // 16)
    if not accesses or not spent:
        return None
    if 'uvec4 packed(' in text:
        return spent, FRAME + 2 * accesses + packed(text) * store_B / 16
    if kind == 'pointwise':
        stored = SIZES[re.search(r'STORE_FOUR_OF\((\w+),', text).group(1)]
        if 'STORE_FOUR_OF(bool' in text:
            stored = min(stored, 4 * store_B / max(load_B, store_B)) if load_B else 4
        return spent, FRAME + 2 * accesses + point(text) * store_B / stored
    walks = stages(text)
    return spent, len(walks) * WALK + 2 * accesses + 4 * sum(walks)
