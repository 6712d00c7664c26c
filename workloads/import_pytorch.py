#!/usr/bin/env python3
"""Turns a PyTorch module into files for Sluice: measured costs of its layers, and the layers themselves.

    workloads/import_pytorch.py net.py:make --costs net.costs.json --layers net.json --loss cross_entropy

net.py is any Python file with a function (here `make`) that returns a torch.nn.Module and its example inputs, a tensor
or a tuple of tensors with the micro-batch first. This file is the whole program, and long because of that: it needs
torch and nothing else, so that it can be copied beside a model and imported: record(), cost_graph(), layers_of().

--costs writes sluice/cost_graph/1: per layer the seconds of forward, input gradient and weight gradient, and the bytes
of parameters, output and stash, with every branch and skip. Any module will do: one forward runs in eager mode and
every operation on tensors is recorded, whatever Python decides in between. `sluice plan`, `advise` and `run --clock
virtual` take the file as --workload.

--layers writes sluice/model/1, where Sluice knows every kind of layer: that also trains for real, from new weights. A
linear layer or embedding with the weight of an earlier one is marked (tied_to), unless --untie is given.

A layer is a call of the first module on the way down that is no nn.Sequential (nor nn.Transformer); --depth 2 goes one
module further down, and so on, --depth 0 to the bottom. Its name is the module's; what runs in it later, after another
layer, is a layer NAME#2 of its own. Layers that do the same work on the same shapes share the median of all their
measurements.
"""
import argparse
import contextlib
import importlib.util
import json
import math
import os
import platform
import statistics
import sys
import time

import torch
from torch import nn
from torch.utils import _pytree as tree


CONTAINERS = (nn.Sequential, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)


class Refusal(Exception):
    """What cannot be imported, in words."""


# Recording: one eager forward becomes a list of operations on numbered values.


class Value:
    """A tensor that an operation made or that came from outside."""

    def __init__(self, tensor, kind, number=0, name=""):
        self.tensor, self.kind, self.number, self.name = tensor, kind, number, name
        self.maker = None  # its Operation
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype

    def bytes(self):
        return math.prod(self.shape) * self.dtype.itemsize


class Operation:
    """function(*args, **kwargs), with Values in place of tensors; it changes none of them."""

    def __init__(self, function, args, kwargs, path, leaf):
        self.function, self.args, self.kwargs, self.path, self.leaf = function, args, kwargs, path, leaf
        self.outputs = []  # as many as the function's result has leaves; None where that is no tensor
        self.name = getattr(function, "__name__", str(function))

    def inputs(self):
        return [a for a in tree.tree_leaves((self.args, self.kwargs)) if isinstance(a, Value)]

    def run(self, tensor_of):
        take = lambda a: tensor_of(a) if isinstance(a, Value) else a
        return self.function(*tree.tree_map(take, self.args), **tree.tree_map(take, self.kwargs))


class Call:
    """A call of a module: what it was given and what it gave back."""

    def __init__(self, name, module, args, kwargs):
        self.name, self.module, self.args, self.kwargs, self.result = name, module, args, kwargs, None


IN_PLACE_OPERATORS = {f"__i{o}__": f"__{o}__" for o in ("add", "sub", "mul", "truediv", "floordiv", "pow", "and", "or",
                                                        "xor", "matmul", "mod")}


def changes_its_first(function, kwargs):
    name = getattr(function, "__name__", "")
    return (name in IN_PLACE_OPERATORS or name == "__setitem__" or bool(kwargs.get("inplace"))
            or (name.endswith("_") and not name.endswith("__")))


def on_a_copy(function):
    """The same function on a copy of its first argument, which it returns."""

    def copied(first, *args, **kwargs):
        result = first.clone()
        function(result, *args, **kwargs)
        return result

    copied.__name__ = function.__name__
    return copied


def out_of_place(function, kwargs):
    """The same work without a change of what is given."""
    name = function.__name__
    if kwargs.get("inplace"):
        return function, {**kwargs, "inplace": False}
    if name == "requires_grad_":
        without = torch.Tensor.view_as
        return (lambda x, *_: without(x, x)), {}
    plain = IN_PLACE_OPERATORS.get(name, name.rstrip("_") if name != "__setitem__" else "")
    for owner in (torch.Tensor, torch):
        candidate = getattr(owner, plain, None) if plain else None
        if callable(candidate):
            return candidate, kwargs
    return on_a_copy(function), kwargs


