# An LSTM learns to add up what it has seen.
import sys
import torch
from torch import nn

torch.manual_seed(0)
lstm = nn.LSTM(1, 24, batch_first=True)
head = nn.Linear(24, 1)
params = [*lstm.parameters(), *head.parameters()]
opt = torch.optim.Adam(params, lr=0.01)
first = last = 0
for i in range(100):
    x = torch.rand(32, 10, 1) * 2 - 1
    y, state = lstm(x)
    loss = (head(y) - x.cumsum(1)).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(params, 1)
    opt.step()
    opt.zero_grad()
    last = loss.item()
    if i == 0:
        first = last
print(first, last)
sys.exit(last > first / 4)
