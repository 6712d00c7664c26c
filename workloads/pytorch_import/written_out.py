"""Layers that a model writes out in operations: attention, RMS norms, GELUs, embeddings of patches and class tokens.

They are found by a few operations that they cannot do without, and are then compared, as numbers, with what the layer
would have made of the same tensors. How a model cuts heads, turns them by their positions or repeats keys does not
matter for that.
"""
import dataclasses
import functools
import math

import torch

from .costs import VIEWS
from .recording import Rejection, Value, plain, untouched

NEAR = 1e-4  # relative to the largest element
CASTS = {"to", "float", "type", "type_as", "contiguous"}
LINEAR_TO_QUERY = {name.strip("_") for name in VIEWS} | CASTS | {  # heads, rotary positions, repeated keys
    "unbind", "mul", "add", "sub", "neg", "cat", "stack", "repeat_interleave", "clone"}
ATTENTION = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
GELUS = {"tanh": "gelu_tanh", "erf": "gelu"}
IN_GELUS = {"add", "radd", "mul", "rmul", "div", "pow", *GELUS}


@dataclasses.dataclass
class Found:
    """A layer that stands for operations; the last of them makes its result."""
    name: str
    kind: str
    reads: list  # of Values
    result: Value
    weights: list  # per weight of the layer: the tensors whose rows it consists of, and its shape (None: of the rows)
    fields: dict
    transposed: bool = False  # the tensors are [in, out]


@dataclasses.dataclass
class LinearCall:
    """An operation that is a linear layer with weights of its own."""
    operation: object
    reads: Value
    weight: Value
    bias: Value | None
    transposed: bool  # the weight is [in, out]

    def result(self):
        return self.operation.outputs[0]

    def outputs(self):
        return self.weight.shape[1 if self.transposed else 0]


def function_name(o):
    return o.name.strip("_")


def near(a, b):
    return a.shape == b.shape and bool((a - b).abs().max() <= NEAR * b.abs().max())


def linear_of(v):
    """The LinearCall that makes `v`, or None."""
    o = v.maker
    given = o.inputs() if o is not None else []
    if len(given) in (2, 3) and o.name == "linear":
        reads, weight, bias = (*given, None)[:3]
    elif len(given) == 3 and o.name == "addmm" and not o.kwargs and len(given[0].shape) == 1:
        bias, reads, weight = given
    else:
        return None
    known = all(w is None or w.kind == "parameter" for w in (weight, bias))
    return LinearCall(o, reads, weight, bias, o.name == "addmm") if known else None


def linear_behind(value, depends_on_input):
    """The one LinearCall from whose result a tensor of an attention is made."""
    made = [linear_of(v) for v in behind(value, lambda v, name: linear_of(v) is None and name in LINEAR_TO_QUERY,
                                         depends_on_input)[0]]
    plain(len(made) == 1 and made[0] is not None,
          "attention whose query, key and value are not made of linear layers by views and rotary positions alone")
    return made[0]


def behind(value, passes, depends_on_input):
    """Of what depends on the inputs: the Values that `value` is made of by operations that pass (Value that is made,
    name of the operation), and these operations."""
    roots, operations, waiting, seen = [], [], [value], set()
    while waiting:
        v = waiting.pop()
        if v in seen or not depends_on_input(v):
            continue
        seen.add(v)
        o = v.maker
        if o is not None and o.leaf is None and passes(v, function_name(o)):
            operations.append(o)
            waiting += o.inputs()
        else:
            roots.append(v)
    return roots, operations


