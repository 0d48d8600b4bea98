#!/usr/bin/env python3
"""Write frames.h: a macro around each public function, so that a call of it is never a jump.

usage: frames.py OUTPUT HEADER...

A compiler makes a jump of `return kiln_relu(x);`, and the frame that made the call is gone from the stack: an error
would name the line of the caller's caller. The macro leaves the call as it is, and something to do behind it.
"""
import pathlib
import re
import sys

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)
FUNCTION = re.compile(r'\bKILN_API\s+([^;{}()]*?)\b(kiln_\w+)\s*\(')
MACRO = re.compile(r'^\s*#\s*define\s+(kiln_\w+)\(', re.M)
HEAD = '''\
/// @file frames.h
/// Makes errors name the line that made a call also where a compiler would make a jump of it: each public function is a
/// macro, too, behind which its caller has nothing to do, but something. It costs no instruction but those of the call
/// that it keeps. `&kiln_relu` and `kiln_relu` without parentheses are the function. A program that defines
/// KILN_NO_FRAMES before it includes a header of Kiln has the functions alone. Written from the other headers.
#ifndef KILN_FRAMES_H
#define KILN_FRAMES_H

#if defined(__GNUC__) && !defined(KILN_NO_FRAMES)

'''


def functions(headers):
    """Pairs of name and result type, in the order of the headers; and the names that numbers make macros."""
    texts = [COMMENT.sub('', path.read_text()) for path in headers]
    plain = (re.sub(r'^\s*#(?:[^\n]*\\\n)*[^\n]*$', '', text, flags=re.M) for text in texts)
    found = [(name, ' '.join(kind.split())) for text in plain for kind, name in FUNCTION.findall(text)]
    return found, set().union(*(MACRO.findall(text) for text in texts))


def passes_on(number, kind):
    declared = kind if kind.endswith('*') else kind + ' '
    if kind == 'void':
        return f'KILN_FRAME_ void kiln_frame_{number}_(void)\n{{\n    __asm__ volatile("" ::: "memory");\n}}\n'
    return (f'KILN_FRAME_ {declared}kiln_frame_{number}_({declared}value)\n'
            f'{{\n    __asm__ volatile("" ::: "memory");\n    return value;\n}}\n')


def macro(name, number, kind):
    call = f'{name}(__VA_ARGS__)'
    return f'#define {name}(...) ' + (f'({call}, kiln_frame_{number}_())' if kind == 'void' else
                                      f'kiln_frame_{number}_({call})') + '\n'


def main(output, *headers):
    found, numbered = functions([pathlib.Path(word) for word in headers])
    kinds = list(dict.fromkeys(kind for _, kind in found))
    text = HEAD + '#define KILN_FRAME_ static inline __attribute__((always_inline, artificial, unused))\n'
    text += ''.join(passes_on(kinds.index(kind), kind) for kind in kinds) + '\n'
    text += ''.join(macro(name, kinds.index(kind), kind) for name, kind in found if name not in numbered)
    text += '\n#ifndef KILN_HAS_NUMBERS\n'
    text += ''.join(macro(name, kinds.index(kind), kind) for name, kind in found if name in numbered) + '#endif\n'
    pathlib.Path(output).write_text(text + '\n#endif\n\n#endif\n')


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
