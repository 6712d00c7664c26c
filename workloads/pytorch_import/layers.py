"""The layers of sluice/model/1 that a recording consists of, where Sluice knows every one."""
import math
import types

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils import _pytree as tree

from .costs import VIEWS
from .modules import file_name, parts_of
from .recording import PARAMETRIZED, Rejection, Value, plain, untouched
from .torch_modules import MODULES, adaptive_average, conv2d, conv_nd, embedding, gelu, pool2d
from .written_out import WrittenOut


def of_a_sequence(name, o):
    """How an operation makes one vector of a sequence; None: not at all."""
    position = None
    if name == "mean" and dimensions(o) == (1,):
        return "mean"
    if name == "select" and len(o.args) == 3 and o.args[1] == 1:
        position = o.args[2]
    if name == "getitem" and isinstance(o.args[1], tuple) and len(o.args[1]) > 1 and o.args[1][0] == slice(None):
        position = o.args[1][1]
    return {0: "first", -1: "last"}.get(position) if isinstance(position, int) else None


def new_order(o):
    """The dimensions of what is permuted, in their order in the result."""
    rank = len(o.inputs()[0].shape)
    if o.name in ("permute", "permute_copy"):
        given = o.kwargs.get("dims", o.args[1] if len(o.args) == 2 else o.args[1:])
        return [d % rank for d in (given if isinstance(given, (tuple, list)) else (given,))]
    a, b = (o.kwargs.get(name, o.args[i] if len(o.args) > i else 0) % rank
            for i, name in ((1, "dim0"), (2, "dim1")))
    return [b if d == a else a if d == b else d for d in range(rank)]


def dimensions(o):
    """Those that a mean is over; (): all."""
    given = o.kwargs.get("dim", o.args[1] if len(o.args) > 1 else None)
    given = () if given is None else given if isinstance(given, (tuple, list)) else (given,)
    return tuple(sorted(d % len(o.inputs()[0].shape) for d in given))


class Weight:
    """A weight of a layer: rows (first, end; None: all) of parameters of the module, one after another."""

    def __init__(self, pieces, shape=None, transposed=False):
        self.pieces, self.shape = pieces, shape  # shape: None: of the rows
        self.transposed = transposed  # the parameters' columns are the rows

    def rows_of(self, tensor, at):
        tensor = tensor.t() if self.transposed else tensor
        return tensor if at is None else tensor[at[0]:at[1]]

    def of(self, tensor_of):
        """tensor_of(parameter): the parameter."""
        parts = [self.rows_of(tensor_of(p), at) for p, at in self.pieces]
        both = parts[0] if len(parts) == 1 else torch.cat(parts)
        return both if self.shape is None else both.reshape(self.shape)

    def add_to(self, tensor_of, gradient):
        """Adds a gradient of the weight to those of its parameters: tensor_of(parameter)."""
        targets = [self.rows_of(tensor_of(p), at) for p, at in self.pieces]
        parts = gradient.split([t.shape[0] for t in targets]) if len(targets) > 1 else [gradient]
        for target, part in zip(targets, parts):
            target += part.reshape(target.shape)


def is_frozen(weights):
    trained = {p.requires_grad for weight in weights for p, _ in weight.pieces}
    plain(len(trained) < 2, "some of its parameters are frozen (requires_grad=False) and others are not")
    return trained == {False}


def whole(parameter):
    return Weight([(parameter, None)])


def rows(parameter, first, end):
    return Weight([(parameter, (first, end))])


