#!/usr/bin/env python3
"""Turns a PyTorch module into files for Sluice: measured costs of its layers, and the layers themselves.

    workloads/import_pytorch.py net.py:make --costs net.costs.json --layers net.json --loss cross_entropy

net.py is any Python file with a function (here `make`) that returns a torch.nn.Module and its example inputs: a tensor,
a tuple of tensors or a dict of keyword arguments, each with the micro-batch first; or the module, a tuple and a dict.
This needs torch, the folder pytorch_import/ next to it, and nothing else.

--costs writes sluice/cost_graph/1: per layer the seconds of forward, input gradient and weight gradient, and the bytes
of parameters, output and stash, with every branch and skip. Any module will do: one forward runs in eager mode and
every operation on tensors is recorded, whatever Python decides in between. Activation checkpoints, frozen parameters,
autocast (--autocast, or in the model) and functions with a backward of their own are measured as they train. `sluice
plan`, `advise` and `run --clock virtual` take the file as --workload. A model on the meta device is not run: its
seconds follow from FLOP and bytes (--peak, --bandwidth).

--layers writes sluice/model/1, which also trains for real. Parts for which Sluice has no layer become layers of kind
Module: TorchScript with the part's weights, a file each in the folder FILE.modules (net.modules for net.json), which
belongs to the model file. They start from the module's weights, all other layers from new ones. --no-modules rejects
such parts instead. Parts that are in eval() while the model trains stay there. The layers are built from the file and
compared with the module: output, gradient of every parameter, and their number. What differs is named, and nothing is
written. A linear layer or embedding with the weight of an earlier one is marked (tied_to), unless --untie is given; a
layer whose parameters are frozen is marked (frozen).

A layer is a call of the first module on the way down that is no nn.Sequential (nor nn.Transformer); --depth 2 goes one
module further down, and so on, --depth 0 to the bottom. Its name is the module's; what runs in it later, after another
layer, is a layer NAME#2 of its own. Layers that do the same work on the same shapes share the median of all their
measurements.

Exit codes: 0 done; 2 bad usage, or a model that cannot be imported. --costs is written also where --layers fails.
"""
import argparse
import importlib.util
import json
import os
import sys
import traceback

import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pytorch_import.checking import check  # noqa: E402
from pytorch_import.costs import Device, add_loss, cost_graph  # noqa: E402
from pytorch_import.layers import declared  # noqa: E402
from pytorch_import.recording import Rejection, last_line, record  # noqa: E402


def load(where):
    """The module, its example inputs, and those that it takes by name."""
    file, _, function = where.rpartition(":")
    if not file:
        raise Rejection(f"'{where}' names no function; write FILE.py:FUNCTION")
    if not os.path.isfile(file):
        raise Rejection(f"{file}: no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("sluice_imported", file)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        if not callable(getattr(module, function, None)):
            raise Rejection(f"{file} has no function '{function}'")
        made = getattr(module, function)()
    except Rejection:
        raise
    except Exception as e:
        line = next((f.lineno for f in reversed(traceback.extract_tb(e.__traceback__)) if f.filename == spec.origin), 0)
        raise Rejection(f"{file}:{line}: {last_line(e)}") from e
    return examples(where, made)


def examples(where, made):
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[0], nn.Module) or \
            len(made) == 3 and not isinstance(made[2], dict):
        raise Rejection(f"{where} must return (module, inputs) or (module, inputs, keyword inputs)")
    inputs, keywords = made[1], made[2] if len(made) == 3 else {}
    return (made[0], (), inputs) if isinstance(inputs, dict) else (made[0], inputs, keywords)


def write(path, value):
    with open(path, "w") as out:
        json.dump(value, out, indent=1)
        out.write("\n")


