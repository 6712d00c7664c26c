"""What modules of torch.nn, of one input, are as layers: the kind and the fields of a layer of sluice/model/1."""
import math

import torch
from torch import nn

from .recording import Rejection, plain


def pair_of(size):
    return tuple(size) if isinstance(size, (tuple, list)) else (size, size)


def square(size, what):
    """The one number of a pair of equal ones."""
    pair = pair_of(size)
    if pair[0] != pair[1]:
        raise Rejection(f"{what} {pair} is not the same along height and width")
    return pair[0]


def embedding(m):
    plain(m.padding_idx is None and m.max_norm is None and not m.scale_grad_by_freq and not m.sparse,
          "an embedding with padding_idx, max_norm, scale_grad_by_freq or sparse gradients")
    return "Embedding", {"vocabulary": m.num_embeddings, "width": m.embedding_dim}


def conv_nd(m):
    plain(m.padding_mode == "zeros" and not isinstance(m.padding, str), "a padding that is no number of zeros")
    fields = {"in": m.in_channels, "out": m.out_channels, "kernel": list(m.kernel_size), "bias": m.bias is not None}
    for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1)):
        if any(n != usual for n in getattr(m, name)):
            fields[name] = list(getattr(m, name))
    if m.groups != 1:
        fields["groups"] = m.groups
    return "ConvNd", fields


def conv2d(m):
    if m.dilation != (1, 1) or m.stride[0] != m.stride[1]:
        return conv_nd(m)
    plain(m.padding_mode == "zeros" and not isinstance(m.padding, str), "a padding that is no number of zeros")
    fields = {"in": m.in_channels, "out": m.out_channels, "kernel": m.kernel_size[0], "padding": m.padding[0],
              "stride": m.stride[0], "bias": m.bias is not None}
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
    plain(not getattr(m, "return_indices", False), "a pool that returns the places of its maxima")
    plain(not getattr(m, "divisor_override", None), "an average with divisor_override")
    plain(mode == "max" or m.count_include_pad or square(m.padding, "padding") == 0, "an average without its padding")
    return "Pool2d", {"mode": mode, "kernel": square(m.kernel_size, "kernel"), "stride": square(m.stride, "stride"),
                      "padding": square(m.padding, "padding")}


def batch_norm(m):
    plain(m.affine and m.track_running_stats and m.momentum is not None, "a batch norm without weights or statistics")
    return "BatchNorm", {"features": m.num_features, "momentum": m.momentum, "epsilon": m.eps}


def instance_norm(m):
    plain(not m.affine and not m.track_running_stats, "an instance norm with weights or running statistics")
    return "InstanceNorm", {"features": m.num_features, "epsilon": m.eps}


def group_norm(m):
    plain(m.affine, "a group norm without weights")
    return "GroupNorm", {"features": m.num_channels, "groups": m.num_groups, "epsilon": m.eps}


def leaky_relu(m):
    plain(m.negative_slope == 0.01, f"a leaky ReLU of slope {m.negative_slope}; Sluice's is 0.01")
    return "Activation", {"function": "leaky_relu"}


def upsample(m):
    factor = square(m.scale_factor, "scale_factor") if m.scale_factor is not None else 0
    plain(m.mode == "nearest" and factor > 0 and float(factor).is_integer(),
          "an upsampling that is not by a whole factor to nearest neighbours")
    return "Upsample", {"factor": int(factor)}


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


def adaptive_average(size, shape):
    """A pool whose windows are all alike; shape: of what it reads."""
    if math.prod(size if isinstance(size, (tuple, list)) else (size or 0,)) == 1:
        return "Pool2d", {"mode": "global_average"}
    plain(len(shape) == 4, f"an adaptive average of {list(shape[2:])} to more than one element")
    across = [own if n is None else n for n, own in zip(pair_of(size), shape[-2:])]
    plain(all(n > 0 and own % n == 0 for n, own in zip(across, shape[-2:])),
          f"an adaptive average from {list(shape[-2:])} to {across} elements, whose windows differ")
    kernel = square([own // n for n, own in zip(across, shape[-2:])], "its window")
    return "Pool2d", {"mode": "average", "kernel": kernel, "stride": kernel, "padding": 0}


MODULES = {  # of one input; a module's class itself, not one derived from it
    nn.Linear: lambda m: ("Linear", {"in": m.in_features, "out": m.out_features, "bias": m.bias is not None}),
    nn.Conv1d: conv_nd,
    nn.Conv2d: conv2d,
    nn.Conv3d: conv_nd,
    nn.ConvTranspose2d: conv_transpose2d,
    nn.MaxPool2d: lambda m: pool2d(m, "max"),
    nn.AvgPool2d: lambda m: pool2d(m, "average"),
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    nn.BatchNorm3d: batch_norm,
    nn.InstanceNorm2d: instance_norm,
    nn.GroupNorm: group_norm,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.Upsample: upsample,
    nn.LeakyReLU: leaky_relu,
    **{kind: lambda m, name=kind.__name__.lower(): ("Activation", {"function": name})
       for kind in (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.SiLU, nn.ReLU6, nn.Hardsigmoid, nn.Hardswish)},
    nn.GELU: lambda m: gelu(m.approximate),
    nn.Embedding: embedding,
    nn.LSTM: lstm,
}
