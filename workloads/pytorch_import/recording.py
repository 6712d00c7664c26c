"""One eager forward becomes a list of operations on numbered values."""
import contextlib
import math
import os
import traceback

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils import _pytree as tree
from torch.utils import checkpoint as checkpointing

from .model_state import exportable, places_of_parameters, restored, train

CONTAINERS = (nn.Sequential, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)


class Rejection(Exception):
    """What cannot be imported, in words. operations: those whose layer does not compute what they do."""

    def __init__(self, words, operations=()):
        super().__init__(words)
        self.operations = operations


def plain(condition, what):
    if not condition:
        raise Rejection(what)


PARAMETRIZED = "its weight is parametrized (weight norm, spectral norm, ...)"


def untouched(m):
    """Throws Rejection where a module does other work than its class says, or computes its weights."""
    hooks = (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks)
    for name, value in vars(m).items():
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter) and name in ("weight", "bias"):
            raise Rejection(f"its {name} is computed (weight norm, spectral norm, pruning, ...)")
    plain(not parametrize.is_parametrized(m), PARAMETRIZED)
    plain("forward" not in vars(m), "its forward is replaced")
    plain(not any(hooks), "it has a hook")


def last_line(error):
    """The kind and the first line of an exception."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


class Value:
    """A tensor that an operation made or that came from outside."""

    def __init__(self, tensor, kind, number=0, name=""):
        self.tensor, self.kind, self.number, self.name = tensor, kind, number, name
        self.maker = None  # its Operation
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype
        self.requires_grad = tensor.requires_grad
        self.escapes = False  # made in an activation checkpoint and read outside of it

    def bytes(self):
        return math.prod(self.shape) * self.dtype.itemsize


class Settings:
    """What decides how an operation runs besides its arguments: whether gradients are followed, and autocast."""

    def __init__(self, device):
        self.device, self.gradients = device, torch.is_grad_enabled()
        cast = device != "meta" and torch.is_autocast_enabled(device)
        self.autocast = torch.get_autocast_dtype(device) if cast else None

    def same(self, other):
        return self.gradients == other.gradients and self.autocast == other.autocast

    @contextlib.contextmanager
    def applied(self):
        with contextlib.ExitStack() as stack:
            if not self.gradients and torch.is_grad_enabled():
                stack.enter_context(torch.no_grad())
            if self.autocast is not None:
                stack.enter_context(torch.autocast(self.device, dtype=self.autocast))
            yield


class Operation:
    """function(*args, **kwargs), with Values in place of tensors; it changes none of them."""

    def __init__(self, function, args, kwargs, path, leaf, settings=None, region=None):
        self.function, self.args, self.kwargs, self.path, self.leaf = function, args, kwargs, path, leaf
        self.in_torchscript = function  # what computes the same, where TorchScript does not know it
        self.settings = settings
        # The activation checkpoint that it runs in: its number, and whether running it again ends where nothing more is
        # needed. None: in none.
        self.region = region
        self.outputs = []  # as many as the function's result has leaves; None where that is no tensor
        self.name = getattr(function, "__name__", str(function)).replace("<lambda>", "view_as")

    def inputs(self):
        return [a for a in tree.tree_leaves((self.args, self.kwargs)) if isinstance(a, Value)]

    def run(self, tensor_of):
        take = lambda a: tensor_of(a) if isinstance(a, Value) else a
        return self.function(*tree.tree_map(take, self.args), **tree.tree_map(take, self.kwargs))


class Call:
    """A call of a module: what it was given and what it gave back."""

    def __init__(self, name, module, args, kwargs):
        self.name, self.module, self.args, self.kwargs, self.result = name, module, args, kwargs, None
        self.training = module.training


IN_PLACE_OPERATORS = {f"__i{o}__": f"__{o}__" for o in ("add", "sub", "mul", "truediv", "floordiv", "pow", "and", "or",
                                                        "xor", "matmul", "mod")}


# Functions that give Python the values of a tensor.
READS = {"__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "item", "tolist", "numpy",
         "is_nonzero", "equal", "allclose"}


def place_in_the_model():
    """FILE:LINE of the model that called torch; of a module of torch itself: "the model"."""
    here, torchs = os.path.abspath(__file__), os.path.dirname(torch.__file__) + os.sep
    for frame in reversed(traceback.extract_stack()):
        file = os.path.abspath(frame.filename)
        if file == here and frame.name == "record_call":
            break
        if file != here and not file.startswith(torchs):
            return f"{frame.filename}:{frame.lineno}"
    return "the model"


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
        return (lambda x, *_: x.view_as(x)), {}
    plain = IN_PLACE_OPERATORS.get(name, name.rstrip("_") if name != "__setitem__" else "")
    for owner in (torch.Tensor, torch):
        candidate = getattr(owner, plain, None) if plain else None
        if callable(candidate):
            return candidate, kwargs
    return on_a_copy(function), kwargs


def on_device(tensor, of):
    """Without an operation where it is there already: a trace would name the device for ever."""
    return tensor if tensor.device == of.device else tensor.to(of.device)


class Dropouts(torch.overrides.TorchFunctionMode):
    """Dropout (and stochastic depth) with a mask that depends on the shape and the probability only, and none inside
    attention: so a module and its import drop the same elements, in whatever order they run."""

    WHOLE_CHANNELS = {"dropout1d", "dropout2d", "dropout3d", "feature_dropout"}
    NAMES = WHOLE_CHANNELS | {"dropout"}

    def uniform(self, shape, probability):
        """Numbers from 0 to 1, of sequences and of all their steps as rows the same."""
        shape = tuple(map(int, shape))
        generator = torch.Generator().manual_seed(hash((math.prod(shape), shape[-1:], probability)) % 2**31)
        return torch.rand(shape, generator=generator)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "").rstrip("_")
        if name == "bernoulli" and len(args) == 2 and isinstance(args[1], float):
            x, p = args
            drawn = on_device(self.uniform(x.shape, p) < p, x).to(x.dtype)
            return x.copy_(drawn) if function.__name__ == "bernoulli_" else drawn
        if name in self.NAMES:
            given = dict(zip(("x", "p", "training"), args))
            x = given.get("x", kwargs.get("input"))
            p = given.get("p", kwargs.get("p", 0.5))
            training = given.get("training", kwargs.get("training", kwargs.get("train", True)))
            if not training or p == 0:
                return x.view_as(x)
            shape = x.shape[:2] + (1,) * (x.dim() - 2) if name in self.WHOLE_CHANNELS else x.shape
            keep = on_device(self.uniform(shape, p) >= p, x)
            return x * (keep.to(x.dtype) / max(1 - p, 1e-9))
        if name == "scaled_dot_product_attention":
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs.pop("dropout_p", None)
        return function(*args, **kwargs)


def plain_name(name):
    """Of a module: without the wrappers of torch.compile."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


