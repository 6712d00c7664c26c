"""Layers of a recording, and what they cost: sluice/cost_graph/1."""
import logging
import math
import platform
import statistics
import time

import torch
from torch import nn
from torch.utils import _pytree as tree

from .model_state import restored, train
from .recording import Operation, Rejection, Value, needed, nodes_of, replay, replay_part

# Layers: runs of operations of one module.

VIEWS = {"view", "reshape", "flatten", "transpose", "permute", "unsqueeze", "squeeze", "expand", "getitem",
         "__getitem__", "split", "chunk", "contiguous", "t", "unflatten", "view_as", "select", "narrow", "detach",
         "__get__"}


class Layer:
    def __init__(self, name, operations):
        self.name, self.operations = name, operations
        self.inputs, self.outputs = [], []  # Values from and for elsewhere
        self.parts = []  # of the model, as part_of() has them

    def parameters(self):
        found = {}
        for operation in self.operations:
            for v in operation.inputs():
                if v.kind == "parameter":
                    found[id(v.tensor)] = v
        return list(found.values())

    def is_view(self):
        return all(o.name in VIEWS for o in self.operations)


def module_keys(operations, depth):
    """Per operation the module that its layer is named after, and the number of its call. All that runs in one
    activation checkpoint is in one layer: it is run again as a whole."""
    keys, regions = [], {}
    for o in operations:
        path = o.path if depth == 0 else o.path[:depth]
        keys.append(path[-1] if path else ("", 0))
        if o.region is not None:
            regions.setdefault(o.region, []).append(len(keys) - 1)
    for number, members in regions.items():
        if len({keys[i] for i in members}) == 1 and keys[members[0]][0]:
            continue
        common = operations[members[0]].path
        for i in members:
            common = [a for a, b in zip(common, operations[i].path) if a == b]
        common = common if depth == 0 else common[:depth]
        for i in members:
            keys[i] = common[-1] if common else ("checkpoint", -number[0])
    return keys


def layers_by_module(recording, depth):
    layers, last, seen = [], None, {}
    for operation, key in zip(recording.operations, module_keys(recording.operations, depth)):
        if key != last or not key[0] and not all(o.name in VIEWS for o in layers[-1].operations + [operation]):
            name = key[0] or operation.name.strip("_")
            seen[name] = seen.get(name, 0) + 1
            layers.append(Layer(name if seen[name] == 1 else f"{name}#{seen[name]}", []))
            last = key
        layers[-1].operations.append(operation)
        part = part_of(recording.model, operation.path[-1]) if operation.path else ""
        if part and part not in layers[-1].parts:
            layers[-1].parts.append(part)
    connect(layers, recording.outputs)
    return layers


def part_of(model, key):
    """The smallest part of the model that torchtitan can put into a stage and that holds this module: a child of the
    model, or a child of one that is an nn.ModuleList or nn.ModuleDict. "": none."""
    name, call = key
    first, _, rest = name.partition(".")
    if call <= 0 or not hasattr(model, first):
        return ""
    lists = isinstance(getattr(model, first), (nn.ModuleList, nn.ModuleDict))
    return f"{first}.{rest.partition('.')[0]}" if lists and rest else first


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
        raise Rejection("the model returns no floating point tensor, so that nothing can be learnt")
    if len(recording.outputs) > 1:
        notes.append(f"the model returns {len(recording.outputs)} tensors; the loss reads the first")
    recording.first, recording.outputs = first, [first]
    recording.operations = needed(recording.operations, recording.outputs)
    if loss == "none" or not first.shape:
        return notes
    if loss == "cross_entropy":
        if len(first.shape) < 2:
            raise Rejection(f"the output has the shape {list(first.shape)}, which has no classes; use --loss mse")
        axis = 1 if len(first.shape) > 3 else len(first.shape) - 1
        if axis == 1 and len(first.shape) > 3:
            notes.append(f"the output has the shape {list(first.shape)}: its dimension 1 holds the classes, as in "
                         "torch's cross entropy of images")
        shape = [n for i, n in enumerate(first.shape) if i != axis]
        target = torch.randint(first.shape[axis], shape, device=first.tensor.device)

        def function(x, y):
            x = x if axis == 1 else x.reshape(-1, x.shape[-1])
            return nn.functional.cross_entropy(x, y if axis == 1 and x.dim() > 2 else y.reshape(-1))
    else:
        target = torch.randn(first.shape, dtype=first.dtype, device=first.tensor.device)
        function = nn.functional.mse_loss
    targets = Value(target, "constant")
    operation = Operation(function, (first, targets), {}, [("loss", -1)], None)
    with torch.no_grad():
        value = Value(function(first.tensor, target), "made")
    value.requires_grad = first.requires_grad
    value.maker = operation
    operation.outputs, operation.name = [value], loss
    recording.operations.append(operation)
    recording.outputs = [value]
    recording.loss, recording.target = function, target
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
            self.env[v] = t.requires_grad_() if v.kind == "made" and v.requires_grad else t
        self.needs = [t for t in self.env.values() if t.requires_grad]
        self.weights = [v.tensor for v in layer.parameters() if v.tensor.requires_grad]

    def forward(self, checkpoints=True):
        """checkpoints: False keeps everything for the backward."""
        env = dict(self.env)
        if checkpoints:
            return replay(self.layer.operations, env)
        replay_part(self.layer.operations, env)
        return env

    def trained_outputs(self, env):
        """Those through which gradients come in."""
        return [env[v] for v in self.layer.outputs if env[v].grad_fn is not None]


