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
