# A convolutional network learns which quarter of an image is bright.
import sys
import torch
from torch import nn

torch.manual_seed(0)
labels = torch.randint(0, 4, (256,))
images = torch.normal(0, 0.3, (256, 1, 8, 8))
for i in range(256):
    label = labels[i].item()
    y, x = label // 2 * 4, label % 2 * 4
    images[i, 0, y:y + 4, x:x + 4].add_(1)
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                    nn.Flatten(), nn.Linear(8 * 4 * 4, 4))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(5):
    for i in range(0, 256, 32):
        loss = nn.functional.cross_entropy(net(images[i:i + 32]), labels[i:i + 32])
        loss.backward()
        opt.step()
        opt.zero_grad()
right = (net(images).argmax(1) == labels).float().mean().item()
print(right)
sys.exit(right < 0.95)
