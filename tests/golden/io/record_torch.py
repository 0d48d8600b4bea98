#!/usr/bin/env python3
"""Writes torch.pth and torch4.pth of this folder, as PyTorch saves a checkpoint, and what is in it as torch.npz.

usage: record_torch.py FOLDER. Needs NumPy and PyTorch.
"""
import pathlib
import sys

import numpy as np
import torch

folder = pathlib.Path(sys.argv[1])
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
optim = torch.optim.Adam(net.parameters(), lr=0.01)
net(torch.ones(4, 3)).sum().backward()
optim.step()
x = torch.arange(12.).reshape(3, 4)
state = {'model': net.state_dict(), 'optim': optim.state_dict(), 'step': 7, 'name': 'wert "ä"', 'none': None,
         'views': {'t': x.t(), 'cut': x[1:, 1:3], 'wide': x[0, :1].expand(2, 3), 'scalar': x[1, 2],
                   'empty': torch.zeros(0, 3)},
         'kinds': [torch.arange(3).to(d) for d in (torch.float64, torch.float16, torch.int64, torch.int32,
                                                      torch.int16, torch.int8, torch.uint8, torch.uint16)],
         'truth': torch.tensor([True, False]), 'complex': torch.tensor([1 + 2j, 3 - 4j]),
         'bf16': torch.tensor([1, -2], dtype=torch.bfloat16), 'parameter': torch.nn.Parameter(torch.ones(2)),
         'other': (torch.Size([2]), torch.device('cpu'), torch.float32, 2 ** 40, -3, 0.1)}
values = {}


def collect(value, path):
    if isinstance(value, torch.Tensor):
        value = value.detach()
        values[path] = (value.float() if value.dtype == torch.bfloat16 else value).contiguous().numpy()
    elif isinstance(value, dict):
        for k, v in value.items():
            collect(v, f'{path}.{k}' if path else str(k))
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        for k, v in enumerate(value):
            collect(v, f'{path}.{k}')


collect(state, '')
torch.save(state, folder / 'torch.pth')
torch.save({'w': x[:2, :2].clone()}, folder / 'torch4.pth', pickle_protocol=4)
np.savez_compressed(folder / 'torch.npz', **values)