# In the order of harness/model/layer_spec.h; what is not here has no weights.
WEIGHTS = {"Linear": ("weight", "bias"), "Conv2d": ("weight", "bias"), "ConvNd": ("weight", "bias"),
           "ConvTranspose2d": ("weight", "bias"),
           "BatchNorm": ("weight", "bias"), "GroupNorm": ("weight", "bias"), "LayerNorm": ("weight", "bias"),
           "RmsNorm": ("weight",),
           "Embedding": ("weight",), "Lstm": ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")}
RANKS = {"Conv2d": (3,), "ConvTranspose2d": (3,), "Pool2d": (2, 3, 4), "Upsample": (3,), "InstanceNorm": (3,),
         "BatchNorm": (1, 2, 3, 4), "PositionEmbedding": (2,), "Attention": (2,), "CrossAttention": (2,),
         "PatchEmbedding": (3,), "ClassToken": (2,), "Lstm": (2,),
         "CrossEntropyLoss": (1, 2), "Embedding": (1,)}  # dimensions of a sample that the kind takes
ROW_BY_ROW = ("Linear", "LayerNorm", "RmsNorm", "Activation", "Dropout", "Add", "Multiply")  # of the last dimension
PASSED_ON = ("contiguous", "view", "view_as", "reshape", "detach", "to", "clone", "pad", "float", "double", "half",
             "bfloat16", "type", "type_as")
CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
WEIGHTED = {"linear": ("input", "weight", "bias"), "addmm": ("bias", "input", "weight"), "matmul": ("input", "weight"),
            "mm": ("input", "weight"), "conv1d": CONVOLUTION, "conv2d": CONVOLUTION, "conv3d": CONVOLUTION,
            "embedding": ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
            "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
            "group_norm": ("input", "num_groups", "weight", "bias", "eps")}  # functions and their arguments, in order
UNKNOWN = "unknown"  # in the place of a layer's number: made by what Sluice does not know


class Declaring:
    """From a recording to the layers of sluice/model/1. weights[k], values[k]: of layer k, its Weights in the module
    and the Value that it makes. unknown: why what was not declared, in order."""

    def __init__(self, recording, untie=False, parts=()):
        self.recording, self.layers, self.notes, self.untie = recording, [], [], untie
        self.weights, self.values, self.unknown = [], [], {}  # unknown: reason -> places
        self.failed = set()  # ids of the operations that were not declared
        self.part_of = {id(o): part for part in parts for o in part.operations}
        self.part_of_layer, self.taken = {}, set()  # by the layer's name; file names
        self.differing = []  # operations whose layer was found to compute something else
        self.weight_of, self.tied = {}, set()  # by the weight's id: the first layer that has it; those of several
        self.names, self.number_of = set(), {}
        self.inputs, self.constant = [], {}
        self.left_out = 0  # numbers of parameters that the module has and never reads
        for i, v in enumerate(recording.inputs):
            ids = not v.dtype.is_floating_point
            self.inputs.append({"shape": list(v.shape[1:]), **({"token_ids": True} if ids else {})})
            self.number_of[v] = -1 - i
            readers = [o for o in recording.operations if v in o.inputs() and id(o) not in self.part_of]
            self.attempt(f"input {i}", lambda: self.check_input(v, ids, readers), of=[
                o for o in readers if ids and o.name != "embedding"])
        self.written_out = self.find_written_out()

    def check_input(self, v, ids, readers):
        shape = list(v.shape)
        plain(v.shape[0] == self.recording.inputs[0].shape[0],
              f"has the shape {shape}, whose first dimension is not the micro-batch")
        plain(len(shape) > 1, f"has the shape {shape}: nothing besides the micro-batch (a target? --loss adds one)")
        plain(len(shape) <= 9, f"has the shape {shape}; Sluice takes 8 dimensions of a sample")
        plain(not ids or v.dtype in (torch.int64, torch.int32) and len(shape) == 2,
              f"has the shape {shape} of {v.dtype}; what is no floating point number is token ids [batch, steps]")
        plain(any(v in o.inputs() for o in self.recording.operations), "is read by no layer")
        views = [o.outputs[0] for o in readers if o.name in ("view", "reshape") and o.outputs[0].shape == v.shape]
        readers = [o for o in readers if o.outputs[0] not in views] + [
            o for o in self.recording.operations if any(view in o.inputs() for view in views)]
        plain(not ids or all(o.name in ("embedding", "size", "__get__") for o in readers),
              "token ids are read by something that is no embedding")

    def attempt(self, where, step, made=(), of=()):
        """Keeps what cannot be declared, so that all of it is named at once. of: its operations."""
        try:
            step()
        except Rejection as e:
            self.unknown.setdefault(str(e), []).append(where)
            self.failed.update(map(id, of))
            for v in made:
                self.number_of.setdefault(v, UNKNOWN)

    def add(self, name, kind, inputs, output, weights=(), **fields):
        base, again = name, 1
        while name in self.names:
            again += 1
            name = f"{base}#{again}"
        self.names.add(name)
        numbers = []
        for v in inputs:
            numbers.append(self.number(v))
            plain(kind in ROW_BY_ROW or not self.has_rows(v), f"{kind} of rows of all sequences")
            ranks = RANKS.get(kind)
            plain(not ranks or len(v.shape) - 1 in ranks,
                  f"{kind} of a sample of {list(v.shape[1:])}; Sluice's takes {' or '.join(map(str, ranks or ()))} "
                  "dimensions")
        if kind == "PositionEmbedding":
            plain(inputs[0].shape[1] <= fields["steps"], f"a table of {fields['steps']} positions for "
                  f"{inputs[0].shape[1]}")
        if is_frozen(weights):
            fields["frozen"] = True
        self.layers.append({"name": name, "kind": kind, "inputs": numbers, **fields})
        self.weights.append(list(weights))
        self.values.append(output)
        if output is not None:
            self.number_of[output] = len(self.layers) - 1

    def number(self, v):
        if v not in self.number_of and v.maker is not None and v.maker.leaf is not None:
            raise Rejection(f"a further result of {v.maker.leaf.name} ({type(v.maker.leaf.module).__name__}) is read")
        plain(v in self.number_of, "a tensor that depends on no input is read")
        return self.number_of[v]

    def same(self, output, of):
        plain(output.dtype == of.dtype, f"a change from {of.dtype} to {output.dtype}")
        self.number_of[output] = self.number(of)

    def has_rows(self, v):
        """Whether it has, in the place of a sequence for each sample, the steps of all of them as rows."""
        return len(v.shape) == 2 and v.shape[0] != self.recording.inputs[0].shape[0]

    def depends_on_input(self, value):
        if value not in self.constant:
            self.constant[value] = value.kind == "input" or value.maker is not None and any(
                self.depends_on_input(v) for v in value.maker.inputs())
        return self.constant[value]

    def find_written_out(self):
        """By the id of an operation of a layer that is written out: the layer where it is the last one, otherwise None.
        An attention that is no layer is noted as unknown."""
        unknown = []
        operations = [o for o in self.recording.operations if id(o) not in self.part_of]
        found = WrittenOut(operations, self.depends_on_input, self.name_of, lambda o, why: unknown.append((o, why)))
        self.notes += found.notes
        for o, why in unknown:
            def reject(why=why):
                raise why
            self.attempt(".".join(n for n, _ in o.path[-1:]) or o.name, reject, o.outputs, [o])
            self.skip_parts(o, found.found)
        return found.found

    def name_of(self, o):
        return o.leaf.name if o.leaf is not None else ".".join(n for n, _ in o.path[-1:]) or o.name.strip("_")

    def skip_parts(self, attention, found):
        """Leaves out an attention that is not known, and the views that lead to it."""
        found[id(attention)] = None
        waiting = attention.inputs()
        while waiting:
            v = waiting.pop()
            if v.maker is not None and v.maker.leaf is None and v.maker.name in VIEWS:
                found[id(v.maker)] = None
                for made in v.maker.outputs:
                    self.number_of[made] = UNKNOWN
                waiting += v.maker.inputs()

    def run(self):
        done, of_leaf = set(), {}
        for o in self.recording.operations:
            of_leaf.setdefault(id(o.leaf), []).append(o)
        for o in self.recording.operations:
            if id(o) in self.part_of:
                part = self.part_of[id(o)]
                if o is part.operations[-1]:
                    self.attempt(part.name, lambda: self.add_part(part), [part.output], self.around_rows(part))
                continue
            if id(o) in self.written_out:
                if (known := self.written_out[id(o)]) is not None:
                    self.attempt(known.name, lambda: self.add_written_out(known), [known.result], [o])
                continue
            made = [v for v in o.outputs if v is not None]
            if o.leaf is not None:
                if id(o.leaf) not in done:
                    done.add(id(o.leaf))
                    self.attempt(f"{o.leaf.name} ({type(o.leaf.module).__name__})", lambda: self.module(o.leaf),
                                 [v for v in tree.tree_leaves(o.leaf.result) if isinstance(v, Value)],
                                 of_leaf[id(o.leaf)])
            elif any(self.depends_on_input(v) for v in made) and any(v not in self.number_of for v in made):
                known = len(self.unknown)
                self.attempt(self.label(o), lambda: self.function(o), made, [o])
                of_unknown = any(self.number_of.get(v) == UNKNOWN for v in o.inputs())
                if o.name in VIEWS and of_unknown and len(self.unknown) > known:
                    self.unknown.popitem()  # a part of what was named already
        return {"schema": "sluice/model/1", "name": "", "inputs": self.inputs, "layers": self.layers}

    def add_written_out(self, found):
        weights = [Weight([(tensor, None) for tensor in tensors], shape, found.transposed and tensors[0].dim() == 2)
                   for tensors, shape in found.weights]
        self.add(found.name, found.kind, found.reads, found.result, weights, **found.fields)

    def around_rows(self, part):
        """The operations that a part has to have, too, so that it reads and makes sequences."""
        makers = [v.maker for v in part.inputs if self.has_rows(v)]
        readers = [o for o in self.recording.operations if part.output in o.inputs()]
        return makers + (readers if self.has_rows(part.output) else [])

    def add_part(self, part):
        plain(not any(map(self.has_rows, [*part.inputs, part.output])), "a Module of rows of all sequences")
        file = file_name(part.name, self.taken)
        self.add(part.name, "Module", part.inputs, part.output, [whole(v.tensor) for v in part.weights])
        self.layers[-1].update(part.fields(f"{self.folder}/{file}"))
        self.part_of_layer[self.layers[-1]["name"]] = part

    def module(self, call):
        m, kind = call.module, type(call.module)
        given = [a for a in tree.tree_leaves((call.args, call.kwargs)) if isinstance(a, Value)]
        untouched(m)
        if not any(self.depends_on_input(v) for v in given):
            if kind in MODULES:
                MODULES[kind](m)  # e.g. an embedding of positions
            return
        dropouts = (nn.Dropout, nn.Dropout2d)
        if kind is nn.Identity or kind in dropouts and (m.p == 0 or not call.training):
            self.same(call.result, given[0])
        elif kind in dropouts:
            plain(m.p < 1, "a dropout of everything")
            channels = {"channels": True} if kind is nn.Dropout2d else {}
            self.add(call.name, "Dropout", given[:1], call.result, probability=m.p, **channels)
        elif kind is nn.Flatten:
            plain(m.start_dim == 1 and m.end_dim in (-1, len(given[0].shape) - 1),
                  "a part of the dimensions is flattened")
            self.add(call.name, "Flatten", given[:1], call.result)
        elif kind is nn.MultiheadAttention:
            self.multi_head(call, m)
        elif kind in (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d):
            name, fields = adaptive_average(m.output_size, given[0].shape)
            self.add(call.name, name, given[:1], call.result, **fields)
        elif kind in MODULES:
            plain(call.training or "BatchNorm" not in kind.__name__,
                  "a batch norm that stays in eval() while the model trains")
            name, fields = MODULES[kind](m)
            if kind is nn.LSTM:
                plain(len(call.args) == 1 and not call.kwargs, "an LSTM with a state of its own")
            result = call.result[0] if kind is nn.LSTM else call.result
            own = [getattr(m, w) for w in WEIGHTS.get(name, ()) if getattr(m, w, None) is not None]
            self.add(call.name, name, given[:1], result, [whole(p) for p in own], **fields)
            if kind in (nn.Linear, nn.Embedding):
                self.tie(m.weight)
        else:
            raise Rejection(f"Sluice has no layer {kind.__name__}")

    def tie(self, weight):
        """Marks the last layer where an earlier one has its weight."""
        layer = self.layers[-1]
        owner = self.weight_of.setdefault(id(weight), layer["name"])
        if owner == layer["name"] or self.untie:
            return
        layer["tied_to"] = owner
        self.tied.add(id(weight))
        del self.weights[-1][0]
        self.notes.append(f"{layer['name']} is tied to {owner}: for a pipeline, which has them in two stages, --untie "
                          "gives both weights of their own")

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
        result, width = call.result[0], m.embed_dim
        last = [whole(m.out_proj.weight), whole(m.out_proj.bias)]
        if given["query"] is given["key"]:
            self.add(call.name, "Attention", [given["query"]], result, [whole(m.in_proj_weight), whole(m.in_proj_bias),
                     *last], width=width, heads=m.num_heads, causal=causal)
            return
        plain(not causal, "causal attention to another sequence")
        plain(m.kdim == m.vdim, "keys and values of different widths")
        if m.in_proj_weight is not None:
            first = [rows(m.in_proj_weight, 0, width), rows(m.in_proj_weight, width, 3 * width)]
        else:
            first = [whole(m.q_proj_weight), Weight([(m.k_proj_weight, None), (m.v_proj_weight, None)])]
        first.insert(1, rows(m.in_proj_bias, 0, width))
        self.add(call.name, "CrossAttention", [given["query"], given["key"]], result,
                 [*first, rows(m.in_proj_bias, width, 3 * width), *last], width=width, memory=m.kdim,
                 heads=m.num_heads)

    def label(self, o):
        name = o.name.strip("_")
        name = {"iadd": "add", "radd": "add"}.get(name, name)
        where = ".".join(n for n, _ in o.path[-1:]) or name
        return f"{where}.{name}" if where != name else name

    def function(self, o):
        label = self.label(o)
        name = label.rpartition(".")[2]
        output = next(v for v in o.outputs if v is not None)
        given = o.inputs()
        plain(o.settings is None or o.settings.autocast is None, "is computed under autocast; Sluice computes in fp32")
        plain(o.settings is None or o.settings.gradients, "is computed under no_grad; Sluice trains every layer")
        if self.changes_nothing(name, o, output):
            self.same(output, given[0])
        elif name == "add" and len(given) == 2 and o.kwargs.get("alpha", 1) == 1:
            a, b = given
            if not self.depends_on_input(a):
                a, b = b, a
            if self.depends_on_input(b):
                plain(a.shape == b.shape, f"an addition of {list(a.shape)} and {list(b.shape)}")
                self.add(label, "Add", [a, b], output)
                return
            table = self.table_of(b)
            plain(table is not None and len(output.shape) == 3 and table.shape[-1] == output.shape[-1] and
                  math.prod(table.shape) == table.shape[-1] * table.shape[-2],
                  "an addition of something that is no table of positions")
            first = self.first_position(table, b)
            steps, width = table.shape[-2] - first, table.shape[-1]
            at = (first, first + steps) if first else None
            self.add(label, "PositionEmbedding", [a], output, [Weight([(table.tensor, at)], (steps, width))],
                     steps=steps, width=width)
            if first:
                self.left_out += first * width
                self.notes.append(f"the first {first} rows of {table.name}, which no position looks up, are left out")
        elif name == "mul" and len(given) == 2 and all(self.depends_on_input(v) for v in given):
            x, factor = given if output.shape == given[0].shape else given[::-1]
            channels = len(x.shape) == 4 and list(factor.shape) == [*x.shape[:2], 1, 1]
            plain(x.shape == factor.shape or channels and x.shape == output.shape,
                  f"a product of {list(given[0].shape)} and {list(given[1].shape)}")
            self.add(label, "Multiply", [x, factor], output)
        elif name in ("max_pool2d", "avg_pool2d"):
            kind, mode = (nn.MaxPool2d, "max") if name == "max_pool2d" else (nn.AvgPool2d, "average")
            names = ("kernel_size", "stride", "padding")
            plain(len(o.args) < 5, f"a call of {name} with more than kernel_size, stride and padding by position")
            settings = {**{k: v for k, v in o.kwargs.items() if k != "input"}, **dict(zip(names, o.args[1:]))}
            settings["stride"] = settings.get("stride") or None  # [] is torch's own default
            self.add(label, "Pool2d", given[:1], output, **pool2d(kind(**settings), mode)[1])
        elif name in ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"):
            size = o.kwargs["output_size"] if "output_size" in o.kwargs else o.args[1]
            kind, fields = adaptive_average(size, given[0].shape)
            self.add(label, kind, given[:1], output, **fields)
        elif name == "mean" and len(given[0].shape) > 2 and dimensions(o) == tuple(range(2, len(given[0].shape))):
            keeps = len(output.shape) > 2
            self.add(label, "Pool2d", given[:1], output if keeps else None, mode="global_average")
            if not keeps:
                self.add(label + ".flatten", "Flatten", given[:1], output)
                self.layers[-1]["inputs"] = [len(self.layers) - 2]
        elif len(given[0].shape) == 3 and len(output.shape) == 2 and self.depends_on_input(given[0]) and (
                (mode := of_a_sequence(name, o)) is not None):
            self.add(label, "SequencePool", given[:1], output, mode=mode)
        elif (call := self.own_weights(o, name)) is not None:
            self.weighted(call, label, name, output)
        elif name in ("permute", "transpose", "swapaxes", "swapdims") and (order := new_order(o))[0] == 0:
            plain(self.number(given[0]) != UNKNOWN, f"a {name} of what no layer makes")
            self.add(label, "Permute", given[:1], output, axes=[d - 1 for d in order[1:]])
        elif name in ("relu", "tanh", "sigmoid", "silu", "relu6", "hardsigmoid", "hardswish"):
            self.add(label, "Activation", given[:1], output, function=name)
        elif name == "gelu":
            kind, fields = gelu(o.kwargs.get("approximate", "none"))
            self.add(label, kind, given[:1], output, **fields)
        elif name == "dropout":
            probability = o.kwargs.get("p", o.args[1] if len(o.args) > 1 else 0.5)
            training = o.kwargs.get("training", o.args[2] if len(o.args) > 2 else True)
            if not training or probability == 0:
                self.same(output, given[0])
            else:
                plain(probability < 1, "a dropout of everything")
                self.add(label, "Dropout", given[:1], output, probability=probability)
        elif name in ("cat", "concat", "concatenate"):
            axis = o.kwargs.get("dim", o.args[1] if len(o.args) > 1 else 0)
            axis += len(output.shape) if axis < 0 else 0
            plain(axis != 0, "samples are concatenated")
            self.add(label, "Concat", given, output, axis=axis - 1)
        elif name in ("flatten", "view", "reshape", "unflatten") and self.are_steps(given[0], output):
            self.same(output, given[0])
        elif name in ("flatten", "view", "reshape") and len(output.shape) == 2 and output.shape[0] == given[0].shape[0]:
            if len(given[0].shape) == 2:
                self.same(output, given[0])
            else:
                self.add(label, "Flatten", given[:1], output)
        elif (name in PASSED_ON or name == "getitem" and len(given) == 1) and output.shape == given[0].shape:
            self.same(output, given[0])
        elif name in ("cross_entropy", "mse") and o.path == [("loss", -1)]:
            self.add("loss", "CrossEntropyLoss" if name == "cross_entropy" else "MseLoss", given[:1], None)
        else:
            modules = dict(self.recording.model.named_modules())
            plain(not o.path or o.path[-1][0] not in modules or
                  not parametrize.is_parametrized(modules[o.path[-1][0]]), PARAMETRIZED)
            raise Rejection(f"the function {o.name} of {', '.join(str(list(v.shape)) for v in given)}")

    def changes_nothing(self, name, o, output):
        """Whether it multiplies by one or adds a constant of zeros."""
        given = o.inputs()
        if not given or not self.depends_on_input(given[0]) or given[0].shape != output.shape:
            return False
        if name in ("mul", "rmul") and len(given) == 1:
            return len(o.args) == 2 and not o.kwargs and 1 in o.args
        constant = given[1] if name == "add" and len(given) == 2 else None
        return constant is not None and constant.kind == "constant" and not constant.tensor.any()

    def are_steps(self, a, b):
        """Whether one is sequences [samples, steps, width] and the other their steps [samples x steps, width]."""
        rows, sequences = (a, b) if len(a.shape) == 2 else (b, a)
        return self.has_rows(rows) and len(sequences.shape) == 3 and rows.shape[1] == sequences.shape[2] and (
            sequences.shape[0] == self.recording.inputs[0].shape[0])

    def own_weights(self, o, name):
        """The arguments, by name, of a function whose weights are parameters, as a module of it calls it; or None."""
        call = dict(zip(WEIGHTED.get(name, ()), o.args))
        call.update(o.kwargs)
        own = [v for v in (call.get("weight"), call.get("bias")) if v is not None]
        if name not in WEIGHTED or call.get("weight") is None or any(
                not isinstance(v, Value) or v.kind != "parameter" for v in own):
            return None
        return call

    def weighted(self, call, label, name, output):
        own = [call["weight"], *([call["bias"]] if call.get("bias") is not None else [])]
        weight, rank = call["weight"].tensor, len(call["input"].shape) - 2
        weights = [whole(v.tensor) for v in own]
        if name in ("linear", "addmm", "matmul", "mm"):
            plain(weight.dim() == 2 and not call.keys() & {"alpha", "beta", "out"}, f"a call of {name} of another form")
            if name != "linear":
                weights[0] = Weight(weights[0].pieces, transposed=True)
            outputs, inputs = weights[0].rows_of(weight, None).shape
            kind, fields = "Linear", {"in": inputs, "out": outputs, "bias": len(own) == 2}
        elif name == "embedding":
            usual = {"padding_idx": None, "max_norm": None, "scale_grad_by_freq": False, "sparse": False}
            words, width = weight.shape
            kind, fields = embedding(types.SimpleNamespace(**{k: call.get(k, v) for k, v in usual.items()},
                                                           num_embeddings=words, embedding_dim=width))
        elif name == "layer_norm":
            plain(len(own) == 2 and len(call["normalized_shape"]) == 1, "a layer norm without bias or of several "
                  "dimensions")
            kind, fields = "LayerNorm", {"features": weight.shape[0], "epsilon": call.get("eps", 1e-5)}
        elif name == "group_norm":
            plain(len(own) == 2, "a group norm without bias")
            kind, fields = "GroupNorm", {"features": weight.shape[0], "groups": call["num_groups"],
                                         "epsilon": call.get("eps", 1e-5)}
        else:
            sizes = {key: call.get(key, usual) for key, usual in (("stride", 1), ("padding", 0), ("dilation", 1))}
            groups = call.get("groups", 1)
            kind, fields = (conv2d if name == "conv2d" else conv_nd)(types.SimpleNamespace(
                in_channels=weight.shape[1] * groups, out_channels=weight.shape[0], kernel_size=tuple(weight.shape[2:]),
                bias=call.get("bias"), groups=groups, padding_mode="zeros",
                **{k: v if isinstance(v, str) else tuple(v) if isinstance(v, (tuple, list)) else (v,) * rank
                   for k, v in sizes.items()}))
        self.add(label, kind, [call["input"]], output, weights, **fields)
        if name in ("linear", "embedding"):
            self.tie(call["weight"].tensor)

    def first_position(self, table, looked_up):
        """The row of a table from which on its rows, one after another, are what was looked up; 0: none is."""
        if len(table.shape) != 2 or looked_up.tensor.device.type == "meta":
            return 0
        steps = looked_up.shape[-2]
        of_samples = looked_up.tensor.detach().reshape(-1, steps, table.shape[1])
        starts = [k for k in range(len(table.tensor) - steps + 1)
                  if bool((of_samples == table.tensor[k:k + steps]).all())]
        return starts[0] if len(starts) == 1 else 0

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


def declared(recording, name, untie=False, folder=None, differing=()):
    """sluice/model/1, notes, and the Declaring behind it. Throws Rejection with all that Sluice does not know. The
    recording has its loss. untie: a weight that several layers have becomes several. folder: of the files of Modules,
    which parts without a layer become (Declaring.part_of_layer); None: they are rejected. differing: operations that
    are in such a part, too."""
    declaring = Declaring(recording, untie)
    model, notes, failed = declaring.run(), [], set()
    for o in differing:
        declaring.attempt(declaring.label(o), lambda: plain(False, "its layer computes something else"), of=[o])
    while folder is not None and declaring.failed - failed:  # a neighbour of a Module may fail in turn
        failed |= declaring.failed
        reasons = dict(declaring.unknown)
        parts, faults = parts_of(recording, failed, declaring.depends_on_input)
        if faults:
            raise Rejection("\n".join(["these parts have no layers in Sluice and cannot be Modules:",
                                       *lines_of(grouped(faults)), "because of", *lines_of(reasons)]))
        declaring = Declaring(recording, untie, parts)
        declaring.folder = folder
        model = declaring.run()
        notes = [f"TorchScript stands for {', '.join(p.name for p in parts)}, since Sluice has no layers for these "
                 "parts:\n" + "\n".join(lines_of(reasons))]
    model["name"] = name
    if declaring.unknown:
        raise Rejection("\n".join(["Sluice has no layers for these parts (--costs takes any):",
                                   *lines_of(declaring.unknown)]))
    if not declaring.layers or declaring.layers[-1]["kind"] not in ("CrossEntropyLoss", "MseLoss"):
        raise Rejection("a model that trains ends in a loss; give --loss cross_entropy or mse")
    own = {}
    notes += declaring.notes
    for parameter, tensor in recording.model.named_parameters(remove_duplicate=False):
        own.setdefault(id(tensor), []).append(parameter)
    notes += [f"one parameter under several names becomes several: {', '.join(names)}"
              for tensor, names in own.items() if len(names) > 1 and tensor not in declaring.tied]
    return model, sorted(set(notes), key=notes.index), declaring


def grouped(faults):
    found = {}
    for where, reason in faults:
        found.setdefault(reason, []).append(where)
    return found


def lines_of(unknown):
    lines = []
    for reason, places in unknown.items():
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        lines.append(f"  {', '.join(places[:3])}{more}: {reason}")
    return lines
