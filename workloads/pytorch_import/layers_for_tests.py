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
