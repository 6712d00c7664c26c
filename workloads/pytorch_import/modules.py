"""Parts of a recording for which Sluice has no layers, as TorchScript: the layers `Module` of sluice/model/1.

A part is a run of the recorded operations with one output. It is traced from the operations, not from the module, so
that hooks, tuples between modules and keyword arguments are no obstacle. Weights are arguments of what is traced, and
so are running statistics and the random numbers of dropout; a second recording, of one sample more, tells which numbers
among the operations' arguments are the micro-batch.
"""
import io
import logging
import re
import warnings
import zlib

import torch
from torch import nn
from torch.utils import _pytree as tree

from .costs import add_loss, nodes_of
from .model_state import restored
from .recording import Dropouts, Rejection, Value, last_line, record_call

WRITTEN_ANYWAY = {"version", "byteorder", ".data/serialization_id"}  # by every writer of an archive
STATISTICS = {"batch_norm", "instance_norm"}  # functions that change their second and third argument, if training


class Batch:
    """A number among the arguments that is a multiple of the micro-batch: `times` as large."""

    def __init__(self, times):
        self.times = times

    def of(self, samples):
        return samples if self.times == 1 else samples * self.times


class Rows:
    """A tensor that depends on nothing but the micro-batch: `first` once a sample, along a dimension."""

    def __init__(self, first, dimension):
        self.first, self.dimension = first, dimension

    def of(self, samples):
        shape = list(self.first.shape)
        shape.insert(self.dimension, samples)
        return self.first.unsqueeze(self.dimension).expand(shape).flatten(self.dimension, self.dimension + 1)


def rows(a, b, one, other):
    """The Rows that are a for `one` samples and b for `other`. Throws Rejection."""
    apart = [d for d, (m, n) in enumerate(zip(a.shape, b.shape)) if m != n]
    if len(a.shape) == len(b.shape) and len(apart) == 1:
        d = apart[0]
        each, left = divmod(a.shape[d], one)
        if not left and each * other == b.shape[d]:
            found = Rows(a.narrow(d, 0, each).clone(), d)
            if torch.equal(found.of(one), a) and torch.equal(found.of(other), b):
                return found
    raise Rejection(f"a tensor of {list(a.shape)} that differs from sample to sample and is no input")


def one_more(tensors):
    return [torch.cat([t, t[:1]]) for t in tensors]


def followed(a, b, one, other):
    """The argument a of a recording of `one` samples, which is b in one of `other`, with Batch for what grows."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b):
        parts = [followed(x, y, one, other) for x, y in zip(a, b)]
        return tuple(parts) if isinstance(a, tuple) else parts
    if isinstance(a, dict) and isinstance(b, dict):
        return {k: followed(a[k], b.get(k), one, other) for k in a}
    if isinstance(a, slice):
        return slice(*(followed(getattr(a, k), getattr(b, k), one, other) for k in ("start", "stop", "step")))
    if isinstance(a, Value) and isinstance(b, Value):
        if a.kind != "constant" or a.shape == b.shape:
            return a
        return rows(a.tensor, b.tensor, one, other)
    if type(a) is int and type(b) is int and a != b:
        if a % one or a // one * other != b:
            raise Rejection(f"the number {a}, which is {b} for a micro-batch of {other} samples instead of {one}")
        return Batch(a // one)
    if isinstance(a, float) and a != b:
        raise Rejection(f"the number {a:g}, which depends on the micro-batch")
    return a


def given(argument, env, samples):
    """What an operation takes for an argument of followed()."""
    if isinstance(argument, (tuple, list)):
        parts = [given(a, env, samples) for a in argument]
        return tuple(parts) if isinstance(argument, tuple) else parts
    if isinstance(argument, dict):
        return {k: given(a, env, samples) for k, a in argument.items()}
    if isinstance(argument, slice):
        return slice(*(given(getattr(argument, k), env, samples) for k in ("start", "stop", "step")))
    if isinstance(argument, (Batch, Rows)):
        return argument.of(samples)
    if isinstance(argument, Value):
        return env[argument] if argument in env else argument.tensor
    return argument


class Draws(Dropouts):
    """The random numbers of a part. numbers: those to take; None: as in every run, which are kept."""

    def __init__(self, numbers=None):
        super().__init__()
        self.numbers, self.kept = numbers, []

    def uniform(self, shape, probability):
        made = super().uniform(shape, probability) if self.numbers is None else \
            self.numbers[len(self.kept)].view(tuple(shape))
        self.kept.append(made)
        return made


class Evaluation(torch.overrides.TorchFunctionMode):
    """As after eval(): nothing is dropped, and normalisations use the running statistics."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "").rstrip("_")
        if name in Draws.NAMES:
            return args[0] if args else kwargs["input"]
        if name == "bernoulli" and len(args) > 1:  # stochastic depth, which divides by the probability
            return torch.full_like(args[0], args[1])
        if name in STATISTICS:
            if len(args) > 5:
                args = (*args[:5], False, *args[6:])
            else:
                kwargs["training" if name == "batch_norm" else "use_input_stats"] = False
        return function(*args, **kwargs)


