#!/usr/bin/env python3
"""Writes tests/nn/torch_values.h: what PyTorch's recurrent and attention modules give of inputs and parameters that are
formulas, so that a test can make them too: element i of an input is cos(0.9 i), of parameter j 0.5 sin(1.3 i + j)."""
import sys

import torch


def fill(module):
    module = module.double().eval()
    with torch.no_grad():
        for j, p in enumerate(module.parameters()):
            i = torch.arange(p.numel(), dtype=torch.float64)
            p.copy_((0.5 * torch.sin(1.3 * i + j)).reshape(p.shape))
    return module


def wave(*dims):
    n = torch.Size(dims).numel()
    return torch.cos(0.9 * torch.arange(n, dtype=torch.float64)).reshape(dims)


def values(name, *tensors):
    flat = torch.cat([t.detach().reshape(-1) for t in tensors]).tolist()
    text = ", ".join(f"{v:.12g}" for v in flat)
    return f"static const double {name}[] = {{{text}}};\n"


def sequences():
    x = wave(3, 2, 3)
    y, (h, c) = fill(torch.nn.LSTM(3, 2, num_layers=2, bidirectional=True))(x)
    yield values("torch_lstm", y, h, c)
    y, (h, c) = fill(torch.nn.LSTM(3, 4, proj_size=2))(x)
    yield values("torch_lstm_projected", y, h, c)
    y, h = fill(torch.nn.RNN(3, 2, nonlinearity="relu", bias=False))(x, wave(1, 2, 2))
    yield values("torch_rnn", y, h)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([1, 3]), enforce_sorted=False)
    y, h = fill(torch.nn.GRU(3, 2, bidirectional=True))(packed)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=3)
    yield values("torch_gru", y, h)


def attention():
    x, memory = wave(2, 3, 4), wave(2, 5, 4)
    mha = fill(torch.nn.MultiheadAttention(4, 2, batch_first=True))
    yield values("torch_attention", mha(x, memory, memory, need_weights=False)[0])
    causal = torch.triu(torch.full((3, 3), float("-inf"), dtype=torch.float64), 1)
    yield values("torch_attention_causal", mha(x, x, x, need_weights=False, attn_mask=causal)[0])
    encoder = fill(torch.nn.TransformerEncoderLayer(4, 2, 6, activation="gelu", batch_first=True))
    yield values("torch_encoder_layer", encoder(x))
    encoder = fill(torch.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, norm_first=True))
    yield values("torch_encoder_layer_norm_first", encoder(x))
    decoder = fill(torch.nn.TransformerDecoderLayer(4, 2, 6, batch_first=True))
    yield values("torch_decoder_layer", decoder(x, memory, tgt_mask=causal))
    layer = torch.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
    stack = fill(torch.nn.TransformerEncoder(layer, 2, norm=torch.nn.LayerNorm(4), enable_nested_tensor=False))
    yield values("torch_encoder", stack(x))


with open(sys.argv[1], "w", encoding="utf-8") as f:
    version = torch.__version__.split('+')[0]
    f.write(f"// What PyTorch {version} gives; written by make_torch_values.py.\n#pragma once\n\n")
    for line in [*sequences(), *attention()]:
        f.write(line)
