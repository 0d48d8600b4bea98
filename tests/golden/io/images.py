#!/usr/bin/env python3
"""Writes the images of this folder byte by byte, without a library for images: usage images.py FOLDER.

Pixels follow from their places, as tests/io/image.c has them too. PNG (W3C recommendation, second edition): all kinds
and depths, each filter, interlaced. JPEG (ITU-T T.81): baseline, blocks of 8 x 8 that are flat, so that a block is one
coefficient, which quantisation by 1 leaves exact.
"""
import pathlib
import struct
import sys
import zlib

WIDTH, HEIGHT = 5, 7
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def value(y, x, c, depth):
    return (y * 7 + x * 3 + c * 5) * (1021 if depth == 16 else 37 if depth == 8 else 1) % (1 << depth)


def index(y, x, depth):
    return (y * 7 + x * 3) % min(1 << depth, 16)


def row_bytes(y, xs, kind, depth):
    samples = [index(y, x, depth) if kind == 3 else value(y, x, c, depth) for x in xs for c in range(CHANNELS[kind])]
    if depth == 16:
        return b''.join(struct.pack('>H', s) for s in samples)
    bits = ''.join(format(s, f'0{depth}b') for s in samples)
    bits += '0' * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def paeth(a, b, c):
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def filtered(row, above, kind, step):
    out = bytearray([kind])
    for i, byte in enumerate(row):
        left = row[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        guess = (0, left, above[i], (left + above[i]) // 2, paeth(left, above[i], corner))[kind]
        out.append((byte - guess) % 256)
    return bytes(out)


def scan(ys, xs, kind, depth):
    step = max(1, CHANNELS[kind] * depth // 8)
    rows, out = [row_bytes(y, xs, kind, depth) for y in ys], b''
    for i, row in enumerate(rows):
        out += filtered(row, rows[i - 1] if i else bytes(len(row)), i % 5, step)
    return out


def chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))


def png(kind, depth, interlaced=False, transparent=None):
    head = struct.pack('>IIBBBBB', WIDTH, HEIGHT, depth, kind, 0, 0, interlaced)
    out = b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head)
    if kind == 3:
        entries = range(min(1 << depth, 16))
        out += chunk(b'PLTE', b''.join(bytes([i * 16 + 1, 255 - i, i * 3]) for i in entries))
    if transparent is not None:
        out += chunk(b'tRNS', transparent)
    out += chunk(b'tEXt', b'Comment\0passed over')
    data = b''
    for y0, x0, dy, dx in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        xs = range(x0, WIDTH, dx)
        if xs:
            data += scan(range(y0, HEIGHT, dy), xs, kind, depth)
    packed = zlib.compress(data)
    return out + chunk(b'IDAT', packed[:11]) + chunk(b'IDAT', packed[11:]) + chunk(b'IEND', b'')


# --- JPEG

def segment(marker, data):
    return bytes([0xff, marker]) + struct.pack('>H', len(data) + 2) + data


def magnitude(v):
    """The category of a difference and its bits (T.81, table F.1)."""
    size = abs(v).bit_length()
    return size, format(v if v > 0 else v + (1 << size) - 1, f'0{size}b') if size else ''


def jpeg_value(y, x, c):
    return (16 + (y * 3 + x) * 29 + c * 61) % 256


def jpeg(components, width=20, height=12):
    out = b'\xff\xd8' + segment(0xdb, b'\0' + bytes([1] * 64))
    frame = struct.pack('>BHHB', 8, height, width, components)
    out += segment(0xc0, frame + b''.join(bytes([c + 1, 0x11, 0]) for c in range(components)))
    # Categories 0 to 11 in codes of 4 bits; of the other coefficients the end of the block alone, in one bit.
    out += segment(0xc4, b'\0' + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12)))
    out += segment(0xc4, b'\x10' + bytes([1] + [0] * 15) + b'\0')
    out += segment(0xda, bytes([components]) + b''.join(bytes([c + 1, 0]) for c in range(components)) + b'\0\x3f\0')
    bits, last = '', [0] * components
    for y in range(-(-height // 8)):
        for x in range(-(-width // 8)):
            for c in range(components):
                level = 8 * (jpeg_value(y, x, c) - 128)
                size, digits = magnitude(level - last[c])
                bits += format(size, '04b') + digits + '0'
                last[c] = level
    bits += '1' * (-len(bits) % 8)
    data = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
    return out + data.replace(b'\xff', b'\xff\0') + b'\xff\xd9'


def main(folder):
    folder = pathlib.Path(folder)
    for kind, name in {0: 'grey', 2: 'rgb', 3: 'palette', 4: 'grey_alpha', 6: 'rgba'}.items():
        for depth in {0: (1, 2, 4, 8, 16), 3: (1, 2, 4, 8)}.get(kind, (8, 16)):
            (folder / f'{name}{depth}.png').write_bytes(png(kind, depth))
    (folder / 'interlaced.png').write_bytes(png(2, 8, interlaced=True))
    (folder / 'palette_alpha.png').write_bytes(png(3, 4, transparent=bytes([0, 100, 200])))
    (folder / 'grey.jpg').write_bytes(jpeg(1))
    (folder / 'colour.jpg').write_bytes(jpeg(3))


if __name__ == '__main__':
    main(*sys.argv[1:])