class Recorder(torch.overrides.TorchFunctionMode):
    def __init__(self, model, inputs):
        super().__init__()
        self.model, self.operations, self.calls = model, [], []
        self.names = {id(m): plain_name(n) for n, m in model.named_modules()}
        self.stack = []  # of (name, number of the call, module)
        self.leaf = None  # the Call of a module of torch.nn that is running
        self.values, self.kept = {}, []  # by id of the tensor; tensors are kept, so that ids stay theirs
        self.parameters = {id(p): plain_name(n) for n, p in model.named_parameters()}
        self.buffers = {id(b) for b in model.buffers()}
        self.inputs = [self.bind(t, Value(t, "input", i)) for i, t in enumerate(inputs)]
        self.device = inputs[0].device.type
        self.call_count, self.paused = 0, 0
        self.region, self.regions = None, 0
        # Places that read numbers which follow from the inputs or parameters; of those, from more than whole numbers.
        self.reads, self.reads_of_reals = [], []
        self.functions = set()  # classes of torch.autograd.Function that are recorded as one operation

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
        if self.paused:
            return function(*args, **kwargs)
        given = self.symbolic((tuple(args), kwargs))  # before the function changes anything
        result = function(*args, **kwargs)
        changed = changes_its_first(function, kwargs)
        made = args[0] if getattr(function, "__name__", "") == "__setitem__" else result
        if getattr(function, "__name__", "") in READS:
            self.add_reads(given)
        plain = given[1]
        if changed and any(isinstance(t, torch.Tensor) for t in tree.tree_leaves(made)):
            function, plain = out_of_place(function, given[1])
        plain.pop("out", None)
        self.add(function, given[0], plain, made)
        return result

    def add_reads(self, given):
        values = [v for v in tree.tree_leaves(given) if isinstance(v, Value) and v.kind != "constant"]
        if not values:
            return
        places = self.reads_of_reals if any(v.dtype.is_floating_point or v.dtype.is_complex for v in sources(values)
                                            ) else self.reads
        if (place := place_in_the_model()) not in places:
            places.append(place)

    def add(self, function, args, kwargs, made):
        leaves = tree.tree_leaves(made)
        if not any(isinstance(t, torch.Tensor) for t in leaves):
            return
        path = [(name, number) for name, number, module in self.stack if name and not isinstance(module, CONTAINERS)]
        operation = Operation(function, args, kwargs, path, self.leaf, Settings(self.device), self.region)
        is_random = operation.name == "bernoulli" or operation.name in Dropouts.NAMES
        if is_random or any(v.kind in ("input", "made", "parameter") for v in operation.inputs()):
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

    @contextlib.contextmanager
    def following(self):
        """Follows activation checkpoints and functions with a backward of their own. They are found where torch
        itself looks them up, however the model imported them."""
        function_apply = torch.autograd.Function.__dict__["apply"]
        recorder = self

        def apply(function, *args, **kwargs):
            run = function_apply.__get__(None, function)
            if recorder.paused:
                return run(*args, **kwargs)
            given = recorder.symbolic((args, kwargs))
            recorder.paused += 1
            try:
                made = run(*args, **kwargs)
            finally:
                recorder.paused -= 1
            run_again = lambda *a, **k: function.apply(*a, **k)
            run_again.__name__ = function.__name__
            run_again.with_own_backward = True
            recorder.functions.add(function)
            recorder.add(run_again, given[0], given[1], made)
            return made

        @contextlib.contextmanager
        def region(early_stop):
            outer = recorder.region
            if outer is None:
                recorder.regions += 1
                recorder.region = (recorder.regions, early_stop)
            try:
                yield
            finally:
                recorder.region = outer

        class Reentrant:
            @staticmethod
            def apply(function, preserve, *args):
                with region(early_stop=False):
                    return function(*args)

        def generator(function, args=(), kwargs=None, *rest, context_fn=None, **options):
            if context_fn not in (None, checkpointing.noop_context_fn):
                raise Rejection("a checkpoint that keeps some operations and repeats others (context_fn) is not "
                                "measured; checkpoint whole modules, or leave it out")
            with region(options.get("early_stop", True)):
                yield

        replaced = {"CheckpointFunction": Reentrant}
        for name in ("_checkpoint_without_reentrant_generator", "_checkpoint_without_reentrant_generator_impl"):
            replaced[name] = generator
        kept = {name: getattr(checkpointing, name) for name in replaced if hasattr(checkpointing, name)}
        for name in kept:
            setattr(checkpointing, name, replaced[name])
        torch.autograd.Function.apply = classmethod(apply)
        try:
            yield
        finally:
            torch.autograd.Function.apply = function_apply
            for name, value in kept.items():
                setattr(checkpointing, name, value)


