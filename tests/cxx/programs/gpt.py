# Steps of a small GPT that learns to count: the next token is the last one plus 1.
import sys
import torch
from torch import nn

torch.manual_seed(0)
tokens, places = nn.Embedding(16, 32), nn.Embedding(12, 32)
layer = nn.TransformerEncoderLayer(32, 4, 64, 0, batch_first=True, norm_first=True)
body = nn.TransformerEncoder(layer, 2)
mask = nn.Transformer.generate_square_subsequent_mask(12)
head = nn.Linear(32, 16)
modules = nn.ModuleList([tokens, places, body, head])
opt = torch.optim.AdamW(modules.parameters(), lr=3e-3)


def step(ids):
    x = tokens(ids[:, :-1]) + places(torch.arange(12))
    loss = nn.functional.cross_entropy(head(body(x, mask)).reshape(-1, 16), ids[:, 1:].reshape(-1))
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.item()


first = last = 0
for i in range(60):
    ids = (torch.randint(0, 16, (16, 1)) + torch.arange(13)) % 16
    last = step(ids)
    if i == 0:
        first = last
print(first, last)
sys.exit(last > first / 4)