def turned(x, base):
    """By rotary positions: of [..., positions, width], the pair (i, i + width / 2) at t by t base^(-2i / width)."""
    half = x.shape[-1] // 2
    positions, pairs = (torch.arange(n, device=x.device) for n in (x.shape[-2], half))
    angles = positions.unsqueeze(1) * base ** (-pairs / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def rotary_base(before, after):
    """The base of rotary positions, from what they made of `before`; None: they are of another form."""
    half = before.shape[-1] // 2
    if half < 2 or before.shape[-1] % 2 or before.shape[-2] < 2:
        return None
    first, then = (torch.complex(x[..., 1, :half].double(), x[..., 1, half:].double()) for x in (before, after))
    angles = (first.conj() * then).reshape(-1, half).sum(0).angle()  # at position 1: base^(-i / half)
    i = 1 + int((angles[1:] - 0.1).abs().argmin())  # neither near 1, where the base hardly shows, nor lost in rounding
    if not 0 < angles[i] < 1:
        return None
    base = float(angles[i]) ** (-half / i)
    rounded = float(f"{base:.3g}")
    return rounded if abs(rounded - base) < 1e-3 * base else base


def causal(mask):
    """Whether a mask lets no position look at later ones; one of another form is rejected."""
    other = "attention with a mask that is neither causal nor of nothing"
    plain(mask.dim() > 1 and mask.shape[-2] in (1, mask.shape[-1]) and not mask.requires_grad, other)
    allowed = mask if mask.dtype == torch.bool else mask > -1e4
    plain(mask.dtype == torch.bool or not mask[allowed].any(), other)  # what is added to a score is a bias
    allowed = allowed.expand(*allowed.shape[:-2], allowed.shape[-1], allowed.shape[-1])
    for causes in (False, True):
        expected = torch.ones_like(allowed)
        if torch.equal(allowed, expected.tril() if causes else expected):
            return causes
    raise Rejection(other)


class WrittenOut:
    """What is found in a recording: by the id of an operation, what it makes, or None: a part of what another makes.
    unknown(operation, why) is called for an attention that is no layer."""

    def __init__(self, operations, depends_on_input, name_of, unknown):
        self.operations, self.depends_on_input, self.name_of = operations, depends_on_input, name_of
        self.found, self.notes, self.readers = {}, [], {}
        for o in operations:
            for v in o.inputs():
                self.readers.setdefault(v, []).append(o)
        for o in operations:
            if o.name == "conv2d":
                self.patches(o)
            elif o.leaf is not None:
                continue
            elif o.name == "scaled_dot_product_attention":
                try:
                    self.attention(o)
                except Rejection as e:
                    unknown(o, e)
            elif function_name(o) in ("mul", "rmul"):
                self.rms_norm(o)
            elif o.name in GELUS:
                self.gelu(o)
            elif hasattr(o.function, "with_own_backward"):
                self.function_of_its_own(o)
            elif o.name in ("cat", "concat", "concatenate"):
                self.class_token(o)

    def attention(self, o):
        given = {"is_causal": False, **dict(zip(ATTENTION, o.args)), **o.kwargs}
        query, key, value = (given[name] for name in ATTENTION[:3])
        plain(len(query.shape) == 4 and query.tensor.device.type != "meta", "attention of another form")
        if given.get("dropout_p"):
            self.notes.append("dropout inside attention is left out")
        mask = given.get("attn_mask")
        plain(mask is None or not self.depends_on_input(mask), "attention with a mask that depends on the inputs")
        is_causal = bool(given["is_causal"]) or mask is not None and causal(mask.tensor)
        first = [linear_behind(v, self.depends_on_input) for v in (query, key, value)]
        parts = list({id(p.operation): p for p in first}.values())  # in the order of their weights in the layer
        x, memory, of_values = (self.sequences(p.reads) for p in first)
        plain(memory is of_values and (x is memory or len(parts) > 1 and first[0].operation is not first[1].operation),
              "attention to several sequences")
        plain(len(parts) != 2 or first[1].operation is first[2].operation,
              "attention whose query shares a linear layer with its key or its value")
        result = next(v for v in o.outputs if v is not None)
        last = self.linear_after(result)
        scale = given.get("scale")
        scaled = 1 if scale is None else 1 / (scale * math.sqrt(query.shape[3]))  # the query, for 1 / sqrt(width)
        fields = {"width": x.shape[-1], "heads": query.shape[1]}
        of_heads = self.heads_of(parts, query, key, value, scaled)
        before = self.sequences(last.reads)
        plain(near(before.tensor.detach(), result.tensor.detach().transpose(1, 2).flatten(2)),
              "attention whose heads are not put side by side")
        biases = [p.bias is not None for p in parts]
        plain(len(set(biases)) == 1, "attention with a bias for some of query, key and value")
        plain(len({p.transposed for p in (*parts, last)}) == 1, "attention with some weights transposed")
        if x is memory:
            plain(len(parts) != 2, "attention whose key and value share a linear layer")
            kind, reads, groups = "Attention", [x], [parts]
            fields.update({"causal": is_causal, **of_heads}, **{} if biases[0] else {"qkv_bias": False},
                          **{} if last.bias is not None else {"proj_bias": False})
        else:
            plain(not is_causal and not of_heads.keys() - {"inner"},
                  "attention to another sequence that is causal, has rotary positions or shares keys")
            plain(biases[0] == (last.bias is not None), "attention with a bias for some of its linear layers")
            kind, reads, groups = "CrossAttention", [x, memory], [parts[:1], parts[1:]]
            fields.update({"memory": memory.shape[-1], **of_heads}, **{} if biases[0] else {"bias": False})
        plain(last.outputs() == fields["width"], "attention of a width other than its linear layers'")
        weights = []
        for group in (*groups, [last]):
            weights.append(([p.weight.tensor for p in group], None))
            if group[0].bias is not None:
                weights.append(([p.bias.tensor for p in group], None))
        for p in (*parts, last):
            if p.operation.leaf is not None:
                untouched(p.operation.leaf.module)
        for p in parts:
            for inner in self.between(p.operation, last.operation):
                self.found[id(inner)] = None
        self.found[id(last.operation)] = Found(self.name_of(last.operation), kind, reads, last.result(), weights,
                                               fields, last.transposed)

    def sequences(self, v):
        """The sequences of whose steps `v` has the rows; `v` itself, if it is none of rows."""
        while len(v.shape) == 2 and v.maker is not None and function_name(v.maker) in LINEAR_TO_QUERY and len(
                v.maker.inputs()) == 1:
            v = v.maker.inputs()[0]
        return v

    def linear_after(self, result):
        while self.readers.get(result) and function_name(self.readers[result][0]) in LINEAR_TO_QUERY:
            result = self.readers[result][0].outputs[0]
        last = self.readers[result][0] if self.readers.get(result) else None
        last = linear_of(last.outputs[0]) if last is not None and last.outputs[0] is not None else None
        plain(last is not None and last.reads is result, "attention that no linear layer reads")
        return last

    def heads_of(self, parts, query, key, value, scaled):
        """The fields that say how query, key and value were made of the linear layers' results. scaled: how much the
        query has to be larger than it is in the layer."""
        heads, width = query.shape[1], query.shape[3]
        made = [p.result().tensor.detach().reshape(*self.sequences(p.reads).shape[:2], -1) for p in parts]
        if len(made) < 3:  # the last of them has keys and values, the only one queries, too
            rest = made[-1].shape[-1] - (heads * width if len(made) == 1 else 0)
            plain(rest > 0 and rest % (2 * width) == 0, "attention of a width other than its linear layers'")
            made[-1:] = made[-1].split([heads * width, rest // 2, rest // 2][-(4 - len(made)):], -1)
        plain(all(m.shape[-1] % width == 0 for m in made), "attention of another form")
        q, k, v = (m.unflatten(-1, (-1, width)).transpose(1, 2) for m in made)
        q_read, k_read, v_read = (x.tensor.detach() for x in (query, key, value))
        kv_heads = k.shape[1]
        plain(heads % kv_heads == 0 and q.shape == q_read.shape, "attention of a width other than its linear layers'")
        if k_read.shape[1] == heads:
            k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
        rotary = 0
        if not near(q_read, q * scaled):
            plain(not near(q_read, q), "attention with a scale other than 1 / sqrt(width of a head)")
            rotary = rotary_base(q, q_read)
            plain(rotary is not None, "attention with positions of another form than rotary ones")
            q, k = turned(q, rotary), turned(k, rotary)
        plain(near(q_read, q * scaled) and near(k_read, k) and near(v_read, v),
              "attention whose heads are not cut as query, key and value, or with positions of another form")
        fields = {"rotary": rotary} if rotary else {}
        if heads * width != self.sequences(parts[0].reads).shape[-1]:
            fields["inner"] = heads * width
        return {**fields, "kv_heads": kv_heads} if kv_heads != heads else fields

    def gelu(self, o):
        """x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) or x / 2 (1 + erf(x / sqrt(2)))."""
        made, form = o.outputs[0], {"approximate": "tanh"} if o.name == "tanh" else {}
        if made.tensor.device.type == "meta":
            return
        in_gelu = lambda v, name: name in IN_GELUS
        read = [v for operation in behind(made, in_gelu, self.depends_on_input)[1] for v in operation.inputs()]
        for _ in range(3):  # + 1, times x, halved; in some order
            readers = self.readers.get(made, [])
            if len(readers) != 1 or readers[0].leaf is not None or function_name(readers[0]) not in IN_GELUS:
                return
            made = readers[0].outputs[0]
            for x in read:
                if not near(made.tensor.detach(), torch.nn.functional.gelu(x.tensor.detach(), **form)):
                    continue
                from_x = lambda v, name, x=x: v is not x and name in IN_GELUS
                for operation in behind(made, from_x, self.depends_on_input)[1]:
                    self.found[id(operation)] = None
                self.found[id(made.maker)] = Found(self.name_of(o), "Activation", [x], made, [],
                                                   {"function": GELUS[o.name]})
                return

    def function_of_its_own(self, o):
        """A torch.autograd.Function that computes a GELU."""
        x, made = o.inputs()[0], o.outputs[0]
        if len(o.inputs()) != 1 or len(o.outputs) != 1 or made.tensor.device.type == "meta":
            return
        for form, name in (({"approximate": "tanh"}, "gelu_tanh"), ({}, "gelu")):
            gelu = functools.partial(torch.nn.functional.gelu, **form)
            if near(made.tensor.detach(), gelu(x.tensor.detach())):
                o.in_torchscript = gelu
                self.found[id(o)] = Found(self.name_of(o), "Activation", [x], made, [], {"function": name})
                return

    def rms_norm(self, o):
        """weight x / sqrt(mean(x^2) + epsilon), where `o` is the product with the weight."""
        weights = [v for v in o.inputs() if v.kind == "parameter" and len(v.shape) == 1]
        rest = [v for v in o.inputs() if v not in weights]
        if len(weights) != 1 or len(rest) != 1 or weights[0].tensor.device.type == "meta":
            return
        inner = [o]

        def maker(v, *names):
            while v.maker is not None and function_name(v.maker) in CASTS:
                inner.append(v.maker)
                v = v.maker.inputs()[0]
            known = v.maker is not None and function_name(v.maker) in names
            inner.append(v.maker)
            return v.maker if known else None

        def before_casts(v):
            while v.maker is not None and function_name(v.maker) in CASTS:
                v = v.maker.inputs()[0]
            return v

        product = maker(rest[0], "mul", "rmul")
        if product is None or len(product.inputs()) != 2:
            return
        root = next((v for v in product.inputs() if v.maker is not None and function_name(v.maker) == "rsqrt"), None)
        if root is None:
            return
        x = before_casts(next(v for v in product.inputs() if v is not root))
        mean = maker(maker(root, "rsqrt").inputs()[0], "add", "radd")
        if mean is None or len(mean.inputs()) != 1:
            return
        epsilon = next((a for a in (*mean.args, *mean.kwargs.values()) if isinstance(a, float)), None)
        square = maker(mean.inputs()[0], "mean")
        square = square and maker(square.inputs()[0], "pow", "square", "mul")
        if epsilon is None or square is None or any(before_casts(v) is not x for v in square.inputs()):
            return
        data, weight = x.tensor.detach(), weights[0].tensor.detach()
        result = o.outputs[0]
        if not near(result.tensor.detach(),
                    data * torch.rsqrt(data.square().mean(-1, keepdim=True) + epsilon) * weight):
            return
        for operation in inner:
            self.found[id(operation)] = None
        self.found[id(o)] = Found(self.name_of(o), "RmsNorm", [x], result, [([weights[0].tensor], None)],
                                  {"features": weight.shape[0], "epsilon": epsilon})

    def patches(self, o):
        """A convolution of patches that do not overlap, and views that make a sequence of them, row after row."""
        given = o.inputs()
        if len(given) != 3 or given[0].tensor.device.type == "meta" or any(v.kind != "parameter" for v in given[1:]):
            return
        kernel, image = given[1].shape, given[0].shape
        if len(image) != 4 or kernel[1] != image[1] or kernel[2] != kernel[3] or any(
                size % kernel[2] for size in image[2:]):
            return
        expected, views, made = o.outputs[0].tensor.detach().flatten(2).transpose(1, 2), [o], o.outputs[0]
        while made.shape != expected.shape:
            readers = self.readers.get(made, [])
            if len(readers) != 1 or function_name(readers[0]) not in LINEAR_TO_QUERY or readers[0].leaf is not None:
                return
            views.append(readers[0])
            made = readers[0].outputs[0]
        patch = kernel[2]
        of_patches = torch.nn.functional.conv2d(given[0].tensor, given[1].tensor, given[2].tensor, patch).detach()
        if len(views) == 1 or not torch.equal(made.tensor.detach(), expected) or not near(
                expected, of_patches.flatten(2).transpose(1, 2)):
            return
        if o.leaf is not None:
            try:
                untouched(o.leaf.module)
            except Rejection:
                return
        for operation in views:
            self.found[id(operation)] = None
        self.found[id(views[-1])] = Found(
            self.name_of(o), "PatchEmbedding", [given[0]], made, [([v.tensor], None) for v in given[1:]],
            {"channels": kernel[1], "patch": patch, "width": kernel[0]})

    def class_token(self, o):
        """One vector, the same for every sample, before a sequence."""
        given = o.inputs()
        axis = o.kwargs.get("dim", o.args[1] if len(o.args) > 1 else 0)
        if len(given) != 2 or axis not in (1, -2) or len(given[0].shape) != 3 or given[0].shape[1] != 1 or [
                self.depends_on_input(v) for v in given] != [False, True]:
            return
        token = given[0]
        while token.maker is not None and function_name(token.maker) in LINEAR_TO_QUERY and len(
                token.maker.inputs()) == 1:
            token = token.maker.inputs()[0]
        width = given[0].shape[2]
        if token.kind != "parameter" or math.prod(token.shape) != width or token.tensor.device.type == "meta":
            return
        if torch.equal(given[0].tensor.detach(), token.tensor.detach().reshape(1, 1, width).expand(given[0].shape)):
            self.found[id(o)] = Found(self.name_of(o), "ClassToken", [given[1]], o.outputs[0],
                                      [([token.tensor], (width,))], {"width": width})

    def between(self, first, last):
        """The operations from `first` to `last` that lead from one to the other."""
        leading, waiting = set(), [last]  # ids of those that lead to `last`
        while waiting:
            o = waiting.pop()
            if id(o) not in leading:
                leading.add(id(o))
                waiting += [v.maker for v in o.inputs() if v.maker is not None and o is not first]
        inner, reached = [], set()
        for o in self.operations:
            if o is first or id(o) in leading and any(v in reached for v in o.inputs()):
                inner.append(o)
                reached.update(o.outputs)
        return inner