class Recording:
    """operations in their order; inputs; outputs: the tensors of the result. call(inputs): runs the model."""

    def __init__(self, model, call, operations, inputs, outputs):
        self.model, self.call, self.operations, self.inputs, self.outputs = model, call, operations, inputs, outputs
        self.exact = True  # whether the operations give the model's outputs
        self.reads, self.reads_of_reals = [], []  # as a Recorder's
        self.rewritten = []  # names of the parameters that the forward itself changes
        self.loss = None  # of the first output; its targets
        self.target = None

    def first_output(self, result, samples=None):
        """Of the model's result: the tensor that the loss reads. samples: other than were recorded."""
        shape = (self.first.shape[0] if samples is None else samples, *self.first.shape[1:])
        return next((t for t in tree.tree_leaves(result) if isinstance(t, torch.Tensor) and
                     t.dtype.is_floating_point and t.shape == shape), None)


def walked_back(values):
    """The values that these depend on, and the ids of the operations that made them."""
    seen, makers, unseen = set(), set(), list(values)
    while unseen:
        value = unseen.pop()
        seen.add(value)
        if value.maker is not None and id(value.maker) not in makers:
            makers.add(id(value.maker))
            unseen += value.maker.inputs()
    return seen, makers


def sources(values):
    """The inputs and parameters that these values depend on."""
    return [v for v in walked_back(values)[0] if v.kind in ("input", "parameter")]


