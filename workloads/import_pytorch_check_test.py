#!/usr/bin/env python3
"""What import_pytorch.py accepts and rejects: modules that train otherwise than their layers say, by kind, and random
small networks, which are accepted until something is changed in them.

    import_pytorch_check_test.py --program build/sluice [--python .venv-peers/bin/python]
"""
import contextlib
import io
import json
import os
import random
import sys
import types
import zlib

import import_pytorch_test
from import_pytorch_test import HERE, saved_by_all_of

REJECTED = {  # module of models_for_tests.py -> what the error names, without Modules
    "forward_hook": "b (Linear): it has a hook", "pre_hook": "b (Linear): it has a hook",
    "monkey": "b (Linear): its forward is replaced", "divisor": "p (AvgPool2d): an average with divisor_override",
    "bn_eval": "n (BatchNorm2d): a batch norm that stays in eval()",
    "bn_alone_eval": "n (BatchNorm2d): a batch norm that stays in eval()", "sparse": "sparse gradients",
    "clamps": "a.weight is changed by the forward itself", "renormalizes": "a.weight is changed by the forward itself",
    "part_frozen": "a (Linear): some of its parameters are frozen", "all_frozen": "every parameter is frozen",
    "detach": "no gradient reaches a.weight", "no_grad_part": "is computed under no_grad",
    "grad_hook": "b.weight has a hook", "activation_hook": "the gradient of a.weight differs",
    "inplace_view": "the module's own backward fails", "inplace_view_of_product": "something changes its output",
    "old_weight_norm": "a (Linear): its weight is computed", "new_weight_norm": "a.linear: its weight is parametrized",
    "old_spectral": "b (Linear): its weight is computed", "new_spectral": "b.linear: its weight is parametrized",
    "pruned": "b (Linear): its weight is computed", "attn_scale": "attention with a scale",
    "attn_no_transpose": "whose heads are not put side by side", "padding_idx": "padding_idx",
    "max_norm": "max_norm", "scale_grad": "scale_grad_by_freq", "pos_scaled": "from that of PositionEmbedding",
    "pos_sin": "from that of PositionEmbedding", "pos_matmul": "from that of PositionEmbedding",
    "pos_dropout": "from that of PositionEmbedding", "pos_reversed": "from that of PositionEmbedding",
    "pos_zero": "from that of PositionEmbedding", "pos_twice": "t is one parameter that add and add#2 share",
    "pos_bias": "a table of 1 positions for 6", "shared_conv": "c.weight is one parameter that c and c#2 share",
    "shared_norm": "n.bias is one parameter that n and n#2 share",
    "shared_linear": "b.bias is one parameter that b and b#2 share",
    "tied_bias": "b.bias is one parameter that b and d share", "cast_down": "torch.float32 to torch.bfloat16",
    "bf16": "a.weight is torch.bfloat16", "fp64": "a.weight is torch.float64",
    "unused": "d.weight, 10000 parameters, is in no layer", "unused_input": "input 1: is read by no layer",
    "autocast": "is computed under autocast", "decides": "decides by the values of its inputs",
    "decides_alike": "decides by the values of its inputs", "scales_by_item": "models_for_tests.py:",
    "seg_ce": "CrossEntropyLoss of a sample of [5, 8, 8]",
    "maxpool_idx": "p (MaxPool2d): a pool that returns the places", "mha_weights": "sum: the function sum",
    "custom": "the function Square", "fourier": "the function fft_rfft", "several": "2 (Softplus)",
    "meta": "cannot be checked", "uneven_pool": "p (AdaptiveAvgPool2d): an adaptive average from [8, 8] to [3, 3]",
    "mean_of_channels": "the function mean", "ceil_pool": "a call of max_pool2d with more than kernel_size, stride",
    "same_padding": "a padding that is no number of zeros",
    "halves": "p (AdaptiveAvgPool1d): an adaptive average of [8] to more than one element",
    "patches_by_column": "the function flatten",
    "window": "a mask that is neither causal nor of nothing", "neighbours": "positions of another form",
    "distances": "a mask that is neither causal nor of nothing",
    "one_turned": "positions of another form", "normed_queries": "not made of linear layers by views",
    "other_gelu": "the function pow", "own_gelu_scaled": "the gradient of",
    "normed_rows": "BatchNorm of rows of all sequences",
    "crossed_causal": "attention to another sequence that is causal",
}
AS_MODULES = {  # of these: which parts become Modules; the others are rejected all the same
    "forward_hook": ["b"], "pre_hook": ["mul", "b"], "monkey": ["b"], "divisor": ["p"], "bn_eval": ["n"],
    "bn_alone_eval": ["n"],
    "no_grad_part": ["relu"], "old_weight_norm": ["a"], "new_weight_norm": ["a"], "pruned": ["b"],
    "attn_scale": ["split"], "attn_no_transpose": ["split"], "padding_idx": ["e"], "scale_grad": ["e"],
    "pos_scaled": ["mul"], "pos_sin": ["sin"],
    "pos_matmul": ["matmul"], "pos_reversed": ["p"], "pos_zero": ["p"], "pos_bias": ["getitem"], "cast_down": ["to"],
    "maxpool_idx": ["p"], "mha_weights": ["a"], "several": ["1", "2", "4"],
    "uneven_pool": ["p"], "mean_of_channels": ["mean"], "ceil_pool": ["max_pool2d"],
    "halves": ["p"], "same_padding": ["conv2d"], "window": ["n"], "neighbours": ["n"], "one_turned": ["n"],
    "normed_queries": ["n"], "distances": ["n"], "patches_by_column": ["flatten"],
    "other_gelu": ["u"], "normed_rows": ["r"], "crossed_causal": ["m"],
}
NO_MODULES = {  # what says why the others are none
    "custom": "TorchScript cannot express it", "max_norm": "whose forward changes its weights (max_norm)",
    "sparse": "an embedding with sparse gradients", "clamps": "a.weight is changed by the forward itself",
    "renormalizes": "a.weight is changed by the forward itself",
    "pos_dropout": "which are not drawn sample by sample", "autocast": "is computed under autocast",
    "grad_hook": "b.weight has a hook", "detach": "no gradient reaches a.weight",
    "activation_hook": "the gradient of a.weight differs", "fourier": "k is torch.complex64",
    "decides": "decides by the values of its inputs", "decides_alike": "decides by the values of its inputs",
    "scales_by_item": "the forward reads numbers",
}
ACCEPTED = ("plain", "bn3d", "frozen", "attention", "pos_plain", "pos_zeros", "pos_lookup", "tied_good", "mha",
            "dropouts", "encoder", "lstm", "cnn", "up", "kw", "compiled", "compiled_part", "ckpt", "ckpt_reentrant")
