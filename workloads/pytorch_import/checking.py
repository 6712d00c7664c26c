"""Whether the layers of a model file compute what the module computes: outputs, gradients and parameters.

The layers are built here a second time, from the file alone, as harness/model/layer_spec.h describes them. Both run in
training mode from the same weights, which are changed a little for it (a table of zeros would hide what is done with
it), with the same elements dropped, on the example inputs and on the same numbers in another order.
"""
import contextlib

import torch
import torch.nn.functional as F

from .model_state import restored, train
from .modules import one_more
from .recording import Rejection, last_line, repeatable, replay
from .written_out import turned

NEAR = 1e-4  # relative to the largest element: far above the rounding of float32, far below any other function
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu,
               "relu6": F.relu6, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish,
               "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "leaky_relu": lambda x: F.leaky_relu(x, 0.01)}


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attention(q, k, v, heads, causal):
    y = F.scaled_dot_product_attention(heads_of(q, heads), heads_of(k, heads), heads_of(v, heads), is_causal=causal)
    return y.transpose(1, 2).flatten(2)


def self_attention(l, x, w):
    w = list(w)
    linear = lambda x, bias: F.linear(x, w.pop(0), w.pop(0) if l.get(bias, True) else None)
    heads, inner = l["heads"], l.get("inner", l["width"])
    each = inner // heads
    queries = heads // l.get("kv_heads", heads)  # of a key head
    made = linear(x[0], "qkv_bias").split([inner, inner // queries, inner // queries], dim=-1)
    q, k, v = (m.unflatten(-1, (-1, each)).transpose(1, 2) for m in made)
    if l.get("rotary"):
        q, k = turned(q, l["rotary"]), turned(k, l["rotary"])
    k, v = (m.repeat_interleave(queries, 1) for m in (k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=l.get("causal", False))
    return linear(y.transpose(1, 2).flatten(2), "proj_bias")


def cross_attention(l, x, w):
    w = list(w)
    linear = lambda x: F.linear(x, w.pop(0), w.pop(0) if l.get("bias", True) else None)
    q, (k, v) = linear(x[0]), linear(x[1]).chunk(2, dim=-1)
    return linear(attention(q, k, v, l["heads"], False))


def lstm(l, x, w):
    zero = x[0].new_zeros(1, x[0].shape[0], l["hidden"])
    return torch._VF.lstm(x[0], (zero, zero), w, True, 1, 0.0, True, False, True)[0]


def pool(l, x, w):
    x = x[0]
    if l["mode"] == "global_average":
        return x.mean(tuple(range(2, len(x.shape))), keepdim=True)
    function = F.max_pool2d if l["mode"] == "max" else F.avg_pool2d
    return function(x, l["kernel"], l["stride"], l["padding"])


def conv(l, x, w):
    padding = (l["padding"], l["padding_w"] if "kernel_w" in l else l["padding"])
    return F.conv2d(x[0], w[0], w[1] if len(w) > 1 else None, l["stride"], padding, groups=l.get("groups", 1))


def conv_nd(l, x, w):
    function = (F.conv1d, F.conv2d, F.conv3d)[len(l["kernel"]) - 1]
    return function(x[0], w[0], w[1] if len(w) > 1 else None, l.get("stride", 1), l.get("padding", 0),
                    l.get("dilation", 1), l.get("groups", 1))


def dropout(l, x, w):
    return (F.dropout2d if l.get("channels") else F.dropout)(x[0], l["probability"])


KINDS = {  # of a layer of the file, its inputs and its weights
    "Linear": lambda l, x, w: F.linear(x[0], *w),
    "Conv2d": conv,
    "ConvNd": conv_nd,
    "ConvTranspose2d": lambda l, x, w: F.conv_transpose2d(x[0], w[0], w[1] if len(w) > 1 else None, l["stride"],
                                                          l["padding"]),
    "Pool2d": pool,
    "Upsample": lambda l, x, w: F.interpolate(x[0], scale_factor=l["factor"], mode="nearest"),
    "BatchNorm": lambda l, x, w: F.batch_norm(x[0], None, None, *w, training=True, eps=l["epsilon"]),
    "InstanceNorm": lambda l, x, w: F.instance_norm(x[0], eps=l["epsilon"]),
    "GroupNorm": lambda l, x, w: F.group_norm(x[0], l["groups"], *w, eps=l["epsilon"]),
    "LayerNorm": lambda l, x, w: F.layer_norm(x[0], x[0].shape[-1:], *w, eps=l["epsilon"]),
    "RmsNorm": lambda l, x, w: x[0] * torch.rsqrt(x[0].square().mean(-1, keepdim=True) + l["epsilon"]) * w[0],
    "Activation": lambda l, x, w: ACTIVATIONS[l["function"]](x[0]),
    "Dropout": dropout,
    "Embedding": lambda l, x, w: F.embedding(x[0], w[0]),
    "PositionEmbedding": lambda l, x, w: x[0] + w[0][:x[0].shape[1]],
    "PatchEmbedding": lambda l, x, w: F.conv2d(x[0], *w, l["patch"]).flatten(2).transpose(1, 2),
    "ClassToken": lambda l, x, w: torch.cat((w[0].expand(x[0].shape[0], 1, -1), x[0]), 1),
    "Lstm": lstm,
    "Attention": self_attention,
    "CrossAttention": cross_attention,
    "Add": lambda l, x, w: x[0] + x[1],
    "Multiply": lambda l, x, w: x[0] * x[1],
    "Concat": lambda l, x, w: torch.cat(x, l["axis"] + 1),
    "SequencePool": lambda l, x, w: x[0].mean(1) if l["mode"] == "mean" else x[0][:, 0 if l["mode"] == "first" else -1],
    "Permute": lambda l, x, w: x[0].permute(0, *(axis + 1 for axis in l["axes"])),
    "Flatten": lambda l, x, w: x[0].flatten(1),
}


def run_layers(model, weights, inputs, loss, parts=None):
    """Of every layer its output. weights: per layer, its own; loss: of the last layer's input; parts: by the name of a
    Module."""
    made, first = [], {layer["name"]: i for i, layer in enumerate(model["layers"])}
    for layer, own in zip(model["layers"], weights):
        x = [made[i] if i >= 0 else inputs[-1 - i] for i in layer["inputs"]]
        if "tied_to" in layer:
            own = [weights[first[layer["tied_to"]]][0], *own]
        if layer["kind"] == "Module":
            made.append(parts[layer["name"]].run(x, own))
        else:
            made.append(loss(x[0]) if layer["name"] == "loss" else KINDS[layer["kind"]](layer, x, own))
    return made


@contextlib.contextmanager
def changed_weights(parameters):
    """Parameters moved by a tenth of their spread, and given back as they were."""
    generator = torch.Generator().manual_seed(1)
    kept = [p.detach().clone() for p in parameters]
    try:
        with torch.no_grad():
            for p in parameters:
                spread = p.std().item() if p.numel() > 1 and p.is_floating_point() else 0.0
                noise = torch.randn(p.shape, generator=generator).to(p.device, p.dtype)
                p.add_(noise * (0.1 * spread if spread > 0 else 0.3))
        yield
    finally:
        with torch.no_grad():
            for p, before in zip(parameters, kept):
                p.copy_(before)


def other_order(inputs):
    """The same numbers at other places."""
    generator = torch.Generator().manual_seed(2)
    shuffled = []
    for t in inputs:
        order = torch.randperm(t.numel(), generator=generator).to(t.device)
        shuffled.append(t.detach().flatten()[order].view(t.shape))
    return shuffled


def distance(a, b, scale=0.0):
    """The largest difference, relative to the larger of the largest element and `scale`."""
    if a.shape != b.shape:
        return float("inf")
    if a.numel() == 0 or torch.equal(a, b):
        return 0.0
    a, b = a.detach().double(), b.detach().double()
    if not torch.equal(a.isfinite(), b.isfinite()):
        return float("inf")
    largest = max(a.abs().nan_to_num(0, 0, 0).max().item(), b.abs().nan_to_num(0, 0, 0).max().item(), scale, 1e-30)
    return (a - b).abs().nan_to_num(0, 0, 0).max().item() / largest


def gradients_of(parameters, loss):
    """By id of the parameter; what it had as gradient stays. Backward, as in training: a reentrant activation
    checkpoint has no other."""
    kept = [(p, p.grad) for p in parameters]
    try:
        for p, _ in kept:
            p.grad = None
        if loss.requires_grad:
            loss.backward()
        return {id(p): p.grad for p, _ in kept}
    finally:
        for p, gradient in kept:
            p.grad = gradient


def at_sight(recording, declaring, untie):
    """What differs and can be seen without running anything."""
    names = {id(p): n for n, p in recording.model.named_parameters()}
    found, owners = [], {}
    for layer, weights in zip(declaring.layers, declaring.weights):
        for weight in weights:
            for p, rows in weight.pieces:
                if id(p) in names:
                    owners.setdefault((id(p), rows), []).append(layer["name"])
                else:
                    found.append(f"{layer['name']}: a weight is no parameter of the module")
    if not untie:
        found += [f"{names[key[0]]} is one parameter that {' and '.join(layers)} share; the file has one for each "
                  "(--untie accepts that)" for key, layers in owners.items() if len(layers) > 1]
    held = {key[0] for key in owners} | declaring.tied
    for name, p in recording.model.named_parameters():
        if id(p) not in held:
            found.append(f"{name}, {p.numel()} parameters, is in no layer of the file")
        elif p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            found.append(f"{name} has a hook that changes its gradient")
        elif p.dtype != torch.float32:
            found.append(f"{name} is {p.dtype}; Sluice computes in float32")
    found += [f"{name} is changed by the forward itself" for name in recording.rewritten]
    if not any(p.requires_grad for p in recording.model.parameters()):
        found.append("every parameter is frozen (requires_grad=False), so that nothing is trained")
    return found


def compare(recording, model, declaring, inputs, target=None):
    """What differs on these inputs. target: where they are another number of samples than was recorded."""
    named = dict(recording.model.named_parameters())
    with restored(recording.model), repeatable(recording.model):
        train(recording.model)
        loss_of = lambda x: recording.loss(x, recording.target if target is None else target)
        output = recording.first_output(recording.call(inputs), len(inputs[0]))
        if output is None:
            return ["the module gives other outputs for the same numbers in another order"]
        loss = loss_of(output)
        try:
            theirs = gradients_of(named.values(), loss)
        except RuntimeError as e:
            return [f"the module's own backward fails: {last_line(e)}"]
        own = [[w.of(lambda p: p.detach()).clone().requires_grad_("frozen" not in layer) for w in weights]
               for layer, weights in zip(model["layers"], declaring.weights)]
        made = run_layers(model, own, inputs, loss_of, declaring.part_of_layer)
        leaves = [w for weights in own for w in weights if w.requires_grad]
        ours = torch.autograd.grad(made[-1], leaves, allow_unused=True)
        ours = iter([torch.zeros_like(w) if g is None else g for w, g in zip(leaves, ours)])
        found = differences_of_outputs(recording, model, declaring, inputs, made, output, loss)
    if found:
        return found
    sums = {id(p): torch.zeros_like(p) for p in named.values()}
    for layer, weights in zip(model["layers"], declaring.weights):
        for weight in weights if "frozen" not in layer else []:
            weight.add_to(lambda p: sums[id(p)], next(ours))
    scale = max((g.abs().max().item() for g in theirs.values() if g is not None and g.numel()), default=0.0)
    for name, p in named.items():
        gradient = theirs.get(id(p))
        if gradient is None and sums[id(p)].any():
            found.append(f"no gradient reaches {name} in the module (detach, no_grad), and in the file one does")
        elif gradient is not None and (apart := distance(gradient, sums[id(p)], 1e-2 * scale)) > 10 * NEAR:
            found.append(f"the gradient of {name} differs by {apart:.2g} of its largest element")
    return found


def differences_of_outputs(recording, model, declaring, inputs, made, output, loss):
    theirs = {}
    if len(inputs[0]) == recording.inputs[0].shape[0]:
        with torch.no_grad():
            theirs = replay(recording.operations, dict(zip(recording.inputs, inputs)))
    for layer, value, ours in zip(model["layers"], declaring.values, made):
        if value is None or value not in theirs:
            continue
        ours = ours.flatten(0, 1) if declaring.has_rows(value) and ours.dim() == 3 else ours
        if distance(theirs[value], ours) > NEAR:
            declaring.differing = [value.maker]
            return [f"{layer['name']}: its output differs from that of {layer['kind']} by "
                    f"{distance(theirs[value], ours):.2g} of its largest element"]
    ours = made[model["layers"][-1]["inputs"][0]]
    if distance(output, ours) > NEAR or distance(loss, made[-1]) > NEAR:
        return [f"the module's output differs by {distance(output, ours):.2g} of its largest element from that of the "
                "layers it ran on the example inputs: it decides by the values of its inputs, or something changes its "
                "output"]
    return []


def check(recording, model, declaring, untie=False):
    """Throws Rejection naming what differs between the module and the layers of the file."""
    if recording.inputs[0].tensor.device.type == "meta":
        raise Rejection("a model on the meta device has no weights, so that its layers cannot be checked; give "
                        "--layers a small model on the CPU")
    found = at_sight(recording, declaring, untie)
    if not found:
        inputs = [v.tensor.detach() for v in recording.inputs]
        with changed_weights(list(recording.model.parameters())):
            found = compare(recording, model, declaring, inputs)
            if not found:
                try:
                    found = compare(recording, model, declaring, other_order(inputs))
                except Exception:  # the model does not take such inputs
                    found = []
            if not found and declaring.part_of_layer:
                found = [f"with a sample more: {line}" for line in compare(
                    recording, model, declaring, one_more(inputs), one_more([recording.target])[0])]
    count = sum(p.numel() for p in recording.model.parameters())
    held = sum(w.of(lambda p: p).numel() for weights in declaring.weights for w in weights)
    if not found and held + declaring.left_out != count and not untie:
        found = [f"the file has {held} parameters, the module {count}"]
    if found:
        more = [f"  and {len(found) - 8} more"] if len(found) > 8 else []
        raise Rejection("\n".join(["the layers of the file do not compute what the module computes:",
                                   *(f"  {line}" for line in found[:8]), *more]), declaring.differing)