def needed(operations, outputs):
    """The operations that the outputs depend on."""
    wanted = walked_back(outputs)[1]
    return [o for o in operations if id(o) in wanted]


@contextlib.contextmanager
def repeatable(model):
    """Dropout that is the same in every run, and none inside attention."""
    attention = [(m, m.dropout) for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    for m, _ in attention:
        m.dropout = 0.0
    try:
        with Dropouts():
            yield
    finally:
        for m, dropout in attention:
            m.dropout = dropout


def call_of(model, inputs, keywords, autocast=None):
    """The tensors among the inputs, and a function that runs the model on others in their places."""
    leaves, structure = tree.tree_flatten((tuple(inputs), dict(keywords)))
    tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
    if not tensors:
        raise Rejection("the example inputs hold no tensor")
    for i, t in enumerate(tensors):
        if t.dim() < 1:
            raise Rejection(f"input {i} is no tensor whose first dimension is the micro-batch")

    def call(given):
        given = iter(given)
        args, kwargs = tree.tree_unflatten([next(given) if isinstance(t, torch.Tensor) else t for t in leaves],
                                           structure)
        with torch.autocast(tensors[0].device.type, dtype=autocast) if autocast else contextlib.nullcontext():
            return model(*args, **kwargs)

    return tensors, call


def unwrapped(model):
    """The module that was compiled. Throws Rejection where a part cannot be recorded."""
    model = getattr(model, "_orig_mod", model)
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise Rejection(f"{name or 'the model'} is scripted or traced (torch.jit): its operations cannot be "
                            "recorded; return the module that was scripted")
    return model


def record(model, inputs, keywords=None, autocast=None):
    """One eager forward, in training mode. autocast: the dtype of torch.autocast around it; None: none."""
    model = unwrapped(model)
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return record_call(model, *call_of(model, inputs, keywords or {}, autocast))


def record_call(model, inputs, call):
    """The same of call(inputs), which runs the model on these tensors."""
    torch.compiler.set_stance("force_eager")
    with restored(model):
        train(model)
        recorder = Recorder(model, inputs)
        hooks = []
        for module in model.modules():
            hooks.append(module.register_forward_pre_hook(recorder.enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(recorder.leave, with_kwargs=True))
        torch.manual_seed(0)
        initial = places_of_parameters(model)
        try:
            with repeatable(model), exportable(recorder.device), recorder.following(), recorder, torch.enable_grad():
                result = call(inputs)
        except Rejection:
            raise
        except Exception as e:
            raise Rejection(f"the model's forward failed on the example inputs: {last_line(e)}") from e
        finally:
            for hook in hooks:
                hook.remove()
        outputs = [recorder.values[id(t)] for t in tree.tree_leaves(result)
                   if isinstance(t, torch.Tensor) and id(t) in recorder.values]
        outputs = [v for v in outputs if v.kind == "made"]
        if not outputs:
            raise Rejection("the model returns no tensor that depends on its inputs")
        require_known_functions([v.tensor for v in outputs], recorder.functions)
        recording = Recording(model, call, needed(recorder.operations, outputs), recorder.inputs, outputs)
        recording.reads, recording.reads_of_reals = recorder.reads, recorder.reads_of_reals
        recording.rewritten = [n for n, p in places_of_parameters(model).items() if n in initial and initial[n] != p]
        for operation in recording.operations:
            for v in operation.inputs():
                v.escapes |= v.maker is not None and v.maker.region != operation.region
        for v in outputs:
            v.escapes = True
        if recorder.device != "meta":
            expected = [v.tensor.detach().clone() for v in outputs]
            with torch.no_grad(), repeatable(model):
                got = replay(recorder.operations, {})
            recording.exact = all(torch.allclose(got[v], e, rtol=1e-3, atol=1e-5, equal_nan=True)
                                  for v, e in zip(outputs, expected) if e.dtype.is_floating_point)
    return recording


def nodes_of(tensors):
    """The nodes of the backward of these tensors."""
    seen, waiting = set(), [t.grad_fn for t in tensors if t.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting += [n for n, _ in node.next_functions if n is not None]
    return seen


def require_known_functions(outputs, recorded):
    """Throws Rejection for a torch.autograd.Function that the recording has taken apart."""
    for node in nodes_of(outputs):
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            kind = getattr(type(node), "_forward_cls", None)
            if kind not in recorded:
                name = getattr(kind, "__name__", type(node).__name__)
                raise Rejection(f"the torch.autograd.Function {name} is called through a name bound to its apply "
                                f"('f = {name}.apply'), where its backward cannot be measured; call {name}.apply(...)")


def replay(operations, env):
    """Runs the operations; env: tensors of Values that differ from the recorded ones."""
    begin = 0
    while begin < len(operations):
        first, end = operations[begin], begin + 1
        while end < len(operations) and together(first, operations[end]):
            end += 1
        part = operations[begin:end]
        if first.region is not None and torch.is_grad_enabled():
            replay_checkpoint(part, env)
        else:
            replay_part(part, env)
        begin = end
    return env


def together(one, other):
    """Whether both run under the same settings, in the same checkpoint."""
    if one.region != other.region:
        return False
    if one.region is not None or one.settings is None or other.settings is None:
        return one.region is not None or one.settings is other.settings
    return one.settings.same(other.settings)


def replay_part(operations, env):
    tensor_of = lambda v: env[v] if v in env else v.tensor
    begin = 0
    while begin < len(operations):
        settings, end = operations[begin].settings, begin + 1
        while end < len(operations) and (settings is operations[end].settings or settings and
                                         operations[end].settings and settings.same(operations[end].settings)):
            end += 1
        with settings.applied() if settings else contextlib.nullcontext():
            for operation in operations[begin:end]:
                for value, tensor in zip(operation.outputs, tree.tree_leaves(operation.run(tensor_of))):
                    if value is not None:
                        env[value] = tensor
        begin = end


def replay_checkpoint(operations, env):
    """As torch.utils.checkpoint runs them: keeps what they read, and runs them again in the backward."""
    made = [v for o in operations for v in o.outputs if v is not None]
    results, inside = [v for v in made if v.escapes], set(made)
    read = list(dict.fromkeys(v for o in operations for v in o.inputs()
                              if v not in inside and v.kind in ("input", "made")))

    def run(*tensors):
        inner = dict(zip(read, tensors))
        replay_part(operations, inner)
        return tuple(inner[v] for v in results)

    tensors = [env[v] if v in env else v.tensor for v in read]
    with checkpointing.set_checkpoint_early_stop(operations[0].region[1]):
        kept = checkpointing.checkpoint(run, *tensors, use_reentrant=False)
    env.update(zip(results, kept))
