#!/usr/bin/env python3
"""workloads/import_pytorch.py on small models of every kind that it has to cope with, and what Sluice makes of them.

    import_pytorch_test.py --program build/sluice [--python .venv-peers/bin/python]

Needs a Python with the whole torch (harness/peers/README.md says how to make one) and ends with status 77, skipped,
where there is none.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.dirname(HERE)

MODELS = '''
import torch
from torch import nn
import torch.nn.functional as F

class Block(nn.Module):
    def __init__(self, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(*[Block(8) for _ in range(3)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))

class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.out, self.heads, self.width = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, width

    def forward(self, x):
        b, t, c = x.size()
        parts = self.qkv(x).split(self.width, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))

class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), SelfAttention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                                                  nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))

class Gpt(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(12, 16)
        self.layers = nn.ModuleList(Layer(16, 4) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 50, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

class Hourglass(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1)
        self.middle, self.up = nn.Conv2d(8, 8, 3, padding=1), nn.ConvTranspose2d(8, 8, 2, 2)
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        skip = torch.relu(self.first(x))
        y = torch.relu(self.middle(torch.relu(self.down(skip))))
        return self.last(torch.cat([skip, self.up(y)], 1))

class Decides(nn.Module):
    """As often as the data says; a part of a tensor is written."""
    def __init__(self):
        super().__init__()
        self.step, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        n = 0
        while x.norm() > 1 and n < 3:
            x = torch.tanh(self.step(x)) * 2
            x[:, :2] = 0
            n += 1
        return self.head(x)

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(30, 16), nn.Embedding(40, 16)
        self.norm = nn.LayerNorm(16)
        self.cross = nn.MultiheadAttention(16, 4, batch_first=True)
        self.head = nn.Linear(16, 40)

    def forward(self, a, b):
        memory = self.norm(self.source(a))
        y = self.target(b)
        return self.head(y + self.cross(y, memory, memory, need_weights=False)[0])

class Modern(nn.Module):
    """Kinds that others lack."""
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1, groups=2)
        self.act, self.up = nn.SiLU(), nn.ConvTranspose2d(8, 4, 2, 2)
        self.plain, self.leaky = nn.InstanceNorm2d(8), nn.LeakyReLU()
        self.drop, self.wide = nn.Dropout2d(0.25), nn.Upsample(scale_factor=2)
        self.norm, self.gelu = nn.RMSNorm(256), nn.GELU(approximate="tanh")
        self.head = nn.Linear(256, 5)

    def forward(self, x):
        y = self.wide(self.leaky(self.up(self.act(self.plain(self.drop(self.conv(x)))))))
        return self.head(self.gelu(self.norm(y.flatten(1))))

class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.PReLU(4)

    def forward(self, x):
        return self.norm(x)

def modern(): return Modern(), torch.randn(2, 4, 2, 2)
def unknown(): return Unknown(), torch.randn(2, 4, 2, 2)
def residual(): return Residual(), torch.randn(4, 3, 16, 16)
def gpt(): return Gpt(False), torch.randint(0, 50, (4, 12))
def tied(): return Gpt(True), torch.randint(0, 50, (4, 12))
def hourglass(): return Hourglass(), torch.randn(2, 3, 16, 16)
def decides(): return Decides(), torch.randn(4, 16) * 5
def two(): return Two(), (torch.randint(0, 30, (4, 9)), torch.randint(0, 40, (4, 7)))
def nothing(): return Residual()
'''


def saved_by_all_of(model, inputs, loss, torch):
    """Bytes of distinct tensors that one whole forward in PyTorch keeps for the backward."""
    outside = [*model.parameters(), *model.buffers(), *inputs]
    outside = {t.untyped_storage().data_ptr() for t in outside}
    saved, alive = {}, []

    def pack(t):
        storage = t.untyped_storage()
        alive.append(t)
        if storage.data_ptr() not in outside:
            saved[storage.data_ptr()] = storage.nbytes()
        return t

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = model(*inputs)
        target = torch.randint(y.shape[-1], y.shape[:-1]) if loss == "cross_entropy" else torch.randn_like(y)
        outside.add(target.untyped_storage().data_ptr())
        if loss == "cross_entropy":
            torch.nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]), target.reshape(-1))
        else:
            torch.nn.functional.mse_loss(y, target)
    return sum(saved.values())


class Tests:
    def __init__(self, program, folder):
        sys.path.insert(0, HERE)
        import torch

        import import_pytorch
        self.torch, self.importer, self.program, self.folder = torch, import_pytorch, program, folder
        torch.set_num_threads(1)
        with open(f"{folder}/models.py", "w") as out:
            out.write(MODELS)
        self.failures = 0

    def check(self, condition, what):
        if not condition:
            self.failures += 1
            print(f"FAILED: {what}")

    def equal(self, a, b, what):
        self.check(a == b, f"{what}: {a} is not {b}")

    def graph(self, name, loss, depth=1, repeats=1):
        model, inputs, _ = self.importer.load(f"{self.folder}/models.py:{name}")
        recording = self.importer.record(model, inputs)
        self.importer.add_loss(recording, loss)
        graph, notes = self.importer.cost_graph(recording, name, depth, repeats)
        return model, recording, graph["layers"], notes

    def command(self, *words):
        return subprocess.run([sys.executable, "-W", "ignore", f"{HERE}/import_pytorch.py", *words], cwd=self.folder,
                              capture_output=True, text=True)

    def sluice(self, *words):
        run = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True)
        self.check(run.returncode == 0, f"sluice {' '.join(words)}: {run.stderr}")
        return run

    def memory_does_not_depend_on_the_depth(self):
        for name, loss in (("residual", "cross_entropy"), ("gpt", "cross_entropy"), ("hourglass", "mse"),
                           ("two", "cross_entropy")):
            model, inputs, _ = self.importer.load(f"{self.folder}/models.py:{name}")
            inputs = inputs if isinstance(inputs, tuple) else (inputs,)
            expected = saved_by_all_of(model, inputs, loss, self.torch)
            parameters = sum(p.numel() * 4 for p in model.parameters())
            late = set()
            for depth in (0, 1, 2):
                _, _, layers, _ = self.graph(name, loss, depth)
                self.equal(sum(l["stash"] for l in layers), expected, f"{name} at depth {depth}: stash")
                self.equal(sum(l["parameters"] for l in layers), parameters, f"{name} at depth {depth}: parameters")
                self.check(all(l["forward"] > 0 for l in layers), f"{name}: every layer takes time")
                late.add(sum(l["weight_stash"] for l in layers))
            self.equal(len(late), 1, f"{name}: weight stash by depth {late}")
            self.check(0 < late.pop(), f"{name}: a weight stash")

    def weight_stash_of_a_linear_layer(self):
        """Its input, and the gradient of its output."""
        model = self.torch.nn.Sequential(self.torch.nn.Linear(6, 5), self.torch.nn.Linear(5, 3))
        recording = self.importer.record(model, self.torch.randn(4, 6))
        self.importer.add_loss(recording, "mse")
        graph, _ = self.importer.cost_graph(recording, "m", 1, 1)
        self.equal([l["weight_stash"] for l in graph["layers"]], [4 * 4 * 5, 4 * 4 * 5 + 4 * 4 * 3, 0], "weight stash")
        self.equal([l["stash"] for l in graph["layers"]], [0, 4 * 4 * 5, 4 * 4 * 3], "stash of what is no model input")

    def the_model_stays_as_it_was(self):
        model, inputs, _ = self.importer.load(f"{self.folder}/models.py:residual")
        model.eval()
        before = {k: v.clone() for k, v in model.state_dict().items()}
        recording = self.importer.record(model, inputs)
        self.importer.cost_graph(recording, "m", 1, 1)
        for key, value in model.state_dict().items():
            self.check(self.torch.equal(value, before[key]), f"{key} has changed")
        self.check(not model.training, "the mode is back")
        self.check(recording.exact, "operations in place are followed")

    def branches_and_skips_are_edges(self):
        _, _, layers, _ = self.graph("hourglass", "mse")
        inputs = {l["name"]: [layers[i]["name"] if i >= 0 else i for i in l["inputs"]] for l in layers}
        self.equal(inputs["first"], [-1], "first")
        self.equal(sorted(inputs["cat"]), ["relu", "up"], "the skip")
        cat = next(l for l in layers if l["name"] == "cat")
        self.equal(cat["input_bytes"], [4 * 2 * 8 * 16 * 16] * 2, "bytes of both edges")

    def names_are_modules(self):
        _, _, layers, _ = self.graph("residual", "cross_entropy")
        self.equal([l["name"] for l in layers], ["stem", "blocks.0", "blocks.1", "blocks.2", "pool", "flatten", "head",
                                                 "loss"], "names")
        self.equal([l["name"] for l in layers if l["rides"]], ["flatten", "loss"], "views and the loss")
        _, _, layers, _ = self.graph("residual", "cross_entropy", depth=2)
        names = [l["name"] for l in layers]
        self.check("blocks.0.conv1" in names and "blocks.0" in names and "blocks.0.relu" in names, f"depth 2: {names}")
        equal = [l for l in self.graph("residual", "cross_entropy")[2] if l["name"].startswith("blocks.")]
        self.equal(len({l["forward"] for l in equal}), 1, "identical blocks share their seconds")

    def tied_parameters_are_named(self):
        notes = self.graph("tied", "cross_entropy")[3]
        self.check(any("words.weight is read by several layers (words, head)" in n for n in notes), f"notes: {notes}")

    def tied_layers_are_marked(self):
        run = self.command("models.py:tied", "--layers", "tied.json", "--loss", "cross_entropy")
        self.check(run.returncode == 0 and "head is tied to words" in run.stderr, run.stderr)
        with open(f"{self.folder}/tied.json") as file:
            marks = {l["name"]: l["tied_to"] for l in json.load(file)["layers"] if "tied_to" in l}
        self.equal(marks, {"head": "words"}, "marks")
        model, *_ = self.importer.load(f"{self.folder}/models.py:tied")
        out = f"{self.folder}/tied.jsonl"
        self.sluice("run", "--system", "data_parallel", "--workload", "tied.json", "--ranks", "2", "--steps", "3",
                    "--clock", "virtual", "--no-train", "--cluster", "flat:2", "--out", out)
        with open(out) as records:
            record = json.loads(records.readline())
        self.equal(record["workload_facts"]["parameters"], sum(p.numel() for p in model.parameters()), "parameters")
        run = self.command("models.py:tied", "--layers", "apart.json", "--loss", "cross_entropy", "--untie")
        with open(f"{self.folder}/apart.json") as file:
            self.check("tied_to" not in file.read(), "--untie")
        self.check("becomes several: words.weight, head.weight" in run.stderr, run.stderr)
        self.sluice("plan", "--system", "1f1b", "--workload", "apart.json", "--cluster", "flat:2")

    def what_python_decides_is_recorded(self):
        _, recording, layers, _ = self.graph("decides", "mse")
        self.check(recording.exact, "the recorded operations give the model's output")
        self.equal(sum(l["name"].startswith("step") for l in layers), 3, "the loop's rounds")

    def sluice_takes_costs(self):
        for name, loss in (("residual", "cross_entropy"), ("hourglass", "mse"), ("decides", "mse")):
            run = self.command(f"models.py:{name}", "--costs", f"{name}.costs.json", "--loss", loss, "--repeats", "1")
            self.check(run.returncode == 0, run.stderr)
            self.sluice("plan", "--system", "1f1b", "--workload", f"{name}.costs.json", "--cluster", "flat:2")
            self.sluice("run", "--system", "zero_bubble", "--workload", f"{name}.costs.json", "--ranks", "2", "--clock",
                        "virtual", "--cluster", "flat:2", "--out", f"{name}.jsonl")
        plan = self.sluice("plan", "--system", "1f1b", "--workload", "residual.costs.json", "--cluster", "flat:2",
                           "--json")
        self.check("module_fqns_per_model_part" not in plan.stdout and "'blocks' is in stages 0 and 1" in plan.stderr,
                   f"an nn.Sequential is one part: {plan.stderr}")
        run = self.command("models.py:gpt", "--costs", "gpt.costs.json", "--repeats", "1")
        plan = self.sluice("plan", "--system", "1f1b", "--workload", "gpt.costs.json", "--cluster", "flat:2", "--json")
        parts = json.loads(plan.stdout)["module_fqns_per_model_part"]
        self.equal(len(parts), 2, "parts")
        self.equal([m for part in parts for m in part], ["words", "places", "layers.0", "layers.1", "layers.2", "norm",
                                                         "head"], "cuts are names of modules")

    def sluice_takes_layers(self):
        for name, loss in (("residual", "cross_entropy"), ("gpt", "cross_entropy"), ("two", "cross_entropy"),
                           ("modern", "cross_entropy"), ("hourglass", "mse")):
            run = self.command(f"models.py:{name}", "--layers", f"{name}.json", "--loss", loss)
            self.check(run.returncode == 0, run.stderr)
            model, *_ = self.importer.load(f"{self.folder}/models.py:{name}")
            out = f"{self.folder}/{name}.layers.jsonl"
            self.sluice("run", "--system", "1f1b", "--workload", f"{name}.json", "--ranks", "2", "--steps", "3",
                        "--clock", "virtual", "--no-train", "--cluster", "flat:2", "--out", out)
            with open(out) as records:
                record = json.loads(records.readline())
            parameters = sum(p.numel() for p in model.parameters())
            self.equal(record["workload_facts"]["parameters"], parameters, f"{name}: parameters")
        with open(f"{self.folder}/gpt.json") as file:
            layers = json.load(file)["layers"]
        self.equal([l["kind"] for l in layers[:4]], ["Embedding", "PositionEmbedding", "LayerNorm", "Attention"], "gpt")
        self.equal(layers[3], {"name": "layers.0.attention.out", "kind": "Attention", "inputs": [2], "width": 16,
                               "heads": 4, "causal": True}, "attention that is written out")

    def rejections_say_why(self):
        unknown = ["models.py:unknown", "--layers", "x.json", "--loss", "mse", "--no-modules"]
        for words, text in ((unknown, "norm (PReLU): Sluice has no layer"),
                            (["models.py:nothing", "--costs", "x.json"], "must return (module, inputs)"),
                            (["models.py:absent", "--costs", "x.json"], "has no function 'absent'"),
                            (["absent.py:f", "--costs", "x.json"], "absent.py: no such file"),
                            (["models.py:residual"], "nothing to write")):
            run = self.command(*words)
            self.equal(run.returncode, 2, f"exit code of {words}")
            self.check(run.stderr.startswith("error: ") and text in run.stderr, f"{words}: {run.stderr}")

    def run(self):
        helpers = ("check", "equal", "graph", "command", "sluice", "run", "imported", "is_read", "layers")
        for test in [v for k, v in vars(type(self)).items() if k[0] != "_" and k not in helpers]:
            before = self.failures
            test(self)
            print(f"{'ok' if self.failures == before else 'FAILED'}: {test.__name__.replace('_', ' ')}", flush=True)
        return 1 if self.failures else 0


def with_torch(python):
    """Runs this program again by a Python that has the whole torch; ends with 77 where there is none."""
    if os.environ.get("SLUICE_IMPORT_TEST") == "1":
        return
    for candidate in (python, sys.executable):
        probe = "import torch; x = torch.ones(1, requires_grad=True); torch.autograd.grad([x * 2], [x], [x])"
        if os.path.exists(candidate) and subprocess.run([candidate, "-c", probe], capture_output=True).returncode == 0:
            sys.exit(subprocess.run([candidate, "-W", "ignore", *sys.argv],
                                    env={**os.environ, "SLUICE_IMPORT_TEST": "1"}).returncode)
    print("skipped: there is no Python with the whole torch: harness/peers/README.md")
    sys.exit(77)


def main(tests=Tests):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", default=os.path.join(HOME, ".venv-peers/bin/python"))
    a = parser.parse_args()
    with_torch(a.python)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(tests(os.path.abspath(a.program), folder).run())


if __name__ == "__main__":
    main()
