#!/usr/bin/env python3
"""Writes the inputs from which the corpora were made: small files of every kind that the readers know.

usage: seeds.py ROOT FOLDER [GRAPHS]

Makes FOLDER/TARGET/...; `fuzz.py merge` then takes what a corpus lacks. GRAPHS is a folder to which test_graph_random
has written some of its graphs, as it does where GRAPH_SAMPLES names one.
"""
import gzip
import io
import itertools
import json
import math
import pathlib
import re
import struct
import sys
import zipfile
import zlib

SIZES = {'b1': 1, 'u1': 1, 'i1': 1, 'i2': 2, 'i4': 4, 'i8': 8, 'f2': 2, 'f4': 4, 'f8': 8,
         'u2': 2, 'u4': 4, 'u8': 8}
TENSORS = {'BOOL': 1, 'U8': 1, 'I8': 1, 'I16': 2, 'F16': 2, 'BF16': 2, 'I32': 4, 'F32': 4, 'I64': 8, 'F64': 8,
           'F8_E8M0': 1}


def counting(n):
    return bytes(i % 251 for i in range(n))


def npy_bytes(dtype, shape, order='<', fortran=False, version=1):
    text = f"{{'descr': '{order}{dtype}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}\n".encode()
    length = struct.pack('<H' if version == 1 else '<I', len(text))
    return b'\x93NUMPY' + bytes([version, 0]) + length + text + counting(math.prod(shape) * SIZES[dtype])


def npy():
    for dtype, order in itertools.product(SIZES, '<>|'):
        yield npy_bytes(dtype, [3], order)
    for shape in ([], [0], [2, 3], [1, 2, 1, 2], [2] * 8, [2] * 9):
        yield npy_bytes('f4', shape, fortran=len(shape) % 2 == 0)
    yield npy_bytes('i2', [2, 2], version=2)
    yield npy_bytes('i2', [2, 2], version=3)
    yield npy_bytes('f8', [1]).replace(b'<f8', b'<c8')
    yield npy_bytes('b1', [1 << 62, 2, 0])
    yield npy_bytes('b1', [1 << 62, 1 << 62, 0])


def npz():
    members = {'a': npy_bytes('f4', [2]), 'b': npy_bytes('i8', [2, 2], fortran=True), 'c': npy_bytes('b1', [])}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for zip64 in (False, True):
            out = io.BytesIO()
            with zipfile.ZipFile(out, 'w', method) as z:
                for name, data in members.items():
                    with z.open(zipfile.ZipInfo(f'{name}.npy'), 'w', force_zip64=zip64) as f:
                        f.write(data)
            yield out.getvalue()
    for names in (['readme.txt'], ['a.npy', 'readme.txt'], []):
        out = io.BytesIO()
        with zipfile.ZipFile(out, 'w') as z:
            for name in names:
                z.writestr(zipfile.ZipInfo(name), members['a'])
            z.comment = b'a comment' if names else b''
        yield out.getvalue()


def safetensors_bytes(header, data_B):
    text = json.dumps(header, separators=(',', ':'), ensure_ascii=False).encode()
    return struct.pack('<Q', len(text)) + text + counting(data_B)


def entries(dtypes, shape=(2,)):
    at, out = 0, {}
    for dtype in dtypes:
        size_B = TENSORS[dtype] * (shape[0] if shape else 1)
        out[f't.{dtype}'] = {'dtype': dtype, 'shape': list(shape), 'data_offsets': [at, at + size_B]}
        at += size_B
    return out, at


def safetensors():
    yield safetensors_bytes({}, 0)
    yield safetensors_bytes(*entries(TENSORS))
    for dtype in TENSORS:
        yield safetensors_bytes(*entries([dtype], ()))
    header, size_B = entries(['F32', 'I8'])
    yield safetensors_bytes({'__metadata__': {'format': 'pt', 'k"\\\n': 'é\U0001f600'}, **header}, size_B)
    yield safetensors_bytes({'': {'dtype': 'F32', 'shape': [0, 3], 'data_offsets': [0, 0]}}, 0)
    yield safetensors_bytes({'b': {'dtype': 'BOOL', 'shape': [1 << 62, 1 << 62, 0], 'data_offsets': [0, 0]}}, 0)
    escaped = rb'{"\u0041\ud83d\ude00\/":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    yield struct.pack('<Q', len(escaped)) + escaped + b'x'