class Traced(nn.Module):
    """What is traced: methods `forward` and `evaluate`, with the weights and the statistics as they are now."""

    def __init__(self, part):
        super().__init__()
        self.part = [part]  # no attribute that is traced
        for k, v in enumerate(part.weights):
            self.register_parameter(f"weight_{k}", nn.Parameter(v.tensor.detach().clone()))
        for k, v in enumerate(part.buffers):
            self.register_buffer(f"buffer_{k}", v.tensor.detach().clone())

    def forward(self, *tensors):
        part, drawn = self.part[0], len(self.part[0].random)
        first = len(part.inputs)
        with Draws(tensors[first:first + drawn]):
            return part.compute(tensors[:first], tensors[first + drawn:])

    def evaluate(self, *tensors):
        part = self.part[0]
        with Evaluation():
            return part.compute(tensors[:len(part.inputs)], tensors[len(part.inputs):])


def without_traces(file):
    """The archive without the places of this machine's Python files and the shapes of the examples."""
    file.seek(0)
    reader, made = torch._C.PyTorchFileReader(file), io.BytesIO()
    writer = torch._C.PyTorchFileWriter(made)
    for name in reader.get_all_records():
        if not name.endswith(".debug_pkl") and not name.startswith("traced_inputs") and name not in WRITTEN_ANYWAY:
            content = reader.get_record(name)
            writer.write_record(name, content, len(content))
    writer.write_end_of_file()
    return made.getvalue()


