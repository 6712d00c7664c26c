"""Small modules of what has a layer, and of what nearly has one; import_pytorch_check_test.py says which."""

import torch
from torch import nn
import torch.nn.functional as F

from .models_for_tests import IDS, IMAGE, Net, X


def gates():
    """A gate of channels and one of every element."""
    m = nn.ModuleDict(dict(c=nn.Conv2d(3, 8, 3), g=nn.GroupNorm(2, 8), h=nn.Hardswish(), p=nn.AdaptiveAvgPool2d(1),
                           a=nn.Conv2d(8, 4, 1), r=nn.ReLU6(), b=nn.Conv2d(4, 8, 1), s=nn.Hardsigmoid()))

    def run(net, x):
        y = m.h(m.g(m.c(x)))
        y = m.s(m.b(m.r(m.a(m.p(y))))) * y
        y = F.relu6(y).mean((-2, -1))
        return net.d(F.silu(net.u(y)) * net.v(y))

    return Net(run, m=m, u=nn.Linear(8, 16), v=nn.Linear(8, 16), d=nn.Linear(16, 4)), IMAGE()


def pooled():
    def run(m, x):
        y = F.avg_pool2d(F.max_pool2d(m.c(x), 3, stride=1, padding=1), kernel_size=2)
        y = torch.max_pool2d(F.adaptive_avg_pool2d(F.hardswish(m.p(y)), [2, 2]), 1, [])
        return m.l(F.adaptive_avg_pool2d(y, (1, 1)).flatten(1))

    return Net(run, c=nn.Conv2d(3, 8, 1), p=nn.AdaptiveAvgPool2d((2, 2)), l=nn.Linear(8, 4)), IMAGE()


def pooled_words():
    def run(m, ids):
        x = m.e(ids)
        return m.l(torch.cat([x.mean(dim=1), x[:, 0], x[:, -1]], dim=1))

    return Net(run, e=nn.Embedding(20, 8), l=nn.Linear(24, 4)), IDS()


def sounds():
    def run(m, x):
        y = F.relu(m.n(m.a(x)))
        y = m.g(m.b(y).transpose(1, 2))
        return m.l(F.adaptive_avg_pool1d(y.permute((0, 2, 1)), 1).flatten(1))

    return Net(run, a=nn.Conv1d(3, 8, 5, stride=2, padding=2), n=nn.BatchNorm1d(8),
               b=nn.Conv1d(8, 8, 3, dilation=2, groups=4, bias=False), g=nn.LayerNorm(8),
               l=nn.Linear(8, 4)), torch.randn(4, 3, 32)


def films():
    def run(m, x):
        return m.l(m.p(F.relu(m.n(m.b(m.a(x))))).flatten(1) + m.d(x).mean((-1, -2, -3)))

    return Net(run, a=nn.Conv3d(3, 8, (1, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1), bias=False),
               b=nn.Conv3d(8, 8, (3, 1, 1), padding=(1, 0, 0)), n=nn.BatchNorm3d(8), p=nn.AdaptiveAvgPool3d((1, 1, 1)),
               d=nn.Conv3d(3, 8, 1), l=nn.Linear(8, 4)), torch.randn(4, 3, 4, 8, 8)


def holes():
    return Net(lambda m, x: m.l(F.relu(m.b(m.a(x))).mean((2, 3))), a=nn.Conv2d(3, 8, 3, padding=2, dilation=2),
               b=nn.Conv2d(8, 8, 3, stride=(1, 2)), l=nn.Linear(8, 4)), IMAGE()


class Cube(nn.Conv3d):
    """A class derived from a layer's, as torchvision's Conv3DSimple."""

    def __init__(self):
        super().__init__(4, 4, 3, padding=1, groups=2)


def derived():
    def run(m, x):
        return m.l(F.relu(m.b(m.a(x))).mean((2, 3, 4)))

    return Net(run, a=Cube(), b=Cube(), l=nn.Linear(4, 4)), torch.randn(4, 4, 3, 4, 4)


class Weights(nn.Module):
    def __init__(self, *shapes):
        super().__init__()
        self.all = nn.ParameterList(torch.randn(shape) / 3 for shape in shapes)


class Functions(Weights):
    def forward(self, x):
        conv, g, b, s, t, linear = self.all
        y = F.group_norm(F.conv1d(x, conv, stride=2, padding=2), 2, weight=g, bias=b)
        y = F.layer_norm(y.transpose(1, 2), (8,), s, t, 1e-3)
        return F.linear(y.mean(1), weight=linear)


def functions():
    return Functions((8, 3, 5), 8, 8, 8, 8, (4, 8)), torch.randn(4, 3, 32)


class Padded(Weights):
    def forward(self, x):
        return F.linear(F.conv2d(x, self.all[0], padding="same").mean((2, 3)), self.all[1])


def same_padding():
    return Padded((4, 3, 3, 3), (4, 4)), IMAGE()


def halves():
    return Net(lambda m, x: m.l(m.p(m.a(x)).flatten(1)), a=nn.Conv1d(3, 4, 3), p=nn.AdaptiveAvgPool1d(2),
               l=nn.Linear(8, 4)), torch.randn(4, 3, 10)


