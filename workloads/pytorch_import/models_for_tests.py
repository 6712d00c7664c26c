"""Small modules of the kinds that an importer gets wrong easily; import_pytorch_check_test.py says what is right."""

import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    """Parts by name, and what to do with them."""

    def __init__(self, run, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = run

    def forward(self, *inputs):
        return self.run(self, *inputs)


def mlp(**more):
    return dict(a=nn.Linear(8, 16), b=nn.Linear(16, 16), c=nn.Linear(16, 4), **more)


def chain(m, x):
    return m.c(torch.relu(m.b(torch.relu(m.a(x)))))


X = lambda: torch.randn(4, 8)
IDS = lambda: torch.randint(0, 20, (4, 6))
IMAGE = lambda: torch.randn(2, 3, 8, 8)


def plain():
    return Net(chain, **mlp()), X()


def forward_hook():
    m = Net(chain, **mlp())
    m.b.register_forward_hook(lambda m, x, y: y * 3)
    return m, X()


def pre_hook():
    m = Net(chain, **mlp())
    m.b.register_forward_pre_hook(lambda m, x: (x[0] * 3,))
    return m, X()


def monkey():
    m = Net(chain, **mlp())
    old = m.b.forward
    m.b.forward = lambda x: old(x) * 5
    return m, X()


def divisor():
    return Net(lambda m, x: m.l(m.p(x).flatten(1)), p=nn.AvgPool2d(2, divisor_override=1), l=nn.Linear(48, 4)), IMAGE()


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.n, self.l = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(144, 4)

    def train(self, mode=True):
        super().train(mode)
        self.n.eval()
        return self

    def forward(self, x):
        return self.l(self.n(self.c(x)).flatten(1))


def bn_eval():
    return Frozen(), IMAGE()


def bn_alone_eval():
    m = Net(lambda m, x: m.l(m.n(m.c(x)).flatten(1)), c=nn.Conv2d(3, 4, 3), n=nn.BatchNorm2d(4), l=nn.Linear(144, 4))
    m.n.eval()
    return m, IMAGE()


def frozen():
    m = Net(chain, **mlp())
    m.a.requires_grad_(False)
    return m, X()


def part_frozen():
    m = Net(chain, **mlp())
    m.a.weight.requires_grad_(False)
    return m, X()


def all_frozen():
    return Net(chain, **mlp()).requires_grad_(False), X()


def frozen_part():
    m = Net(lambda m, x: m.b(m.n(m.a(x))), a=nn.Linear(8, 16), n=nn.PReLU(16), b=nn.Linear(16, 4))
    m.n.requires_grad_(False)
    return m, X()


def detach():
    return Net(lambda m, x: m.c(torch.relu(m.b(torch.relu(m.a(x)).detach()))), **mlp()), X()


def no_grad_part():
    def run(m, x):
        with torch.no_grad():
            y = torch.relu(m.a(x))
        return m.c(torch.relu(m.b(y)))

    return Net(run, **mlp()), X()


def grad_hook():
    m = Net(chain, **mlp())
    m.b.weight.register_hook(lambda g: g * 0.1)
    return m, X()


def activation_hook():
    def run(m, x):
        y = torch.relu(m.a(x))
        if y.requires_grad:
            y.register_hook(lambda g: g * 0.1)
        return m.c(torch.relu(m.b(y)))

    return Net(run, **mlp()), X()


def inplace_view():
    def run(m, x):
        y = torch.relu(m.a(x))
        y[:, :8].zero_()
        return m.c(torch.relu(m.b(y)))

    return Net(run, **mlp()), X()


def old_weight_norm():
    m = Net(chain, **mlp())
    m.a = torch.nn.utils.weight_norm(m.a)
    return m, X()


def new_weight_norm():
    m = Net(chain, **mlp())
    m.a = torch.nn.utils.parametrizations.weight_norm(m.a)
    return m, X()


def old_spectral():
    m = Net(chain, **mlp())
    m.b = torch.nn.utils.spectral_norm(m.b)
    return m, X()


def new_spectral():
    m = Net(chain, **mlp())
    m.b = torch.nn.utils.parametrizations.spectral_norm(m.b)
    return m, X()


def pruned():
    import torch.nn.utils.prune as prune

    m = Net(chain, **mlp())
    prune.l1_unstructured(m.b, "weight", 0.5)
    return m, X()


def attn(scale=None, transpose=True, **options):
    def run(m, x):
        x = m.e(x)
        b, t, c = x.shape
        q, k, v = (y.view(b, t, 2, 8).transpose(1, 2) for y in m.qkv(x).split(16, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        y = y.transpose(1, 2) if transpose else y
        return m.h(m.o(y.reshape(b, t, c)))

    return (
        Net(run, e=nn.Embedding(20, 16, **options), qkv=nn.Linear(16, 48), o=nn.Linear(16, 16), h=nn.Linear(16, 20)),
        IDS(),
    )


def attention():
    return attn()


def attn_scale():
    return attn(scale=1.0)


def attn_no_transpose():
    return attn(transpose=False)


def padding_idx():
    return attn(padding_idx=0)


def max_norm():
    return attn(max_norm=1.0)


def sparse():
    return attn(sparse=True)


def clamps():
    def run(m, x):
        with torch.no_grad():
            m.a.weight.clamp_(-0.1, 0.1)
        return chain(m, x)

    return Net(run, **mlp()), X()


def renormalizes():
    def run(m, x):
        m.a.weight.data = torch.renorm(m.a.weight.data, 2, 0, 0.1)
        return chain(m, x)

    return Net(run, **mlp()), X()


def scale_grad():
    return attn(scale_grad_by_freq=True)


def pos(of, zeros=False):
    def run(m, x):
        return m.h(torch.relu(m.f(of(m, m.e(x)))))

    m = Net(
        run,
        e=nn.Embedding(20, 16),
        f=nn.Linear(16, 16),
        h=nn.Linear(16, 20),
        drop=nn.Dropout(0.3),
        p=nn.Embedding(6, 16),
    )
    m.t = nn.Parameter(torch.zeros(1, 6, 16) if zeros else torch.randn(1, 6, 16))
    return m, IDS()


def only(m, name):
    delattr(m, name)


def pos_plain():
    m, x = pos(lambda m, x: x + m.t)
    only(m, "p")
    return m, x


def pos_zeros():
    m, x = pos(lambda m, x: x + m.t, True)
    only(m, "p")
    return m, x


def pos_lookup():
    m, x = pos(lambda m, x: x + m.p(torch.arange(x.shape[1])))
    only(m, "t")
    return m, x


def pos_scaled():
    m, x = pos(lambda m, x: x + 0.1 * m.t, True)
    only(m, "p")
    return m, x


def pos_sin():
    m, x = pos(lambda m, x: x + torch.sin(m.t), True)
    only(m, "p")
    return m, x


def pos_matmul():
    m, x = pos(lambda m, x: x + m.t @ m.M, True)
    only(m, "p")
    m.register_buffer("M", torch.randn(16, 16))
    return m, x


def pos_dropout():
    m, x = pos(lambda m, x: x + m.drop(m.t))
    only(m, "p")
    return m, x


def pos_reversed():
    m, x = pos(lambda m, x: x + m.p(torch.arange(x.shape[1]).flip(0)))
    only(m, "t")
    return m, x


def pos_zero():
    m, x = pos(lambda m, x: x + m.p(torch.zeros(x.shape[1], dtype=torch.long)))
    only(m, "t")
    return m, x


def pos_twice():
    m, x = pos(lambda m, x: x + m.t + m.t)
    only(m, "p")
    return m, x


def pos_bias():
    m, x = pos(lambda m, x: x + m.t[:, :1])
    only(m, "p")
    m.t = nn.Parameter(torch.randn(1, 1, 16))
    return m, x


def shared_conv():
    return (
        Net(lambda m, x: m.l(m.c(torch.relu(m.c(x))).flatten(1)), c=nn.Conv2d(3, 3, 3, padding=1), l=nn.Linear(192, 4)),
        IMAGE(),
    )


def shared_norm():
    return Net(lambda m, x: m.c(m.n(m.b(m.n(m.a(x))))), n=nn.LayerNorm(16), **mlp()), X()


def shared_linear():
    return Net(lambda m, x: m.c(torch.relu(m.b(torch.relu(m.b(m.a(x)))))), **mlp()), X()


def tied_bias():
    m = Net(chain, **mlp(d=nn.Linear(16, 16)))
    m.run = lambda m, x: m.c(torch.relu(m.d(torch.relu(m.b(m.a(x))))))
    m.d.weight, m.d.bias = m.b.weight, m.b.bias
    return m, X()


def tied_good():
    m = Net(chain, **mlp(d=nn.Linear(16, 16)))
    m.run = lambda m, x: m.c(torch.relu(m.d(torch.relu(m.b(m.a(x))))))
    m.d.weight = m.b.weight
    return m, X()


def cast_down():
    return Net(lambda m, x: m.c(torch.relu(m.b(m.a(x))).to(torch.bfloat16).float()), **mlp()), X()


def bf16():
    return Net(chain, **mlp()).bfloat16(), X().bfloat16()


def fp64():
    return Net(chain, **mlp()).double(), X().double()


def unused():
    return Net(chain, **mlp(d=nn.Linear(100, 100))), X()


def unused_input():
    return Net(lambda m, x, y: chain(m, x), **mlp()), (X(), X())


def autocast():
    def run(m, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = m.b(torch.relu(m.a(x)))
        return m.c(torch.relu(y.float()))

    return Net(run, **mlp()), X()


def decides():
    return Net(lambda m, x: m.c(m.b(m.a(x)) if x[0, 0] > -0.9 else torch.relu(m.b(m.a(x)))), **mlp()), \
        torch.linspace(-1, 1, 512).view(64, 8)


def decides_alike():
    """The same way for every part of the example inputs."""
    return Net(lambda m, x: m.c(m.b(m.a(x)) if x.abs().sum() > 0 else torch.relu(m.b(m.a(x)))), **mlp()), X()


def scales_by_item():
    return Net(lambda m, x: m.c(m.a(x) * m.a.weight.norm().item()), a=nn.Linear(8, 16), c=nn.Linear(16, 4)), X()


def reads_its_ids():
    """A mask of whole numbers that is looked at, as transformers do."""
    return Net(lambda m, i: m.c(m.e(i) if bool((i >= 0).all()) else m.e(i.abs())), e=nn.Embedding(20, 8),
               c=nn.Linear(8, 4)), IDS()


def reads_constants():
    return Net(lambda m, x: m.c(torch.relu(m.a(x))) if torch.ones(3).sum() > 2 else x, a=nn.Linear(8, 16),
               c=nn.Linear(16, 4)), X()


def bn3d():
    return Net(lambda m, x: m.l(m.n(x).flatten(1)), n=nn.BatchNorm1d(3), l=nn.Linear(15, 4)), torch.randn(4, 3, 5)


def seg_ce():
    return Net(lambda m, x: m.c(x), c=nn.Conv2d(3, 5, 1)), IMAGE()


def maxpool_idx():
    return (
        Net(lambda m, x: m.l(m.p(x)[0].flatten(1)), p=nn.MaxPool2d(2, return_indices=True), l=nn.Linear(48, 4)),
        IMAGE(),
    )


def mha_weights():
    def run(m, x):
        x = m.e(x)
        y, w = m.a(x, x, x)
        return m.h(y) + w.sum() * 0

    return (
        Net(run, e=nn.Embedding(20, 16), a=nn.MultiheadAttention(16, 2, batch_first=True), h=nn.Linear(16, 20)),
        IDS(),
    )


def mha():
    return (
        Net(
            lambda m, x: m.h(m.a(*[m.e(x)] * 3)[0]),
            e=nn.Embedding(20, 16),
            a=nn.MultiheadAttention(16, 2, batch_first=True, dropout=0.1),
            h=nn.Linear(16, 20),
        ),
        IDS(),
    )


def dropouts():
    return (
        Net(lambda m, x: m.c(m.d(torch.relu(m.b(F.dropout(torch.relu(m.a(x)), 0.2))))), **mlp(d=nn.Dropout(0.4))),
        X(),
    )


def encoder():
    return (
        Net(
            lambda m, x: m.h(m.t(m.e(x))),
            e=nn.Embedding(20, 16),
            t=nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
            h=nn.Linear(16, 20),
        ),
        IDS(),
    )


def lstm():
    return (
        Net(
            lambda m, x: m.h(m.t(m.e(x))[0]),
            e=nn.Embedding(20, 16),
            t=nn.LSTM(16, 12, batch_first=True),
            h=nn.Linear(12, 20),
        ),
        IDS(),
    )


def cnn():
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, (3, 1), padding=(1, 0)),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 4),
        ),
        IMAGE(),
    )


