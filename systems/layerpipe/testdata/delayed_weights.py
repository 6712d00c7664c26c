#!/usr/bin/env python3
"""Weights that delayed gradients must give, from the delay rule alone: no schedule, no program, no clock.

K stages in a row, S(k) = K - 1 - k stages after stage k. A stage whose weight gradients run on a processor of its own
gets them D micro-batches later, D(k) = D, else D(k) = 0. In a run that starts with an empty pipe, of its batches
i = 1, 2, ...:

    forward of i on stage k     reads the version after max(0, i - 1 - S(k) - D(k)) updates of the run
    backward of i               stash: the same; newest: after max(0, i - 1 - D(k)) updates;
                                average: the newest + S(k) lr avg
    the gradient of i           makes update i of every stage
    avg                         after every update: decay avg + (1 - decay) (W_before - W_after) / lr, from 0;
                                decay of average_a S / (S + 1), of average_b (S - 1) / (S + 1)

The model, the loss and the file's form are those of harness/tests/data/weights.json. Run it to make
delayed_weights.json anew; with --check it compares.
"""
import json
import math
import pathlib
import sys

X = [[0.5, -1.0], [1.5, 0.3], [-0.6, 0.9], [0.2, -0.4], [1.1, -1.3], [-0.8, 0.7], [0.4, 1.2], [-1.4, 0.1],
     [0.9, -0.5], [-0.3, 1.6], [0.7, -0.9], [1.3, -0.2]]
TARGET = [[0.3, 0.8], [-0.2, 0.4], [0.7, -0.1], [0.5, 0.6], [-0.4, 0.9], [0.2, -0.3], [0.1, 0.75], [0.65, 0.25],
          [-0.15, 0.55], [0.35, -0.45], [0.05, 0.95], [-0.25, 0.45]]
A0, B0 = [0.8, -0.7, 0.9, 1.1], [0.1, 0.2, -0.1, 0.05]
OPTIMIZERS = {
    "sgd": {"kind": "sgd", "lr": 0.2},
    "sgdm": {"kind": "sgd", "lr": 0.1, "mu": 0.9, "wd": 0.01},
    "adam": {"kind": "adam", "lr": 0.05},
}


class Stage:
    """Every version of one stage, and the average after each."""

    def __init__(self, k, stages, config, decay):
        self.after = stages - 1 - k
        self.versions = [[A0[k], B0[k]]]
        self.averages = [[0.0, 0.0]]
        self.config, self.decay = config, decay
        self.first, self.second = [0.0, 0.0], [0.0, 0.0]

    def update(self, gradient):
        c, before, t = self.config, self.versions[-1], len(self.versions)
        now, average = [], []
        for i in range(2):
            g = gradient[i] + c.get("wd", 0) * before[i]
            if c["kind"] == "adam":
                self.first[i] = 0.9 * self.first[i] + 0.1 * g
                self.second[i] = 0.999 * self.second[i] + 0.001 * g * g
                step = (self.first[i] / (1 - 0.9**t)) / (math.sqrt(self.second[i] / (1 - 0.999**t)) + 1e-8)
            elif c.get("mu", 0) > 0:
                self.first[i] = g if t == 1 else c["mu"] * self.first[i] + g
                step = self.first[i]
            else:
                step = g
            now.append(before[i] - c["lr"] * step)
            average.append(self.decay * self.averages[-1][i] + (1 - self.decay) * (before[i] - now[i]) / c["lr"])
        self.versions.append(now)
        self.averages.append(average)


def decay_of(weights, after):
    if weights == "average_a":
        return after / (after + 1)
    return max(after - 1, 0) / (after + 1)


