#!/usr/bin/env python3
"""Writes packed.gguf and packed.npz of this folder: what ggml's own Python package packs, and what it unpacks it to.

usage: record_gguf.py FOLDER. Needs NumPy and gguf.
"""
import pathlib
import sys

import gguf
import numpy as np

folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(1)
# Where the halves lie that are scales, in a block.
scales = {'Q4_0': [0], 'Q4_1': [0, 2], 'Q5_0': [0], 'Q5_1': [0, 2], 'Q8_0': [0], 'IQ4_NL': [0], 'MXFP4': [],
          'Q2_K': [80, 82], 'Q3_K': [108], 'Q4_K': [0, 2], 'Q5_K': [0, 2], 'Q6_K': [208]}
values = {}
writer = gguf.GGUFWriter(folder / 'packed.gguf', 'test')
for name, places in scales.items():
    kind = gguf.GGMLQuantizationType[name]
    block, block_B = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (2, 2, block_B), dtype=np.uint8)
    for at in places:
        blocks[:, :, at:at + 2] = rng.normal(size=(2, 2, 1)).astype('<f2').view(np.uint8)
    if name == 'MXFP4':
        blocks[:, :, 0] = rng.integers(120, 134, (2, 2))
    packed = blocks.reshape(2, 2 * block_B)
    writer.add_tensor(name.lower(), packed, raw_dtype=kind)
    values[name.lower()] = gguf.quants.dequantize(packed, kind)
a = np.array([[1, 2, 3], [4, 5, 6]])
for dtype in ('f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8'):
    writer.add_tensor(dtype, a.astype(dtype))
writer.add_tensor('bf16', (a.astype('f4').view('<u4') >> 16).astype('<u2').view(np.uint8),
                  raw_dtype=gguf.GGMLQuantizationType.BF16)
writer.add_uint32('answer', 42)
writer.add_int64('below', -9000000000)
writer.add_float32('tenth', 0.1)
writer.add_float64('pi', 3.141592653589793)
writer.add_bool('yes', True)
writer.add_string('name', 'wert "ä"')
writer.add_array('words', ['a', '"', '\n'])
writer.add_array('numbers', [-1, 2, 3])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
np.savez_compressed(folder / 'packed.npz', **values)