class Part:
    """operations: of the recording. name, inputs (Values), weights and buffers (Values of parameters and statistics),
    random (numbers a sample of each draw), file (the TorchScript), output."""

    def __init__(self, name, operations, recording):
        self.name, self.operations, self.recording = name, operations, recording
        self.inputs, self.weights, self.buffers = [], [], []
        made = {v for o in operations for v in o.outputs if v is not None}
        for o in operations:
            for v in o.inputs():
                kind = {"parameter": self.weights}.get(v.kind)
                if v.kind == "input" or v.kind == "made" and v not in made:
                    kind = self.inputs
                elif v.kind == "constant" and o.name in STATISTICS and v in o.args[1:3]:
                    kind = self.buffers
                if kind is not None and v not in kind:
                    kind.append(v)
        own = set(map(id, operations))
        read = {v for o in recording.operations if id(o) not in own for v in o.inputs()}
        outputs = [v for v in made if v in read or v in recording.outputs]
        outputs = [v for v in outputs if v.dtype.is_floating_point]
        if len(outputs) != 1:
            raise Rejection(f"{len(outputs)} tensors that are read elsewhere; a Module makes one")
        self.output = outputs[0]
        self.samples = recording.inputs[0].shape[0]

    def prepare(self, other):
        """Traces, counts and measures. other: the recording of a sample more. Throws Rejection."""
        for o in self.operations:
            if o.settings is not None and o.settings.autocast is not None:
                raise Rejection("is computed under autocast; Sluice computes in fp32")
            if o.name.startswith("embedding") and (*o.args[3:4], o.kwargs.get("max_norm"))[0] is not None:
                raise Rejection("an embedding whose forward changes its weights (max_norm)")
            if o.name.startswith("embedding") and (*o.args[6:7], o.kwargs.get("sparse"))[0]:
                raise Rejection("an embedding with sparse gradients")
        values = [*self.inputs, self.output]
        for v in values:
            if v.dtype.is_floating_point and v.dtype != torch.float32:
                raise Rejection(f"a tensor of {v.dtype}; Sluice computes in fp32")
            if not v.shape or v.shape[0] != self.samples:
                raise Rejection(f"a tensor of {list(v.shape)}, whose first dimension is not the micro-batch")
            if not v.dtype.is_floating_point and v.kind != "input":
                raise Rejection(f"a tensor of {v.dtype} between layers")
        if not any(v.dtype.is_floating_point for v in self.inputs) and not self.weights:
            raise Rejection("nothing that is trained and no input with a gradient")
        twins = dict(zip(map(id, self.recording.operations), other.operations))
        number = other.inputs[0].shape[0]
        self.steps = []
        for o in self.operations:
            twin = twins[id(o)]
            if o.name == "bernoulli":  # fills a tensor, whatever is in it
                for v in o.inputs() + twin.inputs():
                    v.tensor.zero_()
            self.steps.append((o, followed(o.args, twin.args, self.samples, number),
                               followed(o.kwargs, twin.kwargs, self.samples, number)))
        examples = [v.tensor.detach() for v in self.inputs]
        with restored(self.recording.model):
            drawn, more = self.drawn(examples), self.drawn(one_more(examples))
            for u, v in zip(drawn, more):
                if u.numel() % self.samples or u.numel() // self.samples * number != v.numel():
                    raise Rejection(f"random numbers of the shape {list(u.shape)}, which are not drawn sample by "
                                    "sample")
            self.random = [u.numel() // self.samples for u in drawn]
            self.measure(examples)
            self.file = self.trace(examples)
        self.loaded = None

    def states(self):
        return [v.tensor.detach() for v in self.weights] + [v.tensor.detach().clone() for v in self.buffers]

    def drawn(self, examples):
        """The random numbers of one run."""
        draws = Draws()
        with draws, torch.no_grad():
            self.compute(examples, self.states())
        return draws.kept

    def compute(self, inputs, states):
        env = dict(zip(self.inputs, inputs))
        env.update(zip(self.weights + self.buffers, states))
        samples = inputs[0].shape[0]
        for o, args, kwargs in self.steps:
            result = o.in_torchscript(*given(args, env, samples), **given(kwargs, env, samples))
            for v, t in zip(o.outputs, tree.tree_leaves(result)):
                if v is not None:
                    env[v] = t if o.settings is None or o.settings.gradients else t.detach()
        return env[self.output]

    def trace(self, examples):
        drawn = [torch.rand(self.samples, n) for n in self.random]
        states = self.states()
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")  # torch.jit is deprecated; and of every number that Python sees
            try:
                traced = torch.jit.trace_module(
                    Traced(self), {"forward": (*examples, *drawn, *states), "evaluate": (*examples, *states)},
                    check_trace=False)
                file = io.BytesIO()
                torch.jit.save(traced, file)
            except Exception as e:
                raise Rejection(f"TorchScript cannot express it: {last_line(e)}") from e
        return without_traces(file)

    def run(self, inputs, weights):
        """By the TorchScript, with the random numbers that the recorded operations draw."""
        if self.loaded is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.loaded = torch.jit.load(io.BytesIO(self.file))
        buffers = [v.tensor.detach().clone() for v in self.buffers]
        draws = Draws()
        with draws, torch.no_grad():
            self.compute([x.detach() for x in inputs], [*(w.detach() for w in weights), *(b.clone() for b in buffers)])
        drawn = [u.reshape(inputs[0].shape[0], -1) for u in draws.kept]
        with torch.jit.optimized_execution(False):
            return self.loaded.forward(*inputs, *drawn, *weights, *buffers)

    def measure(self, examples):
        """FLOP, and what autograd keeps, by two runs of different sizes."""
        logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it warns where triton is missing
        runs = [Kept(self, examples), Kept(self, one_more(examples))]
        self.keeps = {"keeps_input": runs[0].keeps_input, "keeps_output": runs[0].keeps_output}
        for name in ("stash", "weight_stash"):
            small, large = (getattr(r, name) for r in runs)
            each = max(0, large - small)
            self.keeps[name] = each
            self.keeps[name + "_per_microbatch"] = max(0, small - self.samples * each)
        self.flop = [f / self.samples for f in runs[0].flop]

    def fields(self, file):
        """Of the layer in sluice/model/1; file: its path from the model file."""
        ids = [k for k, v in enumerate(self.inputs) if not v.dtype.is_floating_point]
        known = {"file": file, "bytes": len(self.file), "digest": f"{zlib.crc32(self.file):08x}",
                 "output": list(self.output.shape[1:]), "weights": [list(v.shape) for v in self.weights],
                 "buffers": [list(v.shape) for v in self.buffers], "random": self.random, "token_inputs": ids,
                 "vocabulary": self.vocabulary(ids), "forward_flop": self.flop[0],
                 "input_gradient_flop": self.flop[1], "weight_gradient_flop": self.flop[2], **self.keeps}
        return {k: v for k, v in known.items() if v or k.startswith("keeps")}

    def vocabulary(self, ids):
        """Token ids are below it: of the smallest table that they are looked up in, or what the example has."""
        if not ids:
            return 0
        tables = [o.inputs()[1].shape[0] for o in self.operations if o.name == "embedding" and
                  o.inputs()[0] in self.inputs]
        return min(tables) if tables else 1 + max(int(self.inputs[k].tensor.max()) for k in ids)


class Kept:
    """One forward and backward: bytes that are kept (keeps_input, keeps_output, stash, weight_stash), and FLOP of the
    forward, the input gradient and the weight gradient (flop)."""

    def __init__(self, part, examples):
        from torch.utils.flop_counter import FlopCounterMode
        inputs = []
        for v, t in zip(part.inputs, examples):
            needs = v.dtype.is_floating_point and v.kind == "made"
            inputs.append(t.clone().requires_grad_() if needs else t)
        states = part.states()
        weights = [t.requires_grad_() for t, v in zip(states, part.weights) if v.tensor.requires_grad]
        saved = []
        with Draws(), torch.enable_grad(), FlopCounterMode(display=False) as counter, \
                torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
            y = part.compute(inputs, states)
        self.flop = [counter.get_total_flops(), 0, 0]
        place = lambda t: t.untyped_storage()._cdata
        read = {place(x) for x in inputs if x.requires_grad}
        outside = {place(t) for t in [*states, *inputs]} | {
            place(v.tensor) for o in part.operations for v in o.inputs() if v.kind == "constant"}
        self.keeps_input = any(place(t) in read for t in saved)
        self.keeps_output = any(place(t) == place(y) for t in saved)
        sizes = {place(t): t.untyped_storage().nbytes() for t in saved}
        self.stash = sum(n for p, n in sizes.items() if p not in outside and p != place(y))
        self.weight_stash = 0
        if not y.requires_grad:
            return
        wanted = [x for x in inputs if x.requires_grad]
        self.weight_stash = self.stash + gradients_for_weights(y, wanted, weights) if weights else 0

        def flop_of(tensors):
            if not tensors:
                return 0
            with FlopCounterMode(display=False) as backward:
                torch.autograd.grad(y, tensors, torch.ones_like(y), retain_graph=True, allow_unused=True)
            return backward.get_total_flops()

        self.flop[1] = flop_of(wanted)
        self.flop[2] = max(0, flop_of(wanted + weights) - self.flop[1])


def gradients_for_weights(y, inputs, weights):
    """Bytes of the gradients that wait between I and W: of the results of operations with weights on the way to an
    input (harness/exec/torch/layers/layers_module.cpp); of the output, where there is no input or a weight is read
    twice."""
    whole = y.numel() * y.element_size()
    ends = {id(t): t for t in [*inputs, *weights]}
    leads = {}  # node -> whether to an input, and ids of weights

    def lead(node):
        t = getattr(node, "variable", None)
        if t is not None and id(t) in ends:
            return (True, frozenset()) if any(t is x for x in inputs) else (False, frozenset([id(t)]))
        below = [leads[n] for n, _ in node.next_functions if n is not None]
        return any(b[0] for b in below), frozenset().union(*(b[1] for b in below))

    for node in sorted(nodes_of([y]), key=lambda n: n._sequence_nr() if not hasattr(n, "variable") else -1):
        waiting = [node]
        while waiting:  # nodes after those that they lead to
            n = waiting[-1]
            later = [c for c, _ in n.next_functions if c is not None and c not in leads]
            if n in leads or not later:
                leads.setdefault(n, lead(n) if n not in leads else leads[n])
                waiting.pop()
            else:
                waiting += later
    if not leads[y.grad_fn][0]:
        return whole
    edges, seen = [], []
    for node, (to_input, _) in leads.items():
        if not to_input:
            continue
        own = set().union(*(leads[n][1] for n, _ in node.next_functions if n is not None and not leads[n][0]), set())
        if own:
            edges += [torch.autograd.graph.GradientEdge(node, k) for k in range(len(node._input_metadata))]
            seen += own
    if len(seen) > len(set(seen)):
        return whole
    made = torch.autograd.grad(y, [*inputs, *edges], torch.ones_like(y), retain_graph=True, allow_unused=True)
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes()
                for t in made[len(inputs):] if t is not None}.values())