BLOCK = ("Embedding RmsNorm Attention Add RmsNorm Linear Activation Linear Multiply Linear Add Linear "
         "CrossEntropyLoss")
AS_GPT2 = ("Embedding PositionEmbedding LayerNorm Attention Add Linear Activation Linear Add Linear "
           "CrossEntropyLoss")
CROSSED = "Embedding Linear Activation CrossAttention Add Activation Linear CrossEntropyLoss"
AS_LAYERS = {
    "gates": "Conv2d GroupNorm Activation Pool2d Conv2d Activation Conv2d Activation Multiply Activation Pool2d "
             "Flatten Linear Activation Linear Multiply Linear CrossEntropyLoss",
    "pooled": "Conv2d Pool2d Pool2d Pool2d Activation Pool2d Pool2d Pool2d Flatten Linear CrossEntropyLoss",
    "sounds": "ConvNd BatchNorm Activation ConvNd Permute LayerNorm Permute Pool2d Flatten Linear CrossEntropyLoss",
    "films": "ConvNd ConvNd BatchNorm Activation Pool2d Flatten ConvNd Pool2d Flatten Add Linear CrossEntropyLoss",
    "holes": "ConvNd ConvNd Activation Pool2d Flatten Linear CrossEntropyLoss",
    "derived": "ConvNd ConvNd Activation Pool2d Flatten Linear CrossEntropyLoss",
    "functions": "ConvNd GroupNorm Permute LayerNorm SequencePool Linear CrossEntropyLoss",
    "grouped": BLOCK, "grouped_together": BLOCK, "masked": BLOCK,
    "patches": "PatchEmbedding ClassToken PositionEmbedding SequencePool Linear CrossEntropyLoss",
    "squares": "Linear Multiply Linear CrossEntropyLoss",
    "transposed": AS_GPT2, "own_gelu": AS_GPT2,
    "row_wise": "Embedding PositionEmbedding LayerNorm Linear Activation Linear Dropout Add Linear CrossEntropyLoss",
    "crossed": CROSSED, "crossed_together": CROSSED,
    "pooled_words": "Embedding SequencePool SequencePool SequencePool Concat Linear CrossEntropyLoss",
}
NOT_RECORDED = {"scripted": "is scripted or traced", "raises": "'Net' object has no attribute 'nope'",
                "custom_bound": "Square is called through a name bound to its apply",
                "without_argument": "missing 1 required positional argument", "breaks": "ZeroDivisionError"}