def signature(layer):
    """Equal for layers that do the same work on the same shapes."""
    numbers = {}

    def text(a):
        if isinstance(a, Value):
            place = numbers.setdefault(a, len(numbers))
            return f"%{place}:{a.kind}:{a.shape}:{a.dtype}:{a.requires_grad}"
        return repr(a) if isinstance(a, (int, float, bool, str, type(None), torch.dtype, slice)) else type(a).__name__

    lines = [" ".join([o.name, *(text(a) for a in tree.tree_leaves((o.args, o.kwargs)))]) for o in layer.operations]
    lines += [f"{o.region is not None} {o.settings.gradients if o.settings else ''} "
              f"{o.settings.autocast if o.settings else ''}" for o in layer.operations]
    return "\n".join([*lines, *(text(v) for v in layer.outputs)])


def measure_seconds(running, device):
    """Seconds of F, of the whole backward, of the input gradient alone, and of an update."""
    env = running.forward()
    outs = running.trained_outputs(env)
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

    def leads_to_weights(node):  # itself, or a view of it
        while type(node).__name__.rstrip("0123456789").removesuffix("Backward") in ON_THE_WAY_TO_WEIGHTS:
            node = node.next_functions[0][0]
        return is_weight(node)

    return [node for node in nodes_of(outputs) if not leads_to_weights(node) and
            any(leads_to_weights(n) for n, _ in node.next_functions if n is not None)]


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
        self.outside = {t.untyped_storage()._cdata for t in outside}
        self.counted, self.until_weight_gradient, self.alive = set(), set(), []

    def _count(self, tensor, counted):
        storage = tensor.untyped_storage()
        if storage._cdata in counted or storage._cdata in self.outside:
            return 0
        counted.add(storage._cdata)
        self.alive.append(tensor)  # so that nothing else comes to lie there
        return storage.nbytes()

    def add(self, running):
        """The layer's outputs, and the bytes that it keeps for its backward and then for its weight gradient."""
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
            env = running.forward()
        stash = sum(self._count(t, self.counted) for t in saved)
        late = 0
        again = any(o.region is not None for o in running.layer.operations)
        outputs = running.trained_outputs(running.forward(checkpoints=False) if again else env)
        for node in weight_nodes(outputs):
            if "Norm" in type(node).__name__:  # makes its weight gradients along with the input gradient
                late += sum(n.variable.numel() * n.variable.element_size() for n, _ in node.next_functions
                            if is_weight(n))
                continue
            late += sum(self._count(t, self.until_weight_gradient) for t in saved_by(node))
            late += sum(math.prod(m.shape) * m.dtype.itemsize for m in node._input_metadata)  # gradients of its outputs
        return env, stash, late


class Device:
    """What seconds are computed for where nothing can run: peak FLOP/s, bytes/s."""

    def __init__(self, peak=15.7e12, bandwidth=900e9):
        self.peak, self.bandwidth = peak, bandwidth

    def seconds(self, flops, count):
        return max(flops / (0.75 * self.peak), count / (0.8 * self.bandwidth))


def computed_seconds(running, assumed):
    """Of F, of the whole backward, of the input gradient alone, and of an update, by a roofline: FLOP at 0.75 of the
    device's peak, or bytes of inputs, outputs and weights at 0.8 of its bandwidth. Also the FLOP of F."""

    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it warns where triton is missing
    from torch.utils.flop_counter import FlopCounterMode

    def flops_of(function):
        with FlopCounterMode(display=False) as counter:
            result = function()
        return counter.get_total_flops(), result

    forward, env = flops_of(running.forward)
    outs = running.trained_outputs(env)
    weights = sum(w.numel() * w.element_size() for w in running.weights)
    touched = weights + sum(v.bytes() for v in running.layer.inputs + running.layer.outputs)

    def backward(of):
        if not outs or not of:
            return 0.0
        seeds = [torch.ones_like(t) for t in outs]
        flops, _ = flops_of(lambda: torch.autograd.grad(outs, of, seeds, retain_graph=True, allow_unused=True))
        return assumed.seconds(flops, touched)

    inward = backward(running.needs)
    whole = inward + assumed.seconds(0, weights) if running.weights and outs else inward
    whole = max(whole, backward(running.needs + running.weights)) if running.weights else whole
    return assumed.seconds(forward, touched), whole, inward, assumed.seconds(0, 3 * weights), forward