class Recorder(torch.overrides.TorchFunctionMode):
    def __init__(self, model, inputs):
        super().__init__()
        self.model, self.operations, self.calls = model, [], []
        self.names = {id(m): n for n, m in model.named_modules()}
        self.stack = []  # of (name, number of the call, module)
        self.leaf = None  # the Call of a module of torch.nn that is running
        self.values, self.kept = {}, []  # by id of the tensor; tensors are kept, so that ids stay theirs
        self.parameters = {id(p): n for n, p in model.named_parameters()}
        self.buffers = {id(b) for b in model.buffers()}
        self.inputs = [self.bind(t, Value(t, "input", i)) for i, t in enumerate(inputs)]
        self.call_count = 0

    def bind(self, tensor, value):
        self.values[id(tensor)] = value
        self.kept.append(tensor)
        return value

    def value_of(self, tensor):
        known = self.values.get(id(tensor))
        if known is not None:
            return known
        if id(tensor) in self.parameters:
            return self.bind(tensor, Value(tensor, "parameter", name=self.parameters[id(tensor)]))
        return self.bind(tensor, Value(tensor, "constant"))

    def symbolic(self, arguments):
        return tree.tree_map(lambda a: self.value_of(a) if isinstance(a, torch.Tensor) else a, arguments)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        given = self.symbolic((tuple(args), kwargs))  # before the function changes anything
        result = function(*args, **kwargs)
        changed = changes_its_first(function, kwargs)
        made = args[0] if getattr(function, "__name__", "") == "__setitem__" else result
        leaves = tree.tree_leaves(made)
        if not any(isinstance(t, torch.Tensor) for t in leaves):
            return result
        function, plain = out_of_place(function, given[1]) if changed else (function, given[1])
        plain.pop("out", None)
        path = [(name, number) for name, number, module in self.stack if name and not isinstance(module, CONTAINERS)]
        operation = Operation(function, given[0], plain, path, self.leaf)
        if any(v.kind in ("input", "made", "parameter") for v in operation.inputs()):
            for t in leaves:
                value = None
                if isinstance(t, torch.Tensor):
                    value = Value(t, "made")
                    value.maker = operation
                    self.bind(t, value)
                operation.outputs.append(value)
            self.operations.append(operation)
        else:  # depends on no input and no parameter: as it is now
            for t in leaves:
                if isinstance(t, torch.Tensor) and id(t) not in self.buffers:
                    self.bind(t, Value(t, "constant"))
        return result

    def enter(self, module, args, kwargs):
        name = self.names.get(id(module), "")
        self.call_count += 1
        self.stack.append((name, self.call_count, module))
        of_torch = type(module).__module__.startswith("torch.nn.modules")
        is_leaf = of_torch and not isinstance(
            module, (*CONTAINERS, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer))
        if is_leaf and self.leaf is None:
            self.leaf = Call(name, module, *self.symbolic((tuple(args), dict(kwargs))))

    def leave(self, module, args, kwargs, result):
        self.stack.pop()
        if self.leaf is not None and self.leaf.module is module:
            self.leaf.result = self.symbolic(result)
            self.leaf = None


class Recording:
    """operations in their order; inputs; outputs: the tensors of the result."""

    def __init__(self, model, operations, inputs, outputs, exact):
        self.model, self.operations, self.inputs, self.outputs, self.exact = model, operations, inputs, outputs, exact


def needed(operations, outputs):
    """The operations that the outputs depend on."""
    wanted, unseen = set(), [v for v in outputs]
    while unseen:
        value = unseen.pop()
        if value.maker is not None and id(value.maker) not in wanted:
            wanted.add(id(value.maker))
            unseen += value.maker.inputs()
    return [o for o in operations if id(o) in wanted]


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