class Tests(import_pytorch_test.Tests):
    def __init__(self, program, folder):
        super().__init__(program, folder)
        from pytorch_import import costs_for_tests, layers_for_tests, models_for_tests, random_for_tests
        files = (costs_for_tests, layers_for_tests, models_for_tests)
        self.models = types.SimpleNamespace(**{k: v for file in files for k, v in vars(file).items() if k[0] != "_"})
        self.random = random_for_tests

    def imported(self, made, *words):
        """made: (module, inputs). Exit code, what is said, and the two files."""
        files = [f"{self.folder}/made.costs.json", f"{self.folder}/made.json"]
        for file in files:
            if os.path.exists(file):
                os.remove(file)
        said, load = io.StringIO(), self.importer.load
        self.importer.load = lambda where: self.importer.examples(where, made)
        sys.argv = ["import_pytorch.py", "models.py:made", "--costs", files[0], "--layers", files[1], "--repeats", "1",
                    *words]
        try:
            with contextlib.redirect_stderr(said):
                code = self.importer.main()
        finally:
            self.importer.load = load
        return code, said.getvalue(), [json.load(open(f)) if os.path.exists(f) else None for f in files]

    def is_read(self, name, costs=True):
        """Sluice reads what was written."""
        self.sluice("plan", "-s", "single_device", "-w", f"{self.folder}/{name}.json", "-c", "flat:1")
        if costs:
            self.sluice("plan", "-s", "single_device", "-w", f"{self.folder}/{name}.costs.json", "-c", "flat:1")

    def what_trains_otherwise_is_rejected_by_name(self):
        for name, words in REJECTED.items():
            code, said, (costs, layers) = self.imported(getattr(self.models, name)(), "--no-modules")
            self.equal(code, 2, f"exit code of {name}")
            self.check(words in said and "error: " in said, f"{name}: {said}")
            self.check(layers is None, f"{name}: no layers are written")
            self.check(costs is not None, f"{name}: costs are written all the same")
            if costs:
                self.sluice("plan", "-s", "single_device", "-w", f"{self.folder}/made.costs.json", "-c", "flat:1")

    def modules_stand_for_parts_without_a_layer(self):
        for name in REJECTED:
            code, said, (_, layers) = self.imported(getattr(self.models, name)())
            if name not in AS_MODULES:
                self.equal(code, 2, f"exit code of {name}")
                self.check(layers is None and NO_MODULES.get(name, "") in said, f"{name}: {said}")
                continue
            self.equal(code, 0, f"exit code of {name}: {said}")
            if code:
                continue
            modules = [l for l in layers["layers"] if l["kind"] == "Module"]
            self.equal([l["name"] for l in modules], AS_MODULES[name], f"Modules of {name}")
            self.check("TorchScript stands for " + ", ".join(AS_MODULES[name]) in said, said)
            for layer in modules:
                with open(f"{self.folder}/{layer['file']}", "rb") as file:
                    content = file.read()
                self.equal([layer["bytes"], layer["digest"]], [len(content), f"{zlib.crc32(content):08x}"], name)
                self.check(HERE.encode() not in content, f"{layer['file']} names no folder of this machine")
            self.is_read("made", costs=False)

    def frozen_layers_are_marked(self):
        layers = self.imported(self.models.frozen())[2][1]["layers"]
        self.equal([l["name"] for l in layers if l.get("frozen")], ["a"], "frozen")
        layers = self.imported(self.models.frozen_part())[2][1]["layers"]
        self.equal([(l["name"], l["kind"]) for l in layers if l.get("frozen")], [("n", "Module")], "frozen Module")

    def whole_numbers_that_are_read_are_told(self):
        code, said, _ = self.imported(self.models.reads_its_ids())
        self.equal(code, 0, f"exit code: {said}")
        self.check("note: " in said and "models_for_tests.py:" in said and "the forward reads numbers" in said, said)
        code, said, _ = self.imported(self.models.reads_constants())
        self.equal(code, 0, f"exit code: {said}")
        self.check("the forward reads" not in said, said)

    def what_is_right_is_accepted_and_read(self):
        for name in ACCEPTED:
            torch_model, *_ = made = getattr(self.models, name)()
            code, said, (costs, layers) = self.imported(made)
            self.equal(code, 0, f"exit code of {name}: {said}")
            if code == 0:
                self.is_read("made")
                self.check(not any("_orig_mod" in l["name"] for l in layers["layers"] + costs["layers"]), name)

    def what_has_a_layer_is_no_module(self):
        for name, kinds in AS_LAYERS.items():
            code, said, (_, layers) = self.imported(getattr(self.models, name)(), "--no-modules")
            self.equal(code, 0, f"exit code of {name}: {said}")
            if code == 0:
                self.equal([l["kind"] for l in layers["layers"]], kinds.split(), f"layers of {name}")
                self.is_read("made")

    def every_unknown_layer_is_named_at_once(self):
        said = self.imported(self.models.several(), "--no-modules")[1]
        for words in ("1 (PReLU), 4 (PReLU): Sluice has no layer PReLU", "2 (Softplus)",
                      "--costs takes any", "made.json is not written"):
            self.check(words in said, f"{words}: {said}")

    def what_cannot_run_is_an_error(self):
        for name, words in NOT_RECORDED.items():
            file = sys.modules[getattr(self.models, name).__module__].__file__
            run = self.command(f"{file}:{name}", "--costs", "x.json")
            self.equal(run.returncode, 2, f"exit code of {name}")
            self.check(words in run.stderr and run.stderr.startswith("error: ") and "Traceback" not in run.stderr,
                       f"{name}: {run.stderr}")

    def untie_accepts_shared_weights(self):
        for name in ("shared_conv", "tied_bias", "pos_twice", "shared_norm"):
            code, said, _ = self.imported(getattr(self.models, name)(), "--untie")
            self.equal(code, 0, f"{name}: {said}")

    def the_model_is_given_back(self):
        model, inputs = self.models.cnn()
        model.eval()
        before = {k: v.clone() for k, v in model.state_dict().items()}
        self.imported((model, inputs))
        self.check(all(self.torch.equal(v, before[k]) for k, v in model.state_dict().items()), "weights and statistics")
        self.check(not model.training and all(p.grad is None for p in model.parameters()), "mode and gradients")

    def random_networks_are_accepted_until_changed(self):
        torch, nn = self.torch, self.torch.nn
        for seed in range(24):
            draw = random.Random(seed)
            torch.manual_seed(seed)
            make = self.random.random_images if seed % 2 else self.random.random_tokens
            code, said, _ = self.imported(make(draw))
            self.equal(code, 0, f"random network {seed}: {said}")
            if code == 0 and seed < 8:
                self.is_read("made", costs=False)
            draw = random.Random(seed)
            model, inputs = make(draw)
            change = draw.choice(("hook", "frozen", "gradient", "output", "shared"))
            linear = draw.choice([m for m in model.modules() if type(m) is nn.Linear])
            if change == "hook":
                linear.register_forward_hook(lambda m, x, y: y * 1.01)
            elif change == "frozen":
                linear.weight.requires_grad_(False)
            elif change == "gradient":
                linear.register_full_backward_hook(lambda m, i, o: tuple(g if g is None else g * 1.1 for g in i))
            elif change == "output":
                model.register_forward_hook(lambda m, x, y: y + 0.01 * y.detach())
            else:
                model.late = nn.Sequential(model.head, nn.ReLU(), model.head)
                head, forward = model.head, model.forward
                model.forward = lambda x: forward(x) + forward(x) * 0.0
            self.equal(self.imported((model, inputs), "--no-modules")[0], 2, f"random network {seed} with {change}")

    def costs_hold_what_torch_keeps(self):
        """Of checkpoints, frozen layers, autocast, own backwards and complex tensors, at every depth."""
        for name in ("ckpt", "ckpt_reentrant", "ckpt_blocks", "frozen", "no_grad_part", "detach", "autocast", "custom",
                     "fourier", "unused"):
            model, inputs = getattr(self.models, name)()
            expected = saved_by_all_of(model, (inputs,), "mse", self.torch)
            size = sum(p.numel() * p.element_size() for p in model.parameters())
            for depth in (0, 1, 2):
                recording = self.importer.record(model, inputs)
                self.importer.add_loss(recording, "mse")
                layers = self.importer.cost_graph(recording, name, depth, 1)[0]["layers"]
                self.equal(sum(l["stash"] for l in layers), expected, f"{name} at depth {depth}: stash")
                self.equal(sum(l["parameters"] for l in layers), size, f"{name} at depth {depth}: parameters")

    def layers(self, made, *words):
        return {l["name"]: l for l in self.imported(made, *words)[2][0]["layers"]}

    def what_is_frozen_has_no_backward_and_no_state(self):
        layers = self.layers(self.models.frozen())
        self.equal([layers["a"][k] for k in ("input_gradient", "weight_gradient", "update")], [0, 0, 0], "frozen")
        self.equal(layers["a"]["frozen"], 4 * (8 * 16 + 16), "frozen bytes")
        self.equal(layers["b"]["input_gradient"], 0, "nothing before b learns")
        self.check(layers["b"]["weight_gradient"] > 0 and "frozen" not in layers["b"], "b learns")
        self.equal(self.layers(self.models.unused())["a"].get("frozen", 0), 4 * 10100, "unused parameters")
        memory = {}
        for name in ("frozen", "plain"):
            self.imported(getattr(self.models, name)())
            out = f"{self.folder}/{name}.memory.jsonl"
            self.sluice("run", "-s", "single_device", "-w", f"{self.folder}/made.costs.json", "--clock", "virtual",
                        "-c", "flat:1", "-n", "1", "--optimizer", "adamw", "--out", out)
            with open(out) as file:
                memory[name] = json.loads(file.readline())["peak_bytes"][0]
        self.equal(memory["plain"]["weights"] - memory["frozen"]["weights"], 0, "weights")
        for key, times in (("gradients", 1), ("optimizer", 2)):
            self.equal(memory["plain"][key] - memory["frozen"][key], times * 4 * (8 * 16 + 16), key)

    def complex_tensors_have_gradients(self):
        layers = self.layers(self.models.fourier())
        for name in ("fft_irfft", "mul"):
            self.check(layers[name]["input_gradient"] > 0, f"{name}: {layers[name]}")

    def checkpoints_run_forward_again(self):
        """By FLOP, on the meta device: a layer's backward is twice its forward. A reentrant checkpoint runs both of its
        products again; the other one stops where all is there that was kept, after the first."""
        graphs = {}
        for name in ("ckpt_meta", "reentrant_meta", "whole_meta"):
            graphs[name] = self.imported(getattr(self.models, name)(), "--peak", "1e6", "--bandwidth", "1e18")[2][0]
        a, c, b = ({l["name"]: l for l in graph["layers"]} for graph in graphs.values())
        self.equal(a["checkpoint"]["part"], "b", "the part of a checkpoint")
        second = lambda l: l["input_gradient"] + l["weight_gradient"]
        self.equal(round(second(b["b.1"]) / b["b.1"]["forward"], 6), 2.0, "kept")
        self.equal(round(second(a["checkpoint"]) / a["checkpoint"]["forward"], 6), 2.5, "one of two run again")
        self.equal(round(second(c["checkpoint"]) / c["checkpoint"]["forward"], 6), 3.0, "both run again")
        # 64 samples x 32 x 32 multiply-adds at 0.75 of 1 MFLOP/s
        self.equal(round(b["b.1"]["forward"], 6), round(2 * 64 * 32 * 32 / 0.75e6, 6), "forward")
        self.equal(b["b.1"]["parameters"], 4 * (32 * 32 + 32), "parameters on meta")

    def a_meta_model_is_as_large_as_a_real_one(self):
        sizes = []
        for device in ("meta", "cpu"):
            with self.torch.device(device):
                made = self.models.plain()
            layers = self.imported(made)[2][0]["layers"]
            sizes.append([[l[k] for k in ("name", "parameters", "stash", "weight_stash", "output", "inputs")]
                          for l in layers])
        self.equal(*sizes, "bytes on the meta device and on the CPU")
        self.check(self.imported(self.models.looks_at_values())[2][0] is not None, "a model that can be exported")

    def autocast_halves_what_is_kept(self):
        """Of a linear layer: its input and its weight in bfloat16, not in float32."""
        plain, cast = (self.layers(self.models.plain(), *words) for words in ((), ("--autocast", "bfloat16")))
        self.equal(cast["b"]["output"] * 2, plain["b"]["output"], "output of b")
        self.equal(cast["b"]["parameters"], plain["b"]["parameters"], "parameters stay in float32")

    def parts_are_children_of_lists(self):
        layers = self.layers(self.models.blocks(), "--depth", "2")
        self.equal(layers["layers.0.a"].get("part"), "layers.0", "a child of a ModuleList")
        self.equal(layers["body.0.a"].get("part"), "body", "a child of a Sequential is in the whole Sequential")
        self.equal(layers["loss"].get("part"), None, "the loss is no module")
        _, said, (costs, _) = self.imported(self.models.ckpt_blocks())
        self.check("spans tail.0 and tail.1" in said and not any("part" in l for l in costs["layers"]), said)


if __name__ == "__main__":
    import_pytorch_test.main(Tests)
