"""Layers that a model writes out in operations: self-attention, RMS norms, embeddings of patches and class tokens.

They are found by a few operations that they cannot do without, and are then compared, as numbers, with what the layer
would have made of the same tensors. How a model cuts heads, turns them by their positions or repeats keys does not
matter for that.
"""
import dataclasses
import math

import torch

from .costs import VIEWS
from .recording import Rejection, Value, plain, untouched

NEAR = 1e-4  # relative to the largest element
CASTS = {"to", "float", "type", "type_as", "contiguous"}
LINEAR_TO_QUERY = {name.strip("_") for name in VIEWS} | CASTS | {  # heads, rotary positions, repeated keys
    "unbind", "mul", "add", "sub", "neg", "cat", "stack", "repeat_interleave", "clone"}
ATTENTION = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


@dataclasses.dataclass
class Found:
    """A layer that stands for operations; the last of them makes its result."""
    name: str
    kind: str
    reads: Value
    result: Value
    weights: list  # per weight of the layer: the tensors whose rows it consists of, and its shape (None: of the rows)
    fields: dict


def function_name(o):
    return o.name.strip("_")


def near(a, b):
    return a.shape == b.shape and bool((a - b).abs().max() <= NEAR * b.abs().max())


def linear_of(v):
    """The operation of a linear layer with weights of its own that makes `v`, or None."""
    o = v.maker
    known = o is not None and o.name == "linear" and len(o.inputs()) >= 2
    return o if known and all(w.kind == "parameter" for w in o.inputs()[1:]) else None


def linear_behind(value, depends_on_input):
    """The one linear layer from whose result a tensor of an attention is made."""
    roots, waiting, seen = [], [value], set()
    while waiting:
        v = waiting.pop()
        if id(v) in seen or not depends_on_input(v):
            continue
        seen.add(id(v))
        o = v.maker
        if linear_of(v) is None and o is not None and o.leaf is None and function_name(o) in LINEAR_TO_QUERY:
            waiting += o.inputs()
        else:
            roots.append(linear_of(v))
    plain(len(roots) == 1 and roots[0] is not None,
          "attention whose query, key and value are not made of linear layers by views and rotary positions alone")
    return roots[0]


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
        plain(len({id(p.inputs()[0]) for p in first}) == 1, "attention to another sequence")
        together = first[0] is first[1] is first[2]
        plain(together or len(set(map(id, first))) == 3, "attention whose query, key and value share a linear layer")
        result = next(v for v in o.outputs if v is not None)
        last = self.linear_after(result)
        scale = given.get("scale")
        scaled = 1 if scale is None else 1 / (scale * math.sqrt(query.shape[3]))  # the query, for 1 / sqrt(width)
        fields = {"width": first[0].inputs()[0].shape[-1], "heads": query.shape[1], "causal": is_causal}
        fields.update(self.heads_of(first, together, query, key, value, scaled))
        x = last.inputs()[0]
        plain(near(x.tensor.detach(), result.tensor.detach().transpose(1, 2).flatten(2)),
              "attention whose heads are not put side by side")
        parts = first[:1] if together else first
        biases = [len(p.inputs()) > 2 for p in parts]
        plain(len(set(biases)) == 1, "attention with a bias for some of query, key and value")
        weights = [([p.inputs()[1].tensor for p in parts], None)]
        if biases[0]:
            weights.append(([p.inputs()[2].tensor for p in parts], None))
        weights += [([w.tensor], None) for w in last.inputs()[1:]]
        fields.update({} if biases[0] else {"qkv_bias": False}, **{} if len(last.inputs()) > 2 else
                      {"proj_bias": False})
        plain(last.inputs()[1].shape[0] == fields["width"], "attention of a width other than its linear layers'")
        for p in [*parts, last]:
            if p.leaf is not None:
                untouched(p.leaf.module)
        for p in parts:
            for inner in self.between(p, last):
                self.found[id(inner)] = None
        self.found[id(last)] = Found(self.name_of(last), "Attention", first[0].inputs()[0], last.outputs[0], weights,
                                     fields)

    def linear_after(self, result):
        while self.readers.get(result) and function_name(self.readers[result][0]) in LINEAR_TO_QUERY:
            result = self.readers[result][0].outputs[0]
        last = self.readers[result][0] if self.readers.get(result) else None
        plain(last is not None and linear_of(last.outputs[0]) is last, "attention that no linear layer reads")
        return last

    def heads_of(self, first, together, query, key, value, scaled):
        """The fields that say how query, key and value were made of the linear layers' results. scaled: how much the
        query has to be larger than it is in the layer."""
        heads, width = query.shape[1], query.shape[3]
        made = [p.outputs[0].tensor.detach() for p in first]
        if together:
            rest = made[0].shape[-1] - heads * width
            plain(rest > 0 and rest % (2 * width) == 0, "attention of a width other than its linear layers'")
            made = made[0].split([heads * width, rest // 2, rest // 2], -1)
        plain(all(m.dim() == 3 and m.shape[-1] % width == 0 for m in made), "attention of another form")
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
        if heads * width != first[0].inputs()[0].shape[-1]:
            fields["inner"] = heads * width
        return {**fields, "kv_heads": kv_heads} if kv_heads != heads else fields

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
        self.found[id(o)] = Found(self.name_of(o), "RmsNorm", x, result, [([weights[0].tensor], None)],
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
            self.name_of(o), "PatchEmbedding", given[0], made, [([v.tensor], None) for v in given[1:]],
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
            self.found[id(o)] = Found(self.name_of(o), "ClassToken", given[1], o.outputs[0],
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
