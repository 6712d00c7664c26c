"""Small modules whose costs an importer gets wrong easily: checkpoints, backwards of their own, complex tensors."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytorch_import.models_for_tests import X, Net, chain, mlp


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = x * x
        return y * 1.0

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


square = Square.apply


def custom():
    return Net(lambda m, x: m.c(Square.apply(m.b(torch.relu(m.a(x))))), **mlp()), X()


def custom_bound():
    return Net(lambda m, x: m.c(square(m.b(torch.relu(m.a(x))))), **mlp()), X()


def ckpt():
    return Net(
        lambda m, x: m.c(checkpoint(lambda y: torch.relu(m.b(torch.relu(m.a(y)))), x, use_reentrant=False)), **mlp()
    ), torch.randn(256, 8)


def ckpt_reentrant():
    return Net(
        lambda m, x: m.c(checkpoint(lambda y: torch.relu(m.b(y)), torch.relu(m.a(x)), use_reentrant=True)), **mlp()
    ), torch.randn(256, 8)


def inplace_view_of_product():
    def run(m, x):
        y = m.b(m.a(x))
        y[:, :8].zero_()
        return m.c(y)

    return Net(run, **mlp()), X()


def breaks():
    return Net(chain, **mlp()), 1 / 0


def without_argument():
    return Net(lambda m, x, y: chain(m, x), **mlp()), X()


def wide(again, device):
    """Two products that a checkpoint makes again, or not."""

    def run(m, x):
        y = torch.relu(m.a(x))
        return m.c(checkpoint(m.b, y, use_reentrant=again == "reentrant") if again else m.b(y))

    with torch.device(device):
        parts = dict(a=nn.Linear(8, 32), b=nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)), c=nn.Linear(32, 4))
        return Net(run, **parts), torch.randn(64, 8)


def reentrant_meta():
    return wide("reentrant", "meta")


def ckpt_meta():
    return wide(True, "meta")


def whole_meta():
    return wide(False, "meta")


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Linear(n, 2 * n), nn.Linear(2 * n, n)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


def blocks():
    def run(m, x):
        for layer in m.layers:
            x = layer(x)
        return m.head(m.body(x))

    return (
        Net(
            run,
            layers=nn.ModuleList([Block(8), Block(8)]),
            body=nn.Sequential(Block(8), Block(8)),
            head=nn.Linear(8, 4),
        ),
        X(),
    )


def ckpt_blocks():
    def run(m, x):
        x = m.stem(x)
        for layer in m.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return m.head(checkpoint(lambda y: m.tail[1](m.tail[0](y)), x, use_reentrant=False))

    return Net(
        run,
        stem=nn.Linear(8, 8),
        layers=nn.ModuleList([Block(8), Block(8)]),
        tail=nn.ModuleList([Block(8), Block(8)]),
        head=nn.Linear(8, 4),
    ), torch.randn(64, 8)


def fourier():
    return (
        Net(
            lambda m, x: m.c(torch.fft.irfft(torch.fft.rfft(m.b(m.a(x))) * m.k, n=16)),
            **mlp(k=nn.Parameter(torch.randn(9, dtype=torch.cfloat)))
        ),
        X(),
    )
