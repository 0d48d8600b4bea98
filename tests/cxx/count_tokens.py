#!/usr/bin/env python3
"""Fail where a program on kiln.hpp takes more than 1.3 times the tokens of the same program on PyTorch.

usage: count_tokens.py FOLDER

FOLDER holds pairs X.cpp and X.py. Of C++ a token is a name, a number, a string, or an operator or punctuator as the
language has them (`->`, `::`, `+=` are one, each bracket is one). Of Python it is what its own tokenizer counts, with
the ends of lines and the changes of indentation, which stand for what `;`, `{` and `}` are to C++. Comments count for
neither, nor do #include lines and `import` statements.
"""
import io
import pathlib
import re
import sys
import tokenize

MOST = 1.3
CXX = re.compile(r'''"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [A-Za-z_]\w* | (?:\d|\.\d)(?:[eE][+-]?\d|[\w.])* |
                     <<=|>>=|->|::|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^=!<>]=|\S''', re.X)


def cxx_tokens(text):
    text = re.sub(r'/\*.*?\*/|//[^\n]*', '', text, flags=re.S)
    return len(CXX.findall(re.sub(r'^\s*#\s*include[^\n]*', '', text, flags=re.M)))


def python_tokens(text):
    text = re.sub(r'^(import|from) [^\n]*', '', text, flags=re.M)
    passed = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
    return sum(t.type not in passed for t in tokenize.generate_tokens(io.StringIO(text).readline))


def main(folder):
    bad, pairs = 0, sorted(pathlib.Path(folder).glob('*.cpp'))
    for cxx in pairs:
        a, b = cxx_tokens(cxx.read_text()), python_tokens(cxx.with_suffix('.py').read_text())
        bad += a > MOST * b
        print(f'{cxx.stem:12} C++ {a:4}  PyTorch {b:4}  {a / b:.2f}{"  too many" if a > MOST * b else ""}')
    return bool(bad) or not pairs


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