def gguf_bytes(pairs, tensors, data_B, version=3, alignment=32):
    def text(s):
        return struct.pack('<Q', len(s.encode())) + s.encode()

    out = b'GGUF' + struct.pack('<IQQ', version, len(tensors), len(pairs))
    for key, kind, value in pairs:
        out += text(key) + struct.pack('<I', kind) + (text(value) if kind == 8 else value)
    for name, dims, kind, at in tensors:
        out += text(name) + struct.pack(f'<I{len(dims)}QIQ', len(dims), *dims, kind, at)
    return out + bytes(-len(out) % alignment) + counting(data_B)


def gguf():
    blocks = {0: (1, 4), 1: (1, 2), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2),
              2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 20: (32, 18), 39: (32, 17),
              10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 19: (256, 50), 99: (1, 1)}
    for kind, (block, block_B) in blocks.items():
        yield gguf_bytes([], [(f't{kind}', [block, 2], kind, 0)], 2 * block_B)
    pairs = [('t', 8, 'text'), ('u', 4, struct.pack('<I', 7)), ('f', 6, struct.pack('<f', .5)), ('b', 7, b'\1'),
             ('a', 9, struct.pack('<IQ3h', 3, 3, 1, -2, 3)), ('d', 12, struct.pack('<d', .1)),
             ('n', 9, struct.pack('<IQIQB', 9, 1, 0, 1, 5)), ('s', 9, struct.pack('<IQQ2s', 8, 1, 2, b'hi'))]
    yield gguf_bytes(pairs, [], 0)
    yield gguf_bytes([('general.alignment', 4, struct.pack('<I', 8))], [('a', [3], 0, 0), ('b', [], 0, 16)], 20, 2, 8)


def torch():
    """Pickles of one tensor each, and of what may be around them."""
    def call(storage, offset, sizes, strides, version=2, last=b''):
        def numbers(n):
            return b'(' + b''.join(b'K' + bytes([i]) for i in n) + b't'
        return (b'ctorch._utils\n_rebuild_tensor_v%d\n((X\7\0\0\0storagec%s\nX\1\0\0\0'
                b'0X\3\0\0\0cpuK\4tQK%c%s%s\x89}%stR'
                % (version, storage, offset, numbers(sizes), numbers(strides), last))

    for name in (b'Float', b'Double', b'Half', b'BFloat16', b'Long', b'Int', b'Short', b'Char', b'Byte', b'Bool'):
        yield b'\x80\2' + call(b'torch\n' + name + b'Storage', 1, [2, 3], [1, 2]) + b'.'
    for name in (b'uint16', b'uint32', b'uint64', b'float32'):
        yield b'\x80\2}X\1\0\0\0a' + call(b'torch.storage\nUntypedStorage', 0, [2], [1], 3,
                                           b'Nctorch\n' + name + b'\n') + b's.'
    one = call(b'torch\nFloatStorage', 0, [4], [1])
    yield b'\x80\2ccollections\nOrderedDict\n)Rq\0(X\1\0\0\0aq\1' + one + b'q\2X\1\0\0\0bh\2u}X\1\0\0\0mNsb.'
    yield b'\x80\2(K\1M\1\1J\xff\xff\xff\xff\x8a\2\0\1G?\xe0\0\0\0\0\0\0\x88\x89N\x8c\1a](K\1K\2e]K\1a)l.'
    yield b'\x80\4\x95\0\0\0\0\0\0\0\0}\x94(\x8c\1a\x94\x8c\5torch\x94\x8c\4Size\x94\x93\x94K\1\x85\x85R\x94K\5Nu.'
    yield b'\x80\2ctorch._utils\n_rebuild_parameter\n' + one + b'\x88}\x87R.'
    yield b'\x80\2cos\nsystem\nX\2\0\0\0ls\x85R.'
    yield b'\x80\2]q\0h\0a.'


