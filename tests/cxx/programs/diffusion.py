# Diffusion of points: a network learns to take noise off a circle, and makes points of noise.
import sys
import torch
from torch import nn

torch.manual_seed(0)
betas = torch.linspace(1e-4, 0.2, 40)
kept = (1 - betas).cumprod(0)
net = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for i in range(600):
    angle = torch.rand(256, 1) * 6.2831853
    points = torch.cat([angle.cos(), angle.sin()], 1)
    t = torch.randint(0, 40, (256, 1))
    noise = torch.randn(256, 2)
    noisy = kept[t].sqrt() * points + (1 - kept[t]).sqrt() * noise
    loss = (net(torch.cat([noisy, t / 40.0], 1)) - noise).square().mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
with torch.no_grad():
    x = torch.randn(256, 2)
    for t in range(39, -1, -1):
        noise = net(torch.cat([x, torch.full((256, 1), t / 40.0)], 1))
        x = (x - betas[t] / (1 - kept[t]).sqrt() * noise) / (1 - betas[t]).sqrt()
        if t > 0:
            x += betas[t].sqrt() * torch.randn(256, 2)
off = (x.square().sum(1).sqrt() - 1).abs().mean().item()
print(off)
sys.exit(off > 0.4)
