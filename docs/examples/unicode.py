#!/usr/bin/env python3
"""Writes unicode.def, what wordpiece.h has to know of characters, out of Python's tables of Unicode.

usage: unicode.py > unicode.def
"""
import sys
import unicodedata

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)  # taken apart by arithmetic


def category(code):
    return unicodedata.category(chr(code))


def is_space(code):
    return chr(code) in '\t\n\r' or category(code) == 'Zs' or chr(code).isspace() and category(code)[0] == 'Z'


def is_dropped(code):
    return not is_space(code) and (category(code) in ('Cc', 'Cf', 'Co', 'Mn') or code == 0xFFFD)


def is_punctuation(code):
    return category(code)[0] == 'P' or code < 128 and category(code)[0] == 'S'


def folded(code):
    parts = unicodedata.normalize('NFD', chr(code))
    return [ord(small) for part in parts if category(ord(part)) != 'Mn' for small in part.lower()]


def ranges(codes):
    found = []
    for code in codes:
        if found and found[-1][1] + 1 == code:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def runs(shifts):
    """Codes shifted alike, one behind the other or each second one, become one row."""
    found = []
    for code, shift in shifts:
        last = found[-1] if found else None
        gap = code - last[1] if last else 0
        if last and last[3] == shift and gap in (1, 2) and (last[0] == last[1] or last[2] == gap):
            last[1:3] = code, gap
        else:
            found.append([code, code, 1, shift])
    return found


def write(name, kind, rows, form):
    print(f'\nstatic const struct {kind} {name}[] = {{')
    line = ''
    for row in rows:
        text = '{' + ', '.join(f.format(v) for f, v in zip(form, row)) + '}, '
        if len(line) + len(text) > 114:
            print('    ' + line.rstrip())
            line = ''
        line += text
    print('    ' + line.rstrip(' ') + '\n};')


def main():
    whole = [(c, folded(c)) for c in CODES if c not in HANGUL and not is_dropped(c)]
    shifts = [(c, f[0] - c) for c, f in whole if len(f) == 1 and f[0] != c]
    several = [(c, f) for c, f in whole if len(f) != 1]
    assert all(2 <= len(f) <= 3 for _, f in several), several
    version = unicodedata.unidata_version
    print(f'''// Characters by what a tokeniser does with them, of Unicode {version}. Written by unicode.py.
#include <stdint.h>

// Codes from first to last.
struct code_range {{ uint32_t first, last; }};
// Each step-th code from first to last is written without accents and in small letters by adding `by`.
struct code_shift {{ uint32_t first, last, step; int32_t by; }};
// A code that becomes two or three.
struct code_parts {{ uint32_t code, to[3]; }};''')
    hexadecimal = '0x{:X}'
    write('code_spaces', 'code_range', ranges(filter(is_space, CODES)), [hexadecimal] * 2)
    print('\n// Controls and accents.', end='')
    write('code_dropped', 'code_range', ranges(filter(is_dropped, CODES)), [hexadecimal] * 2)
    write('code_punctuation', 'code_range', ranges(filter(is_punctuation, CODES)), [hexadecimal] * 2)
    write('code_shifts', 'code_shift', runs(shifts), [hexadecimal, hexadecimal, '{}', '{}'])
    write('code_parts_of', 'code_parts', [(c, '{' + ', '.join(f'0x{p:X}' for p in f) + '}') for c, f in several],
          [hexadecimal, '{}'])


if __name__ == '__main__':
    sys.exit(main())