class Cutting:
    """Finds the parts of a recording that hold operations without a layer: modules in a chain, as deep as chains of
    modules go; where more than one tensor leads on between modules, what is between two places with one."""

    def __init__(self, recording, failed, depends_on_input):
        self.operations = [o for o in recording.operations if o.path != [("loss", -1)]]
        self.recording, self.failed, self.depends_on_input = recording, failed, depends_on_input
        self.place = {id(o): k for k, o in enumerate(self.operations)}
        self.last = {}  # value -> where it is read last
        for k, o in enumerate(self.operations):
            for v in o.inputs():
                self.last[v] = k
        for v in recording.operations[-1].inputs() if recording.loss else recording.outputs:
            self.last[v] = len(self.operations)
        self.samples = recording.inputs[0].shape[0]

    def parts(self):
        found = self.split(0, len(self.operations), 0)
        names, result = {}, []
        for begin, end in found:
            name = self.name(begin, end)
            names[name] = names.get(name, 0) + 1
            result.append((name if names[name] == 1 else f"{name}#{names[name]}", self.with_makers(begin, end)))
        return result

    def carried(self, v):
        """Whether a value counts where a cut is: what leads to the parameters or from float inputs. What has no
        gradient is made again where it is read."""
        return v.dtype.is_floating_point and v.kind in ("made", "input")

    def cuts(self, begin, end):
        """Places before which exactly one tensor is handed on, and begin and end."""
        born = {}  # place -> values that exist from there on
        for v, last in self.last.items():
            if self.carried(v):
                first = self.place[id(v.maker)] + 1 if v.kind == "made" and id(v.maker) in self.place else 0
                if first < end and last >= begin:
                    born.setdefault(max(first, begin), []).append(v)
        result, alive = [], []
        for k in range(begin, end + 1):
            alive = [v for v in alive if self.last[v] >= k] + [v for v in born.get(k, []) if self.last[v] >= k]
            whole = len(alive) == 1 and alive[0].shape[:1] == (self.samples,) and self.depends_on_input(alive[0])
            if k in (begin, end) or whole:
                result.append(k)
        return result

    def key(self, k, depth):
        path = self.operations[k].path
        return path[depth] if len(path) > depth else ("", k)

    def split(self, begin, end, depth):
        """Places (begin, end) of parts; all of them are cuts."""
        cuts = [k for k in self.cuts(begin, end)
                if k in (begin, end) or self.key(k, depth) != self.key(k - 1, depth)]
        pieces = list(zip(cuts, cuts[1:]))
        modules = lambda piece: {self.key(k, depth) for k in range(*piece) if self.key(k, depth)[0]}
        if depth > 0 and (any(len(modules(p)) > 1 for p in pieces) or not any(modules(p) for p in pieces)):
            return [(begin, end)]
        result, loose = [], False  # loose: the last part is of functions only
        for piece in pieces:
            if not any(id(self.operations[k]) in self.failed for k in range(*piece)):
                loose = False
                continue
            inner = modules(piece)
            if len(inner) == 1 and all(self.key(k, depth)[0] for k in range(*piece)):
                result += self.split(*piece, depth + 1)
                loose = False
            elif loose and not inner and result[-1][1] == piece[0]:
                result[-1] = (result[-1][0], piece[1])
            else:
                result.append(piece)
                loose = not inner
        return result

    def name(self, begin, end):
        """The module that all is in, or the first one that is called; else the first function."""
        paths = [self.operations[k].path for k in range(begin, end)]
        common = paths[0]
        for path in paths:
            common = [a for a, b in zip(common, path) if a == b]
        if common:
            return common[-1][0]
        called = next((path[0][0] for path in paths if path), None)
        return called or self.operations[begin].name.strip("_")

    def with_makers(self, begin, end):
        """Their operations, with those before them that make what they read and what cannot be handed on."""
        chosen = set(range(begin, end))
        waiting = list(chosen)
        while waiting:
            for v in self.operations[waiting.pop()].inputs():
                k = self.place.get(id(v.maker)) if v.kind == "made" else None
                if k is not None and k not in chosen and not (v.dtype.is_floating_point and self.depends_on_input(v)):
                    chosen.add(k)
                    waiting.append(k)
        return [self.operations[k] for k in sorted(chosen)]


