"""What a recording changes in a model, or must not find changed: modes, buffers, the places of parameters."""
import contextlib

import torch
from torch import nn


@contextlib.contextmanager
def restored(model):
    """Gives buffers (batch statistics, counters) and the mode back as they were."""
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    modes = [(m, m.training) for m in model.modules()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def exportable(device):
    """On the meta device no tensor has values: models that support torch.export then leave out what reads some."""
    is_compiling = torch.compiler.is_compiling
    if device == "meta":
        torch.compiler.is_compiling = lambda: True
    try:
        yield
    finally:
        torch.compiler.is_compiling = is_compiling


def places_of_parameters(model):
    """What changes with every assignment to a parameter, in place or to its data; lazy ones have none yet."""
    return {n: (p._version, p.data_ptr()) for n, p in model.named_parameters() if not nn.parameter.is_lazy(p)}


def train(model):
    """Training mode; parts that its maker put into eval() while the whole trains stay there."""
    kept = [m for m in model.modules() if not m.training] if model.training else []
    model.train()
    for m in kept:
        m.training = False
