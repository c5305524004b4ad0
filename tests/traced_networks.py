"""Small networks with concatenations, splits, shuffles, groups, heads, scans and the like."""

import torch
from torch import nn
from torch.nn import functional


class Dense(nn.Module):
    """Layers that read the concatenation of all before, as in DenseNet, then a flattened head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.one = nn.Conv2d(6, 4, 3, padding=1)
        self.two = nn.Conv2d(10, 4, 1)
        self.three = nn.ConvTranspose2d(14, 6, 2, 2)
        self.head = nn.Linear(6 * 16, 5)

    def forward(self, x):
        x = self.norm(self.stem(x)).relu()
        x = torch.cat([self.one(x).relu(), x], 1)
        x = torch.cat([x, self.two(x)], 1)
        return self.head(functional.max_pool2d(self.three(x), 4).flatten(1))


class Shuffled(nn.Module):
    """Halves of which one is changed, shuffled, then groups and a pixel shuffle."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 1)
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.point = nn.Conv2d(4, 4, 1)
        self.mix = nn.Conv2d(8, 8, 1)
        self.grouped = nn.Conv2d(8, 16, 3, padding=1, groups=4)
        self.norm = nn.GroupNorm(4, 16)
        self.up = nn.Conv2d(16, 12, 1)
        self.last = nn.Conv2d(3, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        for _ in range(2):
            first, second = x.chunk(2, 1)
            x = torch.cat([first, self.point(self.depthwise(second)).relu()], 1)
            n, channels, *sides = x.shape
            x = x.view(n, 2, channels // 2, *sides).transpose(1, 2).flatten(1, 2)
        x = functional.pixel_shuffle(self.up(self.norm(self.grouped(self.mix(x)))), 2)
        return self.last(x)


class Halved(nn.Module):
    """Shuffled halves of a width that cannot be divided in two as often as there are blocks."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 18, 1), nn.Conv2d(3, 18, 1)
        self.points = nn.ModuleList(nn.Conv2d(18, 18, 1) for _ in range(2))
        self.last = nn.Conv2d(36, 4, 1)

    def forward(self, x):
        first, second = self.left(x), self.right(x).relu()
        for point in (*self.points, None):
            x = functional.channel_shuffle(torch.cat([first, second], 1), 2)
            if point is not None:
                first, second = x.chunk(2, 1)
                second = point(second).relu()
        return self.last(x)


class Grouped(nn.Module):
    """Groups of several lengths, one after another, with a shortcut, and a flattened head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 1)
        self.wide = nn.Conv2d(12, 24, 3, padding=1, groups=3)
        self.norm = nn.BatchNorm2d(24)
        self.depthwise = nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.other = nn.Conv2d(24, 24, 1, groups=2)
        self.back = nn.Conv2d(24, 12, 1)
        self.image = nn.Conv2d(6, 8, 1, groups=2)
        self.head = nn.Linear(12 * 16 + 8 * 16, 5)

    def forward(self, image):
        x = self.stem(image)
        y = self.depthwise(self.norm(self.wide(x)).relu())
        x = x + self.back(self.other(y).relu())
        y = self.image(torch.cat([image, image], 1))
        return self.head(torch.cat([x.flatten(1), y.flatten(1)], 1))


class Attention(nn.Module):
    """Heads in one matrix, a gated feed-forward layer, a bias for each head."""

    def __init__(self, heads=4, width=6):
        super().__init__()
        self.heads, self.width = heads, width
        inner = heads * width
        self.inputs = nn.Linear(10, 8)
        self.qkv = nn.Linear(8, 3 * inner)
        self.bias = nn.Parameter(torch.randn(heads, 5, 5))
        self.out = nn.Linear(inner, 8)
        self.up = nn.Linear(8, 24)
        self.down = nn.Linear(12, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        x = self.inputs(x)
        n, length, _ = x.shape
        qkv = self.qkv(x).view(n, length, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = q @ k.transpose(-1, -2) / self.width**0.5 + self.bias
        mixed = torch.einsum("nhst,nhtd->nshd", scores.softmax(-1), v)
        x = x + self.out(mixed.reshape(n, length, -1))
        up, gate = self.up(x).split(self.up.weight.shape[0] // 2, -1)
        return self.last(x + self.down(up * functional.gelu(gate)))


class Scan(nn.Module):
    """A state-space model: a recurrence with a state for each channel."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(6, 16)
        self.conv = nn.Conv1d(8, 8, 3, padding=2, groups=8)
        self.step = nn.Linear(8, 3 + 2 * 4)
        self.rates = nn.Linear(3, 8)
        self.decay = nn.Parameter(torch.rand(8, 4))
        self.skip = nn.Parameter(torch.rand(8))
        self.out = nn.Linear(8, 6)

    def forward(self, x):
        x, gate = self.inputs(x).chunk(2, -1)
        x = self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        low, read, write = self.step(x).split([3, 4, 4], -1)
        rate = functional.softplus(self.rates(low))
        state, outputs = torch.zeros(x.shape[0], x.shape[2], 4), []
        for t in range(x.shape[1]):
            state = state * torch.exp(-rate[:, t, :, None] * self.decay)
            state = state + (rate[:, t] * x[:, t])[..., None] * write[:, t, None]
            outputs.append((state @ read[:, t, :, None])[..., 0])
        return self.out((torch.stack(outputs, 1) + x * self.skip) * functional.silu(gate))


class SpatialGate(nn.Module):
    """Half of the channels gate the others after a layer over positions."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(6, 16)
        self.norm = nn.LayerNorm(8)
        self.over_positions = nn.Conv1d(5, 5, 1)
        self.down = nn.Linear(8, 3)

    def forward(self, x):
        kept, gate = functional.gelu(self.up(x)).chunk(2, -1)
        return self.down(kept * self.over_positions(self.norm(gate)))


class Einsum(nn.Module):
    """Heads in parameters of three dimensions, and a bias for each head by relative position."""

    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(20, 16), nn.Embedding(9, 4)
        self.query, self.key, self.value = (
            nn.Parameter(torch.randn(16, 4, 6) / 4) for _ in range(3)
        )
        self.out = nn.Parameter(torch.randn(4, 6, 16) / 4)
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        ids = (x[..., 0] > 0).long()
        x = self.embedding(ids)
        query, key, value = (
            torch.einsum("ntc,chd->nhtd", x, one) for one in (self.query, self.key, self.value)
        )
        step = torch.arange(ids.shape[1])
        places = (step[:, None] - step).clamp(-4, 4) + 4
        scores = torch.einsum("nhtd,nhsd->nhts", query, key)
        weights = (scores + self.positions(places).permute(2, 0, 1)).softmax(-1)
        return self.last(x + torch.einsum("nhts,nhsd,hdc->ntc", weights, value, self.out))


class Enlarged(nn.Module):
    """Pixels as channels, blocks that weigh their channels, and channels as pixels."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.Conv2d(12, 8, 3, padding=1)
        self.wide, self.back = nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(16, 8, 1)
        self.squeeze, self.excite = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.up, self.slope = nn.Conv2d(8, 32, 1), nn.PReLU(8)
        self.last = nn.Conv2d(8, 12, 3, padding=1)

    def forward(self, x):
        x = self.inputs(functional.pixel_unshuffle(x, 2))
        y = self.back(self.wide(x).relu())
        x = x + y * self.excite(self.squeeze(y.mean((2, 3), keepdim=True)).relu()).sigmoid()
        x = self.slope(functional.pixel_shuffle(self.up(x), 2))
        return functional.pixel_shuffle(self.last(x), 2)


class Messages(nn.Module):
    """Rows that are gathered, changed, added where edges end, and kept in a gated cell."""

    def __init__(self):
        super().__init__()
        self.inputs, self.cell = nn.Linear(5, 12), nn.GRUCell(12, 12)
        self.one, self.two = nn.Linear(24, 16), nn.Linear(16, 12)
        self.last = nn.utils.parametrizations.weight_norm(nn.Linear(12, 3))
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 1], [1, 2, 0, 2, 3]]))

    def forward(self, x):
        x = self.inputs(x)
        for _ in range(2):
            begins, ends = self.edges
            passed = self.two(self.one(torch.cat([x[begins], x[ends]], -1)).relu())
            x = self.cell(torch.zeros_like(x).index_add(0, ends, passed), x)
        return self.last(x.topk(2, 0)[0])


class Recurrent(nn.Module):
    """Recurrent layers in both directions, and one of another kind."""

    def __init__(self):
        super().__init__()
        self.both = nn.LSTM(6, 10, 2, batch_first=True, bidirectional=True)
        self.one, self.last = nn.GRU(20, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.one(self.both(x)[0])[0])


class Mixed(nn.Module):
    """Groups that are shuffled beside a pooled shortcut, and halves by slicing."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 18, 1)
        self.one, self.two = nn.Conv2d(18, 36, 1, groups=3), nn.Conv2d(36, 30, 1, groups=3)
        self.norm, self.depthwise = nn.BatchNorm2d(36), nn.Conv2d(36, 36, 3, 1, 1, groups=36)
        self.gate, self.last = nn.Conv2d(24, 24, 1), nn.Conv2d(72, 4, 1)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.one(x)).relu()
        n, channels, *sides = y.shape
        y = y.reshape(n, 3, channels // 3, *sides).transpose(1, 2).reshape(y.shape)
        x = torch.cat([functional.avg_pool2d(x, 3, 1, 1), self.two(self.depthwise(y))], 1)
        middle = x.shape[1] // 2
        first, second = x[:, :middle], x[:, middle:]
        return self.last(torch.cat([first, self.gate(first) * second, second], 1))


NETWORKS = {
    "dense": lambda: (Dense(), torch.randn(2, 3, 8, 8)),
    "shuffled": lambda: (Shuffled(), torch.randn(2, 3, 6, 6)),
    "halved": lambda: (Halved(), torch.randn(2, 3, 6, 6)),
    "grouped": lambda: (Grouped(), torch.randn(2, 3, 4, 4)),
    "attention": lambda: (Attention(), torch.randn(2, 5, 10)),
    "scan": lambda: (Scan(), torch.randn(2, 5, 6)),
    "einsum": lambda: (Einsum(), torch.randn(2, 5, 4)),
    "enlarged": lambda: (Enlarged(), torch.randn(1, 3, 8, 8)),
    "messages": lambda: (Messages(), torch.randn(4, 5)),
    "recurrent": lambda: (Recurrent(), torch.randn(2, 5, 6)),
    "mixed": lambda: (Mixed(), torch.randn(2, 3, 6, 6)),
}