def record(model, inputs):
    """One eager forward, in training mode."""
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    for i, t in enumerate(inputs):
        if not isinstance(t, torch.Tensor) or t.dim() < 1:
            raise Refusal(f"input {i} is no tensor whose first dimension is the micro-batch")
    with restored(model):
        model.train()
        recorder = Recorder(model, inputs)
        hooks = []
        for module in model.modules():
            hooks.append(module.register_forward_pre_hook(recorder.enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(recorder.leave, with_kwargs=True))
        torch.manual_seed(0)
        try:
            with torch.no_grad(), recorder:
                result = model(*inputs)
        finally:
            for hook in hooks:
                hook.remove()
        outputs = [recorder.values[id(t)] for t in tree.tree_leaves(result)
                   if isinstance(t, torch.Tensor) and id(t) in recorder.values]
        outputs = [v for v in outputs if v.kind == "made"]
        if not outputs:
            raise Refusal("the model returns no tensor that depends on its inputs")
        expected = [v.tensor.detach().clone() for v in outputs]
        all_operations = recorder.operations
        torch.manual_seed(0)
        with torch.no_grad():
            got = replay(all_operations, {})
        exact = all(torch.allclose(got[v], e, rtol=1e-3, atol=1e-5, equal_nan=True)
                    for v, e in zip(outputs, expected) if e.dtype.is_floating_point)
    return Recording(model, needed(all_operations, outputs), recorder.inputs, outputs, exact)


def replay(operations, env):
    """Runs the operations; env: tensors of Values that differ from the recorded ones."""
    tensor_of = lambda v: env[v] if v in env else v.tensor
    for operation in operations:
        for value, tensor in zip(operation.outputs, tree.tree_leaves(operation.run(tensor_of))):
            if value is not None:
                env[value] = tensor
    return env


# Layers: runs of operations of one module.

VIEWS = {"view", "reshape", "flatten", "transpose", "permute", "unsqueeze", "squeeze", "expand", "getitem",
         "__getitem__", "split", "chunk", "contiguous", "t", "unflatten", "view_as", "select", "narrow", "detach",
         "__get__"}


class Layer:
    def __init__(self, name, operations):
        self.name, self.operations = name, operations
        self.inputs, self.outputs = [], []  # Values from and for elsewhere

    def parameters(self):
        found = {}
        for operation in self.operations:
            for v in operation.inputs():
                if v.kind == "parameter":
                    found[id(v.tensor)] = v
        return list(found.values())

    def is_view(self):
        return all(o.name in VIEWS for o in self.operations)


def layers_by_module(recording, depth):
    layers, last, seen = [], None, {}
    for operation in recording.operations:
        path = operation.path if depth == 0 else operation.path[:depth]
        key = path[-1] if path else ("", 0)
        if key != last or not key[0] and not all(o.name in VIEWS for o in layers[-1].operations + [operation]):
            name = key[0] or operation.name.strip("_")
            seen[name] = seen.get(name, 0) + 1
            layers.append(Layer(name if seen[name] == 1 else f"{name}#{seen[name]}", []))
            last = key
        layers[-1].operations.append(operation)
    connect(layers, recording.outputs)
    return layers


def connect(layers, outputs):
    """Which values every layer takes from and makes for others."""
    layer_of = {id(o): k for k, layer in enumerate(layers) for o in layer.operations}
    read_elsewhere = {v for v in outputs}
    for k, layer in enumerate(layers):
        for operation in layer.operations:
            for v in operation.inputs():
                outside = v.kind == "input" or v.kind == "made" and layer_of[id(v.maker)] != k
                if outside and v not in layer.inputs:
                    layer.inputs.append(v)
                if outside and v.kind == "made":
                    read_elsewhere.add(v)
    for layer in layers:
        layer.outputs = [v for o in layer.operations for v in o.outputs if v in read_elsewhere]


def add_loss(recording, loss):
    """The loss of the first output as a last operation, with made-up targets; says what it leaves out."""
    notes = []
    first = next((v for v in recording.outputs if v.dtype.is_floating_point), None)
    if first is None:
        raise Refusal("the model returns no floating point tensor, so that nothing can be learnt")
    if len(recording.outputs) > 1:
        notes.append(f"the model returns {len(recording.outputs)} tensors; the loss reads the first")
    recording.outputs = [first]
    recording.operations = needed(recording.operations, recording.outputs)
    if loss == "none" or not first.shape:
        return notes
    if loss == "cross_entropy":
        if len(first.shape) < 2:
            raise Refusal(f"the output has the shape {list(first.shape)}, which has no classes; use --loss mse")
        target = torch.randint(first.shape[-1], first.shape[:-1], device=first.tensor.device)

        def function(x, y):
            return nn.functional.cross_entropy(x.reshape(-1, x.shape[-1]), y.reshape(-1))
    else:
        target = torch.randn(first.shape, dtype=first.dtype, device=first.tensor.device)
        function = nn.functional.mse_loss
    operation = Operation(function, (first, Value(target, "constant")), {}, [("loss", -1)], None)
    with torch.no_grad():
        value = Value(function(first.tensor, target), "made")
    value.maker = operation
    operation.outputs, operation.name = [value], loss
    recording.operations.append(operation)
    recording.outputs = [value]
    return notes


# Measuring.


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(function, device, least=0.01):
    """Of one call, over as many as take `least` seconds. On one thread of a CPU, without what other programs take."""
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter

    def of(times):
        begin = clock()
        for _ in range(times):
            function()
        synchronise(device)
        return clock() - begin

    of(1)
    times = min(10_000, math.ceil(least / max(of(1), 1e-9)))
    return of(times) / times


class Running:
    """A layer with tensors to run on."""

    def __init__(self, layer, env):
        self.layer, self.env = layer, {}
        for v in layer.inputs:
            t = env.get(v, v.tensor).detach()
            differentiable = v.kind == "made" and t.is_floating_point()
            self.env[v] = t.requires_grad_() if differentiable else t
        self.needs = [t for t in self.env.values() if t.requires_grad]
        self.weights = [v.tensor for v in layer.parameters() if v.tensor.requires_grad]

    def forward(self):
        return replay(self.layer.operations, dict(self.env))

    def outputs(self, env):
        return [env[v] for v in self.layer.outputs]


def signature(layer):
    """Equal for layers that do the same work on the same shapes."""
    numbers = {}

    def text(a):
        if isinstance(a, Value):
            place = numbers.setdefault(a, len(numbers))
            return f"%{place}:{a.kind}:{a.shape}:{a.dtype}"
        return repr(a) if isinstance(a, (int, float, bool, str, type(None), torch.dtype, slice)) else type(a).__name__

    lines = [" ".join([o.name, *(text(a) for a in tree.tree_leaves((o.args, o.kwargs)))]) for o in layer.operations]
    return "\n".join([*lines, *(text(v) for v in layer.outputs)])


def measure_seconds(running, device):
    """Seconds of F, of the whole backward, of the input gradient alone, and of an update."""
    env = running.forward()
    outs = [t for t in running.outputs(env) if t.requires_grad]
    seeds = [torch.ones_like(t) for t in outs]

    def gradient(of):
        if not outs or not of:
            return lambda: None
        return lambda: torch.autograd.grad(outs, of, seeds, retain_graph=True, allow_unused=True)

    def update():
        with torch.no_grad():
            for w in running.weights:
                w.add_(w, alpha=0.0)

    forward = seconds_of(running.forward, device)
    inward = seconds_of(gradient(running.needs), device) if running.needs and outs else 0.0
    if not running.weights or not outs:
        return forward, inward, inward, 0.0
    return forward, seconds_of(gradient(running.needs + running.weights), device), inward, seconds_of(update, device)


ON_THE_WAY_TO_WEIGHTS = ("T", "Transpose", "Permute", "View", "UnsafeView", "Expand", "Slice", "Select", "ToCopy",
                         "Unsqueeze", "Squeeze", "Alias")


def is_weight(node):
    return type(node).__name__ == "AccumulateGrad" and isinstance(node.variable, nn.Parameter)


def weight_nodes(outputs):
    """The nodes of the backward that make weight gradients."""
    seen, waiting, nodes = set(), [t.grad_fn for t in outputs if t.grad_fn is not None], []

    def leads_to_weights(node):  # itself, or a view of it
        while type(node).__name__.rstrip("0123456789").removesuffix("Backward") in ON_THE_WAY_TO_WEIGHTS:
            node = node.next_functions[0][0]
        return is_weight(node)

    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        following = [n for n, _ in node.next_functions if n is not None]
        if not leads_to_weights(node) and any(leads_to_weights(n) for n in following):
            nodes.append(node)
        waiting += following
    return nodes


def saved_by(node):
    if hasattr(node, "saved_tensors"):
        return [t for t in node.saved_tensors if isinstance(t, torch.Tensor)]
    found = []
    for name in dir(node):
        if name.startswith("_saved_"):
            found += [t for t in tree.tree_leaves(getattr(node, name)) if isinstance(t, torch.Tensor)]
    return found


class Stash:
    """Bytes that layers keep, every storage counted once, with the first layer that keeps it."""

    def __init__(self, recording):
        outside = [*recording.model.parameters(), *recording.model.buffers(), *(v.tensor for v in recording.inputs)]
        outside += [v.tensor for o in recording.operations if o.path == [("loss", -1)] for v in o.inputs()
                    if v.kind == "constant"]  # the targets
        self.outside = {t.untyped_storage().data_ptr() for t in outside}
        self.counted, self.until_weight_gradient, self.alive = set(), set(), []

    def _count(self, tensor, counted):
        storage = tensor.untyped_storage()
        if storage.data_ptr() in counted or storage.data_ptr() in self.outside:
            return 0
        counted.add(storage.data_ptr())
        self.alive.append(tensor)  # so that nothing else comes to lie there
        return storage.nbytes()

    def add(self, running):
        """The layer's outputs, and the bytes that it keeps for its backward and then for its weight gradient."""
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
            env = running.forward()
        stash = sum(self._count(t, self.counted) for t in saved)
        late = 0
        for node in weight_nodes([t for t in running.outputs(env) if t.requires_grad]):
            if "Norm" in type(node).__name__:  # makes its weight gradients along with the input gradient
                late += sum(n.variable.numel() * n.variable.element_size() for n, _ in node.next_functions
                            if is_weight(n))
                continue
            late += sum(self._count(t, self.until_weight_gradient) for t in saved_by(node))
            late += sum(math.prod(m.shape) * m.dtype.itemsize for m in node._input_metadata)  # gradients of its outputs
        return env, stash, late


def cost_graph(recording, name, depth=1, repeats=5):
    """sluice/cost_graph/1, and notes on what it cannot say."""
    layers = layers_by_module(recording, depth)
    device = recording.inputs[0].tensor.device
    notes = []
    if not recording.exact:
        notes.append("running the recorded operations gives other outputs than the model: something is changed through "
                     "a view of it; times and bytes hold nearly")
    stash, env, entries, groups = Stash(recording), {}, [], {}
    with restored(recording.model):
        recording.model.train()
        for layer in layers:
            running = Running(layer, env)
            made, kept, late = stash.add(running)
            env.update({v: made[v].detach() for v in layer.outputs})
            groups.setdefault(signature(layer), []).append(running)
            entries.append({"stash": kept, "weight_stash": late})
        times = {}
        for key, group in groups.items():
            count = max(1, math.ceil(repeats / len(group)))
            samples = [measure_seconds(running, device) for running in group for _ in range(count)]
            times[key] = [statistics.median(column) for column in zip(*samples)]
    number_of = {v: k for k, layer in enumerate(layers) for v in layer.outputs}
    for k, (layer, entry) in enumerate(zip(layers, entries)):
        read = {}  # layer or model input -> bytes
        for v in layer.inputs:
            source = -1 - v.number if v.kind == "input" else number_of[v]
            read[source] = read.get(source, 0) + v.bytes()
        if not read:  # of parameters only
            read = {-1: 0}
        forward, backward, inward, update = times[signature(layer)]
        inward = min(inward, backward)
        entry.update(name=layer.name, inputs=list(read), input_bytes=list(read.values()), forward=forward,
                     input_gradient=inward, weight_gradient=backward - inward, update=update,
                     parameters=sum(v.bytes() for v in layer.parameters()),
                     output=sum(v.bytes() for v in layer.outputs),
                     rides=k > 0 and (layer.is_view() or layer.operations[-1].path == [("loss", -1)]))
    readers = {}
    for layer in layers:
        for v in layer.parameters():
            readers.setdefault(v.name, []).append(layer.name)
    for parameter, names in readers.items():
        if len(names) > 1:
            notes.append(f"parameter {parameter} is read by several layers ({', '.join(names)}): each counts it")
    graph = {"schema": "sluice/cost_graph/1", "model": name, "source": f"PyTorch {torch.__version__}",
             "device": torch.cuda.get_device_name(device) if device.type == "cuda" else
             f"{platform.machine()}, {torch.get_num_threads()} threads",
             "micro_batch": recording.inputs[0].shape[0], "layers": entries}
    return graph, notes


# Layers that Sluice knows.


def square(size, what):
    """The one number of a pair of equal ones."""
    pair = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if pair[0] != pair[1]:
        raise Refusal(f"{what} {pair} is not the same along height and width")
    return pair[0]


def plain(condition, what):
    if not condition:
        raise Refusal(what)


def conv2d(m):
    plain(square(m.dilation, "dilation") == 1, "a convolution with holes (dilation)")
    plain(m.padding_mode == "zeros" and not isinstance(m.padding, str), "a padding that is no number of zeros")
    fields = {"in": m.in_channels, "out": m.out_channels, "kernel": m.kernel_size[0], "padding": m.padding[0],
              "stride": square(m.stride, "stride"), "bias": m.bias is not None}
    if m.kernel_size[0] != m.kernel_size[1] or m.padding[0] != m.padding[1]:
        fields.update(kernel_w=m.kernel_size[1], padding_w=m.padding[1])
    if m.groups != 1:
        fields["groups"] = m.groups
    return "Conv2d", fields


def conv_transpose2d(m):
    plain(m.groups == 1 and square(m.dilation, "dilation") == 1 and square(m.output_padding, "output_padding") == 0,
          "a transposed convolution in groups, with holes (dilation) or with output_padding")
    return "ConvTranspose2d", {"in": m.in_channels, "out": m.out_channels, "kernel": square(m.kernel_size, "kernel"),
                               "stride": square(m.stride, "stride"), "padding": square(m.padding, "padding"),
                               "bias": m.bias is not None}


def pool2d(m, mode):
    plain(not m.ceil_mode and square(getattr(m, "dilation", 1), "dilation") == 1, "a pool with ceil_mode or holes")
    plain(mode == "max" or m.count_include_pad or square(m.padding, "padding") == 0, "an average without its padding")
    return "Pool2d", {"mode": mode, "kernel": square(m.kernel_size, "kernel"), "stride": square(m.stride, "stride"),
                      "padding": square(m.padding, "padding")}


def batch_norm(m):
    plain(m.affine and m.track_running_stats and m.momentum is not None, "a batch norm without weights or statistics")
    return "BatchNorm", {"features": m.num_features, "momentum": m.momentum, "epsilon": m.eps}


def instance_norm(m):
    plain(not m.affine and not m.track_running_stats, "an instance norm with weights or running statistics")
    return "InstanceNorm", {"features": m.num_features, "epsilon": m.eps}


def leaky_relu(m):
    plain(m.negative_slope == 0.01, f"a leaky ReLU of slope {m.negative_slope}; Sluice's is 0.01")
    return "Activation", {"function": "leaky_relu"}


def upsample(m):
    plain(m.mode == "nearest" and m.scale_factor is not None and float(m.scale_factor).is_integer(),
          "an upsampling that is not by a whole factor to nearest neighbours")
    return "Upsample", {"factor": int(m.scale_factor)}


def layer_norm(m):
    plain(m.elementwise_affine and m.bias is not None and len(m.normalized_shape) == 1,
          "a layer norm without weights, without bias, or over several dimensions")
    return "LayerNorm", {"features": m.normalized_shape[0], "epsilon": m.eps}


def rms_norm(m):
    plain(m.elementwise_affine and len(m.normalized_shape) == 1, "an RMS norm without weights or of several dimensions")
    epsilon = torch.finfo(m.weight.dtype).eps if m.eps is None else m.eps
    return "RmsNorm", {"features": m.normalized_shape[0], "epsilon": epsilon}


def lstm(m):
    plain(m.num_layers == 1 and not m.bidirectional and m.batch_first and m.bias and m.proj_size == 0,
          "an LSTM of several layers or both directions, without bias, with a projection or without batch_first")
    return "Lstm", {"in": m.input_size, "hidden": m.hidden_size}


def gelu(approximate):
    return "Activation", {"function": "gelu" if approximate == "none" else "gelu_tanh"}


def global_average(m):
    plain(m.output_size in (1, (1, 1)), "an adaptive average to more than one element")
    return "Pool2d", {"mode": "global_average"}


MODULES = {  # of one input; a module's class itself, not one derived from it
    nn.Linear: lambda m: ("Linear", {"in": m.in_features, "out": m.out_features, "bias": m.bias is not None}),
    nn.Conv2d: conv2d,
    nn.ConvTranspose2d: conv_transpose2d,
    nn.MaxPool2d: lambda m: pool2d(m, "max"),
    nn.AvgPool2d: lambda m: pool2d(m, "average"),
    nn.AdaptiveAvgPool2d: global_average,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    nn.InstanceNorm2d: instance_norm,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.Upsample: upsample,
    nn.LeakyReLU: leaky_relu,
    nn.ReLU: lambda m: ("Activation", {"function": "relu"}),
    nn.Tanh: lambda m: ("Activation", {"function": "tanh"}),
    nn.Sigmoid: lambda m: ("Activation", {"function": "sigmoid"}),
    nn.SiLU: lambda m: ("Activation", {"function": "silu"}),
    nn.GELU: lambda m: gelu(m.approximate),
    nn.Embedding: lambda m: ("Embedding", {"vocabulary": m.num_embeddings, "width": m.embedding_dim}),
    nn.LSTM: lstm,
}


class Declaring:
    """From a recording to the layers of sluice/model/1."""

    def __init__(self, recording, loss, untie=False):
        self.recording, self.layers, self.notes, self.untie = recording, [], [], untie
        self.weight_of, self.tied = {}, set()  # by the weight's id: the first layer that has it; those of several
        self.names, self.number_of = set(), {}
        self.inputs = []
        for i, v in enumerate(recording.inputs):
            ids = not v.dtype.is_floating_point
            self.inputs.append({"shape": list(v.shape[1:]), **({"token_ids": True} if ids else {})})
            self.number_of[v] = -1 - i
        if any(not i["shape"] for i in self.inputs):
            raise Refusal("an input has no dimension besides the micro-batch")
        self.constant = {}
        self.attention = self.find_attention()

    def add(self, name, kind, inputs, output, **fields):
        base, again = name, 1
        while name in self.names:
            again += 1
            name = f"{base}#{again}"
        self.names.add(name)
        numbers = []
        for v in inputs:
            if v not in self.number_of:
                raise Refusal(f"{name} reads a tensor that depends on no input")
            numbers.append(self.number_of[v])
        self.layers.append({"name": name, "kind": kind, "inputs": numbers, **fields})
        if output is not None:
            self.number_of[output] = len(self.layers) - 1

    def same(self, output, of):
        if of not in self.number_of:
            raise Refusal("a tensor that depends on no input is passed on")
        self.number_of[output] = self.number_of[of]

    def depends_on_input(self, value):
        if value not in self.constant:
            self.constant[value] = value.kind == "input" or value.maker is not None and any(
                self.depends_on_input(v) for v in value.maker.inputs())
        return self.constant[value]

    def find_attention(self):
        """Self-attention that is written out: one linear layer, three parts, the product, another linear layer. The
        second linear layer's call -> what the first one reads, and the fields."""
        found = {}
        readers = {}
        for o in self.recording.operations:
            for v in o.inputs():
                readers.setdefault(v, []).append(o)

        def source(value):
            while value.maker is not None and value.maker.leaf is None and value.maker.name in VIEWS:
                if value.maker.name in ("split", "chunk", "__getitem__", "getitem", "unbind", "select"):
                    return value
                value = value.maker.inputs()[0]
            return value

        for o in self.recording.operations:
            if o.name != "scaled_dot_product_attention" or o.leaf is not None:
                continue
            given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), o.args))
            given.update(o.kwargs)
            if given.get("attn_mask") is not None:
                raise Refusal("attention with a mask that is given as a tensor")
            if given.get("dropout_p"):
                self.notes.append("dropout inside attention is left out")
            parts = [source(given[k]) for k in ("query", "key", "value")]
            makers = [p.maker for p in parts]
            if any(m is None for m in makers) or len({id(m) for m in makers}) != 1 or makers[0].name not in (
                    "split", "chunk", "unbind"):
                raise Refusal("attention whose query, key and value are no three parts of one linear layer")
            if [makers[0].outputs.index(p) for p in parts] != [0, 1, 2]:
                raise Refusal("attention whose parts are not in the order query, key, value")
            first = source(makers[0].inputs()[0]).maker
            result = next(v for v in o.outputs if v is not None)
            while readers.get(result) and readers[result][0].leaf is None and readers[result][0].name in VIEWS:
                result = readers[result][0].outputs[0]
            last = readers[result][0] if readers.get(result) else None
            linear = [x is not None and x.leaf is not None and type(x.leaf.module) is nn.Linear and
                      x.leaf.module.bias is not None for x in (first, last)]
            if not all(linear):
                raise Refusal("attention that is not between two linear layers with biases")
            query = given["query"]
            width, heads = query.shape[1] * query.shape[3], query.shape[1]
            if first.leaf.module.out_features != 3 * width or last.leaf.module.out_features != width:
                raise Refusal("attention of a width other than its linear layers'")
            inner = self.between(first, last)
            for x in inner:
                found[id(x)] = None
            found[id(last)] = (first.leaf.args[0], {"width": width, "heads": heads,
                                                    "causal": bool(given.get("is_causal"))})
        return found

    def between(self, first, last):
        """The operations from `first` to `last` that lead from one to the other."""
        inner, reached = [], set(first.outputs)
        for o in self.recording.operations:
            if o is first or o is not last and any(v in reached for v in o.inputs()):
                back = o is first or self.reaches(o, last)
                if back:
                    inner.append(o)
                    reached.update(o.outputs)
        return inner

    def reaches(self, operation, last):
        waiting, seen = list(last.inputs()), set()
        while waiting:
            v = waiting.pop()
            if v.maker is operation:
                return True
            if v.maker is not None and id(v.maker) not in seen:
                seen.add(id(v.maker))
                waiting += v.maker.inputs()
        return False

    def run(self):
        done = set()
        for o in self.recording.operations:
            if id(o) in self.attention:
                known = self.attention[id(o)]
                if known is not None:
                    x, fields = known
                    self.add(o.leaf.name, "Attention", [x], o.leaf.result, **fields)
                continue
            if o.leaf is not None:
                if id(o.leaf) not in done:
                    done.add(id(o.leaf))
                    self.module(o.leaf)
            elif any(self.depends_on_input(v) for v in o.outputs if v is not None):
                self.function(o)
        return {"schema": "sluice/model/1", "name": "", "inputs": self.inputs, "layers": self.layers}

    def module(self, call):
        m, kind = call.module, type(call.module)
        given = [a for a in call.args if isinstance(a, Value)]
        if not any(self.depends_on_input(v) for v in given):
            return  # e.g. an embedding of positions
        try:
            dropouts = (nn.Dropout, nn.Dropout2d)
            if kind is nn.Identity or kind in dropouts and m.p == 0:
                self.same(call.result, given[0])
            elif kind in dropouts:
                channels = {"channels": True} if kind is nn.Dropout2d else {}
                self.add(call.name, "Dropout", given[:1], call.result, probability=m.p, **channels)
            elif kind is nn.Flatten:
                plain(m.start_dim == 1 and m.end_dim == -1, "a part of the dimensions is flattened")
                self.add(call.name, "Flatten", given[:1], call.result)
            elif kind is nn.MultiheadAttention:
                self.multi_head(call, m)
            elif kind in MODULES:
                name, fields = MODULES[kind](m)
                if kind is nn.LSTM:
                    plain(len(call.args) == 1 and not call.kwargs, "an LSTM with a state of its own")
                result = call.result[0] if kind is nn.LSTM else call.result
                self.add(call.name, name, given[:1], result, **fields)
                if kind in (nn.Linear, nn.Embedding):
                    self.tie(m.weight)
            else:
                raise Refusal(f"a module {kind.__name__}")
        except Refusal as e:
            raise Refusal(f"{call.name} ({kind.__name__}): {e}") from None

    def tie(self, weight):
        """Marks the last layer where an earlier one has its weight."""
        owner = self.weight_of.setdefault(id(weight), self.layers[-1]["name"])
        if owner != self.layers[-1]["name"] and not self.untie:
            self.layers[-1]["tied_to"] = owner
            self.tied.add(id(weight))
            self.notes.append(f"{self.layers[-1]['name']} is tied to {owner}: for a pipeline, which has them in two "
                              "stages, --untie gives both weights of their own")

    def multi_head(self, call, m):
        given = dict(zip(("query", "key", "value"), call.args))
        given.update(call.kwargs)
        plain(m.batch_first and m.in_proj_bias is not None, "attention without batch_first or biases")
        plain(given.get("key_padding_mask") is None, "attention with a mask of padding")
        plain(m.bias_k is None and not m.add_zero_attn and given["key"] is given["value"], "attention of another form")
        causal = bool(given.get("is_causal"))
        plain(given.get("attn_mask") is None or causal, "attention with a mask that is not said to be causal")
        if m.dropout:
            self.notes.append("dropout inside attention is left out")
        result = call.result[0]
        if given["query"] is given["key"]:
            self.add(call.name, "Attention", [given["query"]], result, width=m.embed_dim, heads=m.num_heads,
                     causal=causal)
            return
        plain(not causal, "causal attention to another sequence")
        plain(m.kdim == m.vdim, "keys and values of different widths")
        self.add(call.name, "CrossAttention", [given["query"], given["key"]], result, width=m.embed_dim, memory=m.kdim,
                 heads=m.num_heads)

    def function(self, o):
        name = o.name.strip("_")
        name = {"iadd": "add", "radd": "add"}.get(name, name)
        output = next(v for v in o.outputs if v is not None)
        where = ".".join(n for n, _ in o.path[-1:]) or name
        label = f"{where}.{name}" if where != name else name
        given = o.inputs()
        if name == "add" and len(given) == 2 and o.kwargs.get("alpha", 1) == 1:
            a, b = given
            if not self.depends_on_input(a):
                a, b = b, a
            if self.depends_on_input(b):
                if a.shape != b.shape:
                    raise Refusal(f"{label}: an addition of {list(a.shape)} and {list(b.shape)}")
                self.add(label, "Add", [a, b], output)
                return
            table = self.table_of(b)
            if table is None or len(output.shape) != 3 or table.shape[-1] != output.shape[-1]:
                raise Refusal(f"{label}: an addition of something that is no table of positions")
            self.add(label, "PositionEmbedding", [a], output, steps=table.shape[-2], width=table.shape[-1])
        elif name in ("relu", "tanh", "sigmoid", "silu"):
            self.add(label, "Activation", given[:1], output, function=name)
        elif name == "gelu":
            kind, fields = gelu(o.kwargs.get("approximate", "none"))
            self.add(label, kind, given[:1], output, **fields)
        elif name == "dropout":
            probability = o.kwargs.get("p", o.args[1] if len(o.args) > 1 else 0.5)
            if not o.kwargs.get("training", True) or probability == 0:
                self.same(output, given[0])
            else:
                self.add(label, "Dropout", given[:1], output, probability=probability)
        elif name in ("cat", "concat", "concatenate"):
            axis = o.kwargs.get("dim", o.args[1] if len(o.args) > 1 else 0)
            axis += len(output.shape) if axis < 0 else 0
            if axis == 0:
                raise Refusal(f"{label}: samples are put together")
            self.add(label, "Concat", given, output, axis=axis - 1)
        elif name in ("flatten", "view", "reshape") and len(output.shape) == 2 and output.shape[0] == given[0].shape[0]:
            if len(given[0].shape) == 2:
                self.same(output, given[0])
            else:
                self.add(label, "Flatten", given[:1], output)
        elif name in ("contiguous", "view", "reshape", "detach", "to", "clone") and output.shape == given[0].shape:
            self.same(output, given[0])
        elif name == "pad" and output.shape == given[0].shape:
            self.same(output, given[0])
        elif name in ("cross_entropy", "mse") and o.path == [("loss", -1)]:
            self.add("loss", "CrossEntropyLoss" if name == "cross_entropy" else "MseLoss", given[:1], None)
        else:
            raise Refusal(f"{label}: the function {o.name} of {[list(v.shape) for v in given]}")

    def table_of(self, value):
        """The one parameter that a value is looked up in, or a part of."""
        found = []
        waiting = [value]
        while waiting:
            v = waiting.pop()
            if v.kind == "parameter":
                found.append(v)
            elif v.maker is not None:
                waiting += v.maker.inputs()
        return found[0] if len(found) == 1 and len(found[0].shape) >= 2 else None