def squares():
    def run(m, x):
        y = m.a(x)
        return m.b(y * y)

    return Net(run, a=nn.Linear(8, 8), b=nn.Linear(8, 4)), X()


def mean_of_channels():
    return Net(lambda m, x: m.l(m.c(x).mean(dim=1).flatten(1)), c=nn.Conv2d(3, 4, 1), l=nn.Linear(64, 4)), IMAGE()


def ceil_pool():
    return Net(lambda m, x: m.l(torch.max_pool2d(x, 3, 2, 0, 1, True).flatten(1)), l=nn.Linear(48, 4)), IMAGE()


def uneven_pool():
    return Net(lambda m, x: m.l(m.p(x).flatten(1)), p=nn.AdaptiveAvgPool2d(3), l=nn.Linear(27, 4)), IMAGE()


class WrittenNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        kept, x = x.dtype, x.to(torch.float32)
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3)).to(kept)


def turned_halves(x, base):
    angles = torch.outer(torch.arange(x.shape[-2]).float(), base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1]))
    both = torch.cat((angles, angles), -1)
    a, b = x.chunk(2, -1)
    return x * both.cos() + torch.cat((-b, a), -1) * both.sin()


def turned_neighbours(x, base):
    angles = torch.outer(torch.arange(x.shape[-2]).float(), base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1]))
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1).flatten(-2)


class GroupedAttention(nn.Module):
    """Four query heads of width `each` of 16 numbers, and `keys` key heads."""

    def __init__(self, each=4, keys=2, bias=False, out_bias=False, turn=lambda x: x, attend=None, together=False):
        super().__init__()
        sizes = [4 * each, keys * each, keys * each]
        self.each, self.turn, self.sizes = each, turn, sizes if together else None
        self.attend = attend or self.repeat_and_attend
        self.qkv = nn.ModuleList(nn.Linear(16, n, bias=bias) for n in ([sum(sizes)] if together else sizes))
        self.o = nn.Linear(4 * each, 16, bias=out_bias)

    @staticmethod
    def repeat_and_attend(q, k, v):
        def repeated(x):
            b, h, t, d = x.shape
            return x[:, :, None].expand(b, h, q.shape[1] // h, t, d).reshape(b, -1, t, d)
        return F.scaled_dot_product_attention(q, repeated(k), repeated(v), is_causal=True)

    def forward(self, x):
        made = self.qkv[0](x).split(self.sizes, -1) if self.sizes else [linear(x) for linear in self.qkv]
        q, k, v = (m.view(*m.shape[:2], -1, self.each).transpose(1, 2) for m in made)
        y = self.attend(self.turn(q), self.turn(k), v).transpose(1, 2)
        return self.o(y.reshape(*x.shape[:2], -1))


def words_of(attention):
    def run(m, ids):
        x = m.e(ids)
        x = x + m.a(m.n(x))
        y = m.f(x)
        x = x + m.d(F.silu(m.g(y)) * m.u(y))
        return m.h(x[:, 0:, :])

    return Net(run, e=nn.Embedding(20, 16), n=WrittenNorm(16), a=attention, f=WrittenNorm(16),
               g=nn.Linear(16, 24, bias=False), u=nn.Linear(16, 24, bias=False), d=nn.Linear(24, 16, bias=False),
               h=nn.Linear(16, 20)), IDS()


def grouped():
    """A block as that of Llama."""
    return words_of(GroupedAttention(turn=lambda x: turned_halves(x, 500.0)))


def grouped_together():
    attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    return words_of(GroupedAttention(each=6, keys=1, bias=True, out_bias=True, attend=attend, together=True))


def masked():
    """Its own scale, and a mask that is a tensor."""
    def attend(q, k, v):
        mask = torch.full((6, 6), float("-inf")).triu(1)[None, None]
        return F.scaled_dot_product_attention(q * 4 ** -0.5, k, v, attn_mask=mask, scale=1.0)

    return words_of(GroupedAttention(keys=4, bias=True, attend=attend))


def window():
    """A mask that lets a position look at itself and the one before."""
    def attend(q, k, v):
        mask = torch.ones(6, 6, dtype=torch.bool).tril() & ~torch.ones(6, 6, dtype=torch.bool).tril(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return words_of(GroupedAttention(keys=4, attend=attend))


def distances():
    """A bias by distance, as of ALiBi."""
    def attend(q, k, v):
        places = torch.arange(6.0)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=-(places[:, None] - places).abs())

    return words_of(GroupedAttention(keys=4, attend=attend))


def neighbours():
    """Rotary positions that turn neighbouring numbers as a pair."""
    return words_of(GroupedAttention(turn=lambda x: turned_neighbours(x, 500.0)))


def one_turned():
    """Rotary positions of the queries alone."""
    def attend(q, k, v):
        return F.scaled_dot_product_attention(turned_halves(q, 500.0), k, v)

    return words_of(GroupedAttention(keys=4, attend=attend))


def normed_queries():
    norm = nn.LayerNorm(4)
    m, ids = words_of(GroupedAttention(keys=4, attend=lambda q, k, v: F.scaled_dot_product_attention(norm(q), k, v)))
    m.norm = norm
    return m, ids


class Patches(nn.Module):
    """The front of a vision transformer."""

    def __init__(self, to_sequence, stride=4):
        super().__init__()
        self.conv, self.to_sequence = nn.Conv2d(3, 6, 4, stride), to_sequence
        self.first, self.places = nn.Parameter(torch.randn(1, 1, 6)), nn.Parameter(torch.randn(1, 5, 6))
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.to_sequence(self.conv(x))
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1)[:, :5]
        return self.head((x + self.places)[:, 0])