def up():
    return (
        Net(
            lambda m, x: m.l(m.u(m.d(x)).flatten(1)),
            d=nn.ConvTranspose2d(3, 4, 2, 2),
            u=nn.Upsample(scale_factor=(2, 2)),
            l=nn.Linear(4096, 3),
        ),
        IMAGE(),
    )


def several():
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.PReLU(8),
            nn.Softplus(),
            nn.Conv2d(8, 8, 3),
            nn.PReLU(8),
            nn.Flatten(),
            nn.Linear(288, 4),
        ),
        IMAGE(),
    )


class Kw(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, *, x, scale=None):
        return self.b(torch.relu(self.a(x)))


def kw():
    return Kw(), {"x": X(), "scale": None}


def compiled():
    return torch.compile(Net(chain, **mlp())), X()


def compiled_part():
    m = Net(chain, **mlp())
    m.b = torch.compile(m.b)
    return m, X()


def scripted():
    return torch.jit.script(nn.Sequential(nn.Linear(8, 4))), X()


def meta():
    with torch.device("meta"):
        m = Net(chain, **mlp())
        return m, torch.randn(4, 8)


def looks_at_values():
    """As models of transformers do: values are read except under torch.export."""
    def run(m, x):
        return chain(m, x if torch.compiler.is_compiling() or (x == 0).all() else x + 0)

    with torch.device("meta"):
        return Net(run, **mlp()), torch.randn(4, 8)


def raises():
    return Net(lambda m, x: m.nope(x)), X()


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.drop = nn.GroupNorm(4, width), nn.Dropout(0.2)
        self.up, self.gate, self.down = nn.Linear(width, 24), nn.Linear(width, 24), nn.Linear(24, width)

    def forward(self, x):
        y = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return x + self.drop(self.down(self.up(y) * F.hardswish(self.gate(y))))


class Statistics(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return F.softplus(self.norm(x.transpose(1, 2)).transpose(1, 2))


def gated():
    """harness/tests/data/modules: `import_pytorch.py models_for_tests.py:gated --layers gated.json`, from before group
    norms and gates were layers."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Embedding(20, 16, padding_idx=0), Gated(16), nn.Linear(16, 16), nn.ReLU(), Gated(16),
                         Statistics(16), nn.Linear(16, 20)), torch.randint(0, 20, (4, 6))