def parts_of(recording, failed, depends_on_input):
    """Parts that hold the failed operations (ids), and why others cannot be: [(name, reason)]."""
    if recording.inputs[0].tensor.device.type != "cpu":
        raise Rejection("parts without a layer are traced on the CPU; give --layers a model there")
    parts, faults = [], []
    other = another_recording(recording)
    for name, operations in Cutting(recording, failed, depends_on_input).parts():
        try:
            part = Part(name, operations, recording)
            part.prepare(other)
            parts.append(part)
        except Rejection as e:
            faults.append((name, str(e)))
    return parts, faults


def another_recording(recording):
    """The same operations for a sample more. Throws Rejection."""
    inputs = one_more([v.tensor.detach() for v in recording.inputs])
    try:
        other = record_call(recording.model, inputs, recording.call)
    except Rejection as e:
        raise Rejection(f"a micro-batch of {inputs[0].shape[0]} samples, one more than the example's, cannot be "
                        f"recorded: {e}") from e
    add_loss(other, "none")
    own = [o for o in recording.operations if o.path != [("loss", -1)]]
    if [o.name for o in own] != [o.name for o in other.operations]:
        raise Rejection(f"the model runs other operations for a micro-batch of {inputs[0].shape[0]} samples than for "
                        f"one of {len(recording.inputs[0].tensor)}")
    return other


def file_name(name, taken):
    """For a layer, in the folder of a model file."""
    base = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100] or "module"
    made, again = base, 1
    while made.lower() in taken:
        again += 1
        made = f"{base}_{again}"
    taken.add(made.lower())
    return made + ".pt"