def layers_of(recording, name, loss, untie=False):
    """sluice/model/1, and notes. Throws Refusal, naming what Sluice does not know. The recording has its loss. untie:
    a weight that several layers have becomes several."""
    declaring = Declaring(recording, loss, untie)
    model = declaring.run()
    model["name"] = name
    if declaring.layers[-1]["kind"] not in ("CrossEntropyLoss", "MseLoss"):
        raise Refusal("a model that trains ends in a loss; give --loss cross_entropy or mse")
    own, notes = {}, declaring.notes
    for parameter, tensor in recording.model.named_parameters(remove_duplicate=False):
        own.setdefault(id(tensor), []).append(parameter)
    notes += [f"one parameter under several names becomes several: {', '.join(names)}"
              for tensor, names in own.items() if len(names) > 1 and tensor not in declaring.tied]
    return model, sorted(set(notes), key=notes.index)


def load(where):
    file, _, function = where.rpartition(":")
    if not file:
        raise Refusal(f"'{where}' names no function; write FILE.py:FUNCTION")
    if not os.path.isfile(file):
        raise Refusal(f"{file}: no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("sluice_imported", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        raise Refusal(f"{file} has no function '{function}'")
    made = getattr(module, function)()
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], nn.Module):
        raise Refusal(f"{where} must return (module, inputs)")
    return made


