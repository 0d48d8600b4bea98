#!/usr/bin/env python3
"""Writes the files of this folder, as NumPy, Python's zip and gzip, and the safetensors package make them.

usage: record.py FOLDER. Needs NumPy and safetensors.
"""
import gzip
import pathlib
import struct
import sys
import zipfile

import numpy as np
from numpy.lib import format as npy
from safetensors.numpy import save_file

folder = pathlib.Path(sys.argv[1])
a = np.array([[1, 2, 3], [4, 5, 6]])


def save(name, array, version=None):
    with open(folder / name, 'wb') as f:
        npy.write_array(f, array, version=version)


for text in ('|b1', '|u1', '|i1', '<i2', '<i4', '<i8', '<f2', '<f4', '<f8', '>i2', '>i4', '>i8', '>f2', '>f4', '>f8',
             '<u2', '<u4', '<u8', '>u2', '>u4', '>u8'):
    order = {'<': 'little', '>': 'big', '|': 'byte'}[text[0]]
    save(f'{order}_{text[1:]}.npy', a.astype(text))
save('fortran.npy', np.asfortranarray(np.arange(24, dtype='<i2').reshape(2, 3, 4)))
save('fortran_deep.npy', np.asfortranarray(np.arange(256, dtype='<i2').reshape((2, 1) * 8)))
save('scalar.npy', np.array(2.5))
save('empty.npy', np.zeros((0, 3), 'f4'))
save('version2.npy', a.astype('<f4'), (2, 0))
save('version3.npy', a.astype('<f4'), (3, 0))
save('complex_c8.npy', a.astype('<c8'))
save('refused_text.npy', np.array(['x', 'yz']))
save('refused_struct.npy', np.zeros(2, [('x', '<f4'), ('y', '<i4')]))
save('refused_rank.npy', np.zeros((1,) * 17, 'f4'))

np.savez(folder / 'stored.npz', a=a.astype('f4'), b=np.arange(5), **{'layer.0/w': np.eye(2)})
np.savez_compressed(folder / 'deflated.npz', a=np.zeros(1000, 'f4'), b=np.arange(5))
# With a limit of 0 Python writes zip64 records for everything.
zipfile.ZIP64_LIMIT = 0
np.savez(folder / 'zip64.npz', a=a.astype('f4'))

save_file({'w': a.astype('f4'), 'b': np.arange(3), 'flag': np.array([True, False]), 'none': np.zeros((0, 2), 'f4'),
           'scalar': np.array(1.5, 'f2')}, folder / 'numpy.safetensors', metadata={'format': 'np', 'key': 'wert "ä"'})

idx = struct.pack('>HBB3I', 0, 8, 3, 2, 2, 3) + bytes(range(12))
(folder / 'images.idx').write_bytes(idx)
with open(folder / 'images.idx.gz', 'wb') as f, gzip.GzipFile('images.idx', 'wb', fileobj=f, mtime=0) as g:
    g.write(idx)
(folder / 'floats.idx').write_bytes(struct.pack('>HBBI3f', 0, 13, 1, 3, 1.5, -2, 0.25))