def patches():
    return Patches(lambda y: y.flatten(2).transpose(1, 2)), IMAGE()


def patches_by_column():
    return Patches(lambda y: y.transpose(2, 3).flatten(2).transpose(1, 2)), IMAGE()


class Transposed(nn.Module):
    """A linear layer whose weight is [in, out], of rows, as GPT-2's in transformers."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) / 4), nn.Parameter(torch.randn(outputs) / 4)

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Product(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / 4)

    def forward(self, x):
        return x @ self.weight


def tanh_gelu(x, cubed=0.044715):
    return 0.5 * x * (1.0 + torch.tanh((2 / torch.pi) ** 0.5 * (x + cubed * torch.pow(x, 3.0))))


def erf_gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / 2 ** 0.5))


class OwnGelu(torch.autograd.Function):
    """With a backward of its own, as Bloom's in transformers."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return tanh_gelu(x)

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(tanh_gelu(x), x, ctx.scale * gradient)[0], None


class RowWise(nn.Module):
    """Linear layers of the steps of all sequences, as OPT's in transformers."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, x):
        rows = x.reshape(-1, x.size(-1))
        return (rows + self.parts(rows)).view(x.shape)


def transposed(gelu=tanh_gelu):
    """A block as that of GPT-2."""
    def run(m, ids):
        ids = ids.view(-1, ids.shape[-1])
        x = m.e(ids) + m.p(torch.arange(ids.shape[1]).unsqueeze(0))
        q, k, v = (y.view(*y.shape[:2], 2, 8).transpose(1, 2) for y in m.qkv(m.n(x)).split(16, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + m.o(y.reshape(*y.shape[:2], 16).contiguous())
        return m.h(x + m.d(gelu(m.u(x))))

    return Net(run, e=nn.Embedding(20, 16), p=nn.Embedding(6, 16), n=nn.LayerNorm(16), qkv=Transposed(16, 48),
               o=Transposed(16, 16), u=Transposed(16, 24), d=Transposed(24, 16), h=nn.Linear(16, 20)), IDS()


def own_gelu(scale=1.0):
    return transposed(lambda x: OwnGelu.apply(x, scale))


def own_gelu_scaled():
    """Its backward is not that of what it computes."""
    return own_gelu(1.5)


def other_gelu():
    return transposed(lambda x: tanh_gelu(x, 0.05))


def of_rows(*parts):
    """Positions from the third row of their table on."""
    def run(m, ids):
        x = m.e(ids) + m.p(torch.ones(ids.shape, dtype=torch.long).cumsum(1) + 1)
        return m.h(m.r(x)) + m.zeros

    m = Net(run, e=nn.Embedding(20, 16), p=nn.Embedding(8, 16), r=RowWise(*parts), h=nn.Linear(16, 20))
    m.register_buffer("zeros", torch.zeros(20))
    return m, IDS()


def row_wise():
    return of_rows(nn.LayerNorm(16), nn.Linear(16, 24), nn.ReLU(), Product(24, 16), nn.Dropout(0.2))


def normed_rows():
    """The statistics of a batch norm of rows are those of one number of every step, of sequences those of a step."""
    return of_rows(nn.Linear(16, 16), nn.BatchNorm1d(16))


class CrossAttention(nn.Module):
    def __init__(self, causal=False, together=False, bias=True):
        super().__init__()
        self.q, self.causal, self.o = nn.Linear(16, 16, bias=bias), causal, nn.Linear(16, 16, bias=bias)
        self.kv = nn.ModuleList(nn.Linear(12, n, bias=bias) for n in ([32] if together else [16, 16]))

    def forward(self, x, memory):
        made = [m for linear in self.kv for m in linear(memory).split(16, -1)]
        q, k, v = (m.view(*m.shape[:2], 4, 4).transpose(1, 2) for m in (self.q(x), *made))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(y.transpose(1, 2).flatten(2))


def crossed(**options):
    def run(m, ids):
        x = m.e(ids)
        return m.h(erf_gelu(x + m.c(1.0 * x, torch.relu(m.m(x)))))

    return Net(run, e=nn.Embedding(20, 16), m=nn.Linear(16, 12), c=CrossAttention(**options),
               h=nn.Linear(16, 20)), IDS()


def crossed_together():
    return crossed(together=True, bias=False)


def crossed_causal():
    return crossed(causal=True)