def layers_of(recording, name, untie=False, folder=None):
    """sluice/model/1, notes, and the contents of the files of Modules (folder: theirs; None: no Modules). Throws
    Rejection, naming what Sluice does not know or what differs from the module."""
    if recording.reads_of_reals:
        raise Rejection(f"{', '.join(recording.reads_of_reals)}: the forward reads numbers that follow from its inputs "
                        "or parameters, so that it decides by the values of its inputs what it computes; use "
                        "torch.where, or leave the branch out")
    differing = []
    while True:
        model, notes, declaring = declared(recording, name, untie, folder, differing)
        try:
            check(recording, model, declaring, untie)
            break
        except Rejection as e:
            if folder is None or not e.operations or set(e.operations) <= set(differing):
                raise
            differing += e.operations
    modules = declaring.part_of_layer
    return model, notes, {l["file"]: modules[l["name"]].file for l in model["layers"] if l["name"] in modules}


def write_modules(folder, files):
    for path, content in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="FILE.py:FUNCTION", help="returns the module and its example inputs")
    parser.add_argument("--costs", metavar="FILE", help="measure, and write sluice/cost_graph/1")
    parser.add_argument("--layers", metavar="FILE", help="write sluice/model/1, where every layer is known")
    parser.add_argument("--untie", action="store_true",
                        help="in --layers, a weight that several layers share becomes several: for "
                             "asynchronous pipelines")
    parser.add_argument("--no-modules", action="store_true",
                        help="in --layers, reject parts without a layer in Sluice instead of writing them as "
                             "TorchScript")
    parser.add_argument("--loss", choices=["cross_entropy", "mse", "none"], default="cross_entropy",
                        help="of the first output, as the last layer (default: cross_entropy)")
    parser.add_argument("--depth", type=int, default=1, help="modules on the way down to a layer; 0: all (default: 1)")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of a layer at least (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="that compute, as a rank of Sluice does (default: 1)")
    parser.add_argument("--autocast", choices=["bfloat16", "float16"], help="run under torch.autocast of this dtype")
    parser.add_argument("--peak", type=float, default=15.7e12,
                        help="of a model on the meta device: FLOP/s that seconds are computed for (default: a V100's)")
    parser.add_argument("--bandwidth", type=float, default=900e9, help="the same: memory bytes/s (default: a V100's)")
    parser.add_argument("--name", help="of the model (default: the function's file)")
    a = parser.parse_args()
    failed = None
    try:
        if not a.costs and not a.layers:
            raise Rejection("nothing to write; give --costs FILE, --layers FILE or both")
        if min(a.depth, a.repeats - 1, a.threads - 1) < 0:
            raise Rejection("--depth is 0 or more, --repeats and --threads are 1 or more")
        if not (0 < a.peak < float("inf") and 0 < a.bandwidth < float("inf")):
            raise Rejection("--peak and --bandwidth are above 0")
        torch.set_num_threads(a.threads)
        model, inputs, keywords = load(a.model)
        recording = record(model, inputs, keywords, getattr(torch, a.autocast) if a.autocast else None)
        notes = add_loss(recording, a.loss)
        if places := recording.reads + recording.reads_of_reals:
            notes.append(f"{', '.join(places)}: the forward reads numbers that follow from its inputs or parameters; "
                         "the files hold what it computed with the example inputs")
        name = a.name or os.path.splitext(os.path.basename(a.model.rpartition(":")[0]))[0]
        if a.costs:
            graph, more = cost_graph(recording, name, a.depth, a.repeats, Device(a.peak, a.bandwidth))
            notes += more
            write(a.costs, graph)
        if a.layers:
            try:
                folder = os.path.splitext(os.path.basename(a.layers))[0] + ".modules"
                layers, more, files = layers_of(recording, name, a.untie, None if a.no_modules else folder)
                notes += more
                write_modules(os.path.dirname(a.layers), files)
                write(a.layers, layers)
            except Rejection as e:
                failed = f"{a.layers} is not written: {e}"
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    except (Rejection, OSError) as e:
        failed = str(e)
    if failed:
        print(f"error: {failed}", file=sys.stderr)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