def idx():
    items = {8: 1, 9: 1, 11: 2, 12: 4, 13: 4, 14: 8, 7: 1}
    for code, item_B in items.items():
        yield bytes([0, 0, code, 1]) + struct.pack('>I', 3) + bytes(range(3 * item_B))
    for shape in ([], [0], [2, 3], [1, 2, 3], [1] * 9):
        plain = bytes([0, 0, 8, len(shape)]) + struct.pack(f'>{len(shape)}I', *shape) + bytes(range(math.prod(shape)))
        yield plain
        yield gzip.compress(plain, mtime=0)


def checkpoint_bytes(metadata, tensors=()):
    header, size_B = entries(tensors)
    metadata = {'kiln.checkpoint': '1', 'kiln.crc32': '0' * 8, **metadata}
    whole = bytearray(safetensors_bytes({'__metadata__': metadata, **header}, size_B))
    at = whole.index(b'kiln.crc32') + len('kiln.crc32":"')
    whole[at:at + 8] = b'%08x' % zlib.crc32(whole)
    return bytes(whole)


def checkpoint():
    yield checkpoint_bytes({})
    yield checkpoint_bytes({'step': 'int:-12', 'lr': 'double:3fb999999999999a', 'name': 'string:a\nb'})
    yield checkpoint_bytes({'step': 'int:99999999999999999999', 'lr': 'double:x', 'x': 'other'})
    yield checkpoint_bytes({'seed': 'int:1'}, [d for d in TENSORS if d != 'F8_E8M0'])
    yield checkpoint_bytes({}, ['F8_E8M0'])
    yield checkpoint_bytes({}, ['BOOL']).replace(b'kiln.checkpoint":"1', b'kiln.checkpoint":"2')
    yield checkpoint_bytes({'a': 'int:1'})[:-3]


def graph(root, samples):
    yield from (path.read_bytes() for path in sorted(pathlib.Path(samples).iterdir())) if samples else ()
    for path in sorted([*root.glob('tests/golden/graph/*.kiln'), *root.glob('tests/golden/pass/*.in')]):
        text = path.read_bytes()
        if len(text) < 3000:
            yield text
        # Parts of it: each line that takes only inputs.
        lines = text.split(b'\n')
        inputs = [line for line in lines if b'= input' in line or b'= constant' in line]
        for line in lines:
            value = re.match(rb'(%\d+): ', line)
            if value and b'(' in line and line not in inputs and b'{' not in line[-3:]:
                yield b'\n'.join([b'kiln 1', *inputs, line, b'return ' + value[1] + b' "y"', b''])


def expression(root):
    """What stands in the tables, with their parameters named as those of the fuzzer."""
    yield from (b'a', b'a + b * c', b'x = a * 2; x > 0 ? x : -x', b'(((a)))', b'rsum(a) / f32(rcount())',
                b'a >> 1 & 0xff', b'1e400', b'inf - nan', b'!a', b'f32(i32(a)) ^^ b', b'select(a < b, a, b)',
                b'pi + 9223372036854775807', b'(' * 300 + b'a' + b')' * 300, b'-' * 300 + b'a')
    for name in ('src/scalar/lib.def', 'src/ops/elementwise.def'):
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', (root / name).read_text()):
            if re.search(r'[-+*/?(]', text) and not re.search(r'[A-Z][a-z]|\. ', text):
                yield re.sub(r'\b[xy]\b', 'a', re.sub(r'\bdy\b', 'b', text.replace('$T', 'f32'))).encode()


def pth_bytes(pickled):
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w') as z:
        z.writestr('archive/data.pkl', pickled)
        z.writestr('archive/data/0', counting(64))
    return out.getvalue()


def weights():
    """Whole files of each format."""
    for kind, every in ((gguf(), 3), (safetensors(), 9), (npz(), 2), (map(pth_bytes, torch()), 3)):
        yield from itertools.islice(kind, 0, None, every)


def mix(a, b):
    product = a * b
    return (product ^ product >> 64) & (1 << 64) - 1


def hash_bytes(h, data):
    """As src/base/hash.h has it."""
    words = [data[i:i + 8].ljust(8, b'\0') for i in range(0, len(data), 8)]
    for word in [*(int.from_bytes(w, 'little') for w in words), len(data)]:
        h = mix(h ^ 0xa0761d6478bd642f, word ^ 0xe7037ed1a0b428db)
    return h


