"""Random small networks of layers that Sluice has. draw: a random.Random."""
import torch
import torch.nn.functional as F
from torch import nn

from .layers_for_tests import GroupedAttention, RowWise, Transposed, WrittenNorm, erf_gelu, tanh_gelu, turned_halves


class RandomNet(nn.Module):
    """Parts one after another; (part, kind): kind "add" adds its input, "cat" concatenates it."""

    def __init__(self, parts, head, before=None):
        super().__init__()
        self.parts, self.kinds = nn.ModuleList(p for p, _ in parts), [k for _, k in parts]
        self.head, self.before = head, before

    def forward(self, x):
        x = self.before(x) if self.before is not None else x
        for part, kind in zip(self.parts, self.kinds):
            y = part(x)
            x = x + y if kind == "add" else torch.cat([x, y], 1) if kind == "cat" else y
        return self.head(x)


def random_images(draw):
    width, size, parts = 3, 8, []
    for _ in range(draw.randint(2, 6)):
        kind = draw.choice(("conv", "conv", "add", "cat", "pool", "norm", "drop", "act"))
        if kind in ("conv", "cat"):
            out = draw.randint(2, 8)
            holes = draw.choice((1, 1, 2))
            parts.append((nn.Conv2d(width, out, 3, padding=holes, dilation=holes, bias=draw.random() < 0.5), kind))
            width = width + out if kind == "cat" else out
        elif kind == "add":
            parts.append(
                (nn.Sequential(nn.Conv2d(width, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)), kind)
            )
        elif kind == "pool" and size > 2:
            parts.append((draw.choice((nn.MaxPool2d, nn.AvgPool2d))(2), kind))
            size //= 2
        elif kind == "norm":
            norm = draw.choice((nn.BatchNorm2d, nn.InstanceNorm2d, lambda n: nn.GroupNorm(1, n)))
            parts.append((norm(width), kind))
        elif kind == "drop":
            parts.append((draw.choice((nn.Dropout, nn.Dropout2d))(draw.choice((0.1, 0.5))), kind))
        else:
            parts.append((draw.choice((nn.ReLU, nn.Tanh, nn.SiLU, nn.LeakyReLU, nn.GELU, nn.Sigmoid, nn.ReLU6,
                                       nn.Hardswish))(), kind))
    head = nn.Sequential(nn.Flatten(), nn.Linear(width * size * size, 12), nn.ReLU(), nn.Linear(12, 5))
    return RandomNet(parts, head), torch.randn(4, 3, 8, 8)


def random_attention(draw):
    keys, causal, together = draw.choice((1, 2, 4)), draw.random() < 0.5, draw.random() < 0.5
    base = draw.choice((0, 1e4))

    def attend(q, k, v):
        k, v = (x.repeat_interleave(4 // keys, 1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    turn = (lambda x: turned_halves(x, base)) if base else (lambda x: x)
    return GroupedAttention(draw.choice((4, 6)), keys, draw.random() < 0.5, draw.random() < 0.5, turn, attend, together)


class Embedded(nn.Module):
    def __init__(self, places):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Parameter(torch.zeros(7, 16)) if places else None

    def forward(self, x):
        x = self.words(x)
        return x if self.places is None else x + self.places


class Written(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class First(nn.Module):
    def __init__(self, lstm):
        super().__init__()
        self.lstm = lstm

    def forward(self, x):
        return self.lstm(x)[0]


def random_tokens(draw):
    parts = []
    for _ in range(draw.randint(1, 5)):
        kind = draw.choice(("attention", "mlp", "rows", "norm", "lstm", "drop", "encoder"))
        if kind == "attention":
            parts.append((nn.Sequential(draw.choice((nn.LayerNorm, WrittenNorm))(16), random_attention(draw)), "add"))
        elif kind == "mlp":
            parts.append(
                (
                    nn.Sequential(
                        nn.Linear(16, 24),
                        draw.choice((nn.GELU, nn.ReLU, nn.SiLU))(),
                        nn.Linear(24, 16, bias=draw.random() < 0.5),
                    ),
                    draw.choice(("add", "")),
                )
            )
        elif kind == "rows":
            inner = [draw.choice((nn.Linear, Transposed))(16, 16), Written(draw.choice((erf_gelu, tanh_gelu)))]
            parts.append((draw.choice((RowWise, nn.Sequential))(*inner, nn.Dropout(0.2)), draw.choice(("add", ""))))
        elif kind == "norm":
            parts.append((draw.choice((nn.LayerNorm, nn.RMSNorm))(16), ""))
        elif kind == "lstm":
            parts.append((First(nn.LSTM(16, 16, batch_first=True)), ""))
        elif kind == "drop":
            parts.append((nn.Dropout(0.3), ""))
        else:
            parts.append((nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=draw.random() < 0.5), ""))
    return RandomNet(parts, nn.Linear(16, 20), Embedded(draw.random() < 0.5)), torch.randint(0, 20, (4, 7))