def case(name, stages, devices, delay, weights, optimizer, batches=8, epochs=1):
    """devices: of every stage's weight gradients; the stage's own number: its own processor."""
    config = OPTIMIZERS[optimizer]
    all_stages = [Stage(k, stages, config, decay_of(weights, stages - 1 - k)) for k in range(stages)]
    late = [0 if devices[k] == k else delay for k in range(stages)]
    reads = [{"F": [], "B": []} for _ in range(stages)]
    losses = []
    per_run = batches // epochs
    for j in range(1, batches + 1):
        base, i = (j - 1) // per_run * per_run, (j - 1) % per_run + 1
        h, inputs, outputs = X[j - 1], [], []
        forward = [base + max(0, i - 1 - s.after - late[k]) for k, s in enumerate(all_stages)]
        for k, s in enumerate(all_stages):
            a, b = s.versions[forward[k]]
            inputs.append(h)
            z = [a * v + b for v in h]
            h = [math.tanh(v) for v in z] if k + 1 < stages else z
            outputs.append(h)
            reads[k]["F"].append([j, forward[k], 0])
        error = [o - t for o, t in zip(h, TARGET[j - 1])]
        losses.append(0.5 * sum(e * e for e in error) / 2)
        gradient = [e / 2 for e in error]
        for k in reversed(range(stages)):
            s = all_stages[k]
            newest = base + max(0, i - 1 - late[k])
            horizon = 0
            if weights == "stash":
                version, a = forward[k], s.versions[forward[k]][0]
            else:
                version, a = newest, s.versions[newest][0]
                if weights.startswith("average"):
                    a += s.after * config["lr"] * s.averages[newest][0]
                    horizon = -s.after
            reads[k]["B"].append([j, version, horizon])
            dz = [g * (1 - o * o) for g, o in zip(gradient, outputs[k])] if k + 1 < stages else gradient
            s.update([sum(d * v for d, v in zip(dz, inputs[k])), sum(dz)])
            gradient = [d * a for d in dz]
    return {
        "name": name, "system": "layerpipe", "stages": stages, "batches": batches, "drained_epochs": epochs,
        "weight_gradient_devices": devices, "options": {"weights": weights, "gradient_delay": delay},
        "optimizer_config": config, "losses": losses, "weights": [s.versions for s in all_stages],
        "versions": {f"stage{k}": reads[k] for k in range(stages)},
    }


def cases():
    result = []
    layouts = {
        "own-K4": (4, [0, 1, 2, 3]),  # nothing is late
        "one-lane-K2": (2, [2, 2]),   # both on a third processor
        "lanes-K4": (4, [4, 5, 6, 7]),
        "shared-K4": (4, [4, 1, 4, 3]),  # two of four on a fifth
        "crossed-K4": (4, [1, 0, 4, 4]),  # two on one another's, two on a fifth
    }
    for layout, (stages, devices) in layouts.items():
        for weights in ("stash", "average_a", "average_b", "newest"):
            result.append(case(f"{layout}-{weights}-sgd", stages, devices, 1, weights, "sgd"))
        result.append(case(f"{layout}-stash-sgdm-2epochs", stages, devices, 1, "stash", "sgdm", 12, 2))
    for delay in (0, 2, 3):
        result.append(case(f"lanes-K4-D{delay}-stash-sgd", 4, [4, 5, 6, 7], delay, "stash", "sgd", 12))
    result.append(case("shared-K4-D2-average_b-sgdm-2epochs", 4, [4, 1, 4, 3], 2, "average_b", "sgdm", 12, 2))
    result.append(case("lanes-K4-average_a-adam", 4, [4, 5, 6, 7], 1, "average_a", "adam"))
    return result


def equal(a, b):
    """Numbers except for rounding: another machine's tanh may end in another digit."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) < 1e-12
    return a == b


def main():
    file = pathlib.Path(__file__).with_name("delayed_weights.json")
    document = {"about": "Made by delayed_weights.py, which states the rule.", "a0": A0, "b0": B0, "x": X,
                "target": TARGET, "cases": cases()}
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in document.items() if k != "cases"]
    lines.append('"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in document["cases"]) + "]")
    text = "{" + ",\n".join(lines) + "}\n"
    if "--check" in sys.argv[1:]:
        same = equal(json.loads(file.read_text()), json.loads(text))
        return 0 if same else "delayed_weights.json is not what this program makes"
    file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