def write(path, value):
    with open(path, "w") as out:
        json.dump(value, out, indent=1)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="FILE.py:FUNCTION", help="returns the module and its example inputs")
    parser.add_argument("--costs", metavar="FILE", help="measure, and write sluice/cost_graph/1")
    parser.add_argument("--layers", metavar="FILE", help="write sluice/model/1, where every layer is known")
    parser.add_argument("--untie", action="store_true",
                        help="in --layers, a weight that several layers share becomes several: for pipelines")
    parser.add_argument("--loss", choices=["cross_entropy", "mse", "none"], default="cross_entropy",
                        help="of the first output, as the last layer (default: cross_entropy)")
    parser.add_argument("--depth", type=int, default=1, help="modules on the way down to a layer; 0: all (default: 1)")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of a layer at least (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="that compute, as a rank of Sluice does (default: 1)")
    parser.add_argument("--name", help="of the model (default: the function's file)")
    a = parser.parse_args()
    try:
        if not a.costs and not a.layers:
            raise Refusal("nothing to write; give --costs FILE, --layers FILE or both")
        if min(a.depth, a.repeats - 1, a.threads - 1) < 0:
            raise Refusal("--depth is 0 or more, --repeats and --threads are 1 or more")
        torch.set_num_threads(a.threads)
        model, inputs = load(a.model)
        recording = record(model, inputs)
        notes = add_loss(recording, a.loss)
        name = a.name or os.path.splitext(os.path.basename(a.model.rpartition(":")[0]))[0]
        if a.layers:
            graph, more = layers_of(recording, name, a.loss, a.untie)
            notes += more
            write(a.layers, graph)
        if a.costs:
            graph, more = cost_graph(recording, name, a.depth, a.repeats)
            notes += more
            write(a.costs, graph)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    except Refusal as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