def cache_entry():
    for key, symbol, code in ((b'the key of the fuzzer', b'f', b'code'), (b'the key of the fuzzer', b'', b''),
                              (b'the key of the fuzzer', b'k' * 63, bytes(100)), (b'another key', b'f', b'code')):
        h = hash_bytes(hash_bytes(hash_bytes(0, key), code), symbol)
        yield struct.pack('<8sQQQ64s', b'kilnk01', len(key), len(code), h, symbol) + key + code


def cache_plan():
    """Of the graph in cache_plan.c: no group, each unit its own, two in one, one for a reason."""
    n = 11
    alone = list(range(n))
    for groups, why, text in (([-1] * n, 0, b''), (alone, 0, b''), ([0, 0, *alone[2:]], 0, b''),
                              (alone, 1, b'reason\0'), (alone, 9, b'reason\0')):
        yield struct.pack(f'<iI{n}i{n}I{n}x', n, len(text), *groups, *[why] * n) + text


def onnx(root):
    """The models of the cases that make_cases.py of tests/onnx wrote."""
    data, at = (root / 'tests/onnx/cases.bin').read_bytes(), 0

    def number():
        nonlocal at
        at += 4
        return struct.unpack_from('<I', data, at - 4)[0]

    def part():
        nonlocal at
        size = number()
        at += size
        return data[at - size:at]

    while at < len(data):
        part()
        yield part()
        for _ in range(2):
            for _ in range(number()):
                part()


def image(root):
    """Those that were written byte by byte, of all kinds."""
    for path in sorted((root / 'tests/golden/io').iterdir()):
        if path.suffix in ('.png', '.jpg'):
            yield path.read_bytes()


def wav_bytes(tag, channels, bits, data, extensible=False):
    block = channels * bits // 8
    form = struct.pack('<HHIIHH', 0xfffe if extensible else tag, channels, 8000, 8000 * block, block, bits)
    if extensible:
        form += struct.pack('<HHIH', 22, bits, 0, tag) + bytes.fromhex('000000001000800000aa00389b71')
    body = b'WAVEfmt ' + struct.pack('<I', len(form)) + form + b'data' + struct.pack('<I', len(data)) + data
    return b'RIFF' + struct.pack('<I', len(body)) + body


def wav():
    for tag, bits in ((1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64), (7, 8)):
        for channels in (1, 3):
            for extensible in (False, True):
                yield wav_bytes(tag, channels, bits, counting(2 * channels * bits // 8), extensible)
    yield wav_bytes(1, 1, 16, counting(4)).replace(b'data', b'LIST' + struct.pack('<I', 3) + b'abc\0data')


def csv():
    texts = ['a,b,c\n1,2.5,x\n3,,y\n', '\ufeffa;b\r\n"x ""y""";true\r\n\r\n"z\n";false', '1,2\n3\n',
             'NA,?,\n-1,inf,nan\n', '"a', 'a"b,c\n', '"a"b\n', '9223372036854775808,1e999, 5 \n0,0,0\n', '\0,\n',
             '\n\n', 'TRUE\nfalse\n']
    for choice in range(8):
        for text in texts:
            yield bytes([choice]) + text.encode()


def text():
    for data in ('plain text\n', 'é€\U0001f600a', '\ufeff\ud7ff\ue000\uffff\U00010000\U0010ffff'):
        yield data.encode()
    yield from (b'\x80', b'\xc0\xaf', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xe2\x82', b'a\0b', b'')


def main(root, folder, samples=None):
    root, folder = pathlib.Path(root), pathlib.Path(folder)
    for name, inputs in {'npy': npy(), 'npz': npz(), 'safetensors': safetensors(), 'gguf': gguf(),
                         'torch': torch(), 'weights': weights(), 'idx': idx(),
                         'checkpoint': checkpoint(), 'graph': graph(root, samples), 'expression': expression(root),
                         'cache_entry': cache_entry(), 'cache_plan': cache_plan(), 'onnx': onnx(root),
                         'image': image(root), 'wav': wav(), 'csv': csv(), 'text': text()}.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(inputs):
            (folder / name / f'seed-{number:03}').write_bytes(data)


if __name__ == '__main__':
    main(*sys.argv[1:])