def cost_graph(recording, name, depth=1, repeats=5, assumed=None):
    """sluice/cost_graph/1, and notes on what it cannot say. assumed: the Device of a model on the meta device."""
    layers = layers_by_module(recording, depth)
    device = recording.inputs[0].tensor.device
    meta = device.type == "meta"
    notes = []
    if not recording.exact:
        notes.append("running the recorded operations again gives other outputs than the model, which changes a "
                     "tensor through a view of it or draws random numbers; times and bytes hold nearly")
    stash, env, entries, groups = Stash(recording), {}, [], {}
    with restored(recording.model):
        train(recording.model)
        for layer in layers:
            running = Running(layer, env)
            made, kept, late = stash.add(running)
            env.update({v: made[v].detach() for v in layer.outputs})
            groups.setdefault(signature(layer), []).append(running)
            entries.append({"stash": kept, "weight_stash": late})
        times = {}
        for key, group in groups.items():
            count = max(1, math.ceil(repeats / len(group)))
            if meta:
                times[key] = computed_seconds(group[0], assumed or Device())
                continue
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
        forward, backward, inward, update = times[signature(layer)][:4]
        inward = min(inward, backward)
        parameters = layer.parameters()
        entry.update(name=layer.name, inputs=list(read), input_bytes=list(read.values()), forward=forward,
                     input_gradient=inward, weight_gradient=backward - inward, update=update,
                     parameters=sum(v.bytes() for v in parameters),
                     frozen=sum(v.bytes() for v in parameters if not v.requires_grad),
                     output=sum(v.bytes() for v in layer.outputs), part="".join(layer.parts[:1]),
                     rides=k > 0 and (layer.is_view() or layer.operations[-1].path == [("loss", -1)]))
    notes += parameter_notes(recording.model, layers, entries)
    across = next((layer for layer in layers if len(layer.parts) > 1), None)
    if across:  # no stage could be named by its parts
        notes.append(f"the checkpoint {across.name} spans {' and '.join(across.parts)}: plans have no "
                     "module_fqns_per_model_part")
        for entry in entries:
            entry["part"] = ""
    for entry in entries:
        for key in ("frozen", "part"):
            if not entry[key]:
                del entry[key]
    source = f"PyTorch {torch.__version__}"
    if meta:
        flops = sum(times[signature(layer)][4] for layer in layers)
        total = lambda key: sum(entry[key] for entry in entries)
        notes.append(f"on the meta device nothing ran: {total('parameters') / 2**30:.3g} GiB of parameters, "
                     f"{total('stash') / 2**30:.3g} GiB kept for the backward and {flops / 1e12:.3g} TFLOP in the "
                     "forward of a micro-batch; seconds by a roofline (--peak, --bandwidth)")
        source += ", roofline of a meta model"
        where = f"{(assumed or Device()).peak:g} FLOP/s, {(assumed or Device()).bandwidth:g} B/s"
    elif device.type == "cuda":
        where = torch.cuda.get_device_name(device)
    else:
        where = f"{platform.machine()}, {torch.get_num_threads()} threads"
    graph = {"schema": "sluice/cost_graph/1", "model": name, "source": source, "device": where,
             "micro_batch": recording.inputs[0].shape[0], "layers": entries}
    return graph, notes


def parameter_notes(model, layers, entries):
    """Names parameters of several layers, and counts those of none with the nearest layer, as frozen."""
    notes, readers = [], {}
    for layer in layers:
        for v in layer.parameters():
            readers.setdefault(id(v.tensor), (v.name, []))[1].append(layer.name)
    for parameter, names in readers.values():
        if len(names) > 1:
            notes.append(f"parameter {parameter} is read by several layers ({', '.join(names)}): each counts it")
    unread = [(name, p) for name, p in model.named_parameters() if id(p) not in readers]
    for name, p in unread:
        near = lambda layer: len([a for a, b in zip(layer.name.split("."), name.split(".")) if a == b])
        entry = entries[layers.index(max(layers, key=near))]
        size = p.numel() * p.element_size()
        entry["parameters"] += size
        entry["frozen"] += size
    if unread:
        notes.append("the output depends on no " + ", ".join(name for name, _ in unread[:5]) +
                     (f" and {len(unread) - 5} more" if len(unread) > 5 else "") +
                     ": counted as parameters without gradient and optimizer state")
    frozen = sum(entry["frozen"] for entry in entries) - sum(p.numel() * p.element_size() for _, p in unread)
    if frozen > 0:
        notes.append(f"{frozen} bytes of parameters are frozen (requires_grad=False): they have no gradient and no "
                     "optimizer state")
    return notes
