#!/usr/bin/env python3
"""One measurement of PyTorch's side of the peers benchmark, as JSON on stdout.

The work is that of the workloads tiny, mlp1024 and tfm256: the same layers, initial weights
(torch.manual_seed(1000 + block) before each block), batch (generator seed 7), micro-batches, loss and
SGD step, on torch.distributed.pipelining over Gloo processes, or in one process that accumulates.

    pytorch.py --workload tiny --schedule 1F1B --ranks 2 --steps 100
"""
import argparse
import json
import os
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.nn as nn
import torch.nn.functional as F

WORKLOADS = {  # layers, micro-batch, micro-batches, shape of a sample
    "tiny": (8, 8, 8, (64,)),
    "mlp1024": (8, 32, 8, (1024,)),
    "tfm256": (8, 1, 8, (128, 256)),
}
SCHEDULES = {  # class in torch.distributed.pipelining.schedules, stages a rank, V placement
    "GPipe": ("ScheduleGPipe", 1, False),
    "1F1B": ("Schedule1F1B", 1, False),
    "Interleaved1F1B": ("ScheduleInterleaved1F1B", 2, False),
    "InterleavedZeroBubble": ("ScheduleInterleavedZeroBubble", 2, False),
    "ZBVZeroBubble": ("ScheduleZBVZeroBubble", 2, True),
    "DualPipeV": ("ScheduleDualPipeV", 2, True),
}


class LinearRelu(nn.Module):
    def __init__(self, width, relu):
        super().__init__()
        self.linear, self.relu = nn.Linear(width, width), relu

    def forward(self, x):
        y = self.linear(x)
        return F.relu(y) if self.relu else y


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, feed_forward):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, feed_forward)
        self.down = nn.Linear(feed_forward, width)

    def attend(self, x):
        n, t, width = x.shape
        projected = self.qkv(x).split(width, dim=-1)
        heads = [p.view(n, t, self.heads, width // self.heads).transpose(1, 2) for p in projected]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.projection(mixed.transpose(1, 2).reshape(n, t, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def make_block(workload, index):
    torch.manual_seed(1000 + index)
    layers, _, _, shape = WORKLOADS[workload]
    if workload == "tfm256":
        return TransformerBlock(256, 4, 1024)
    return LinearRelu(shape[0], index + 1 < layers)


def make_batch(workload):
    _, micro_batch, microbatches, shape = WORKLOADS[workload]
    generator = torch.Generator().manual_seed(7)
    full = (micro_batch * microbatches, *shape)
    return torch.randn(full, generator=generator), torch.randn(full, generator=generator)


def time_steps(step, barrier, steps):
    losses = [step() for _ in range(3)]
    for _ in range(5):
        step()
    seconds = []
    group = max(1, steps // 20)  # one clock reading for several steps: a step of tiny is below a millisecond
    for _ in range(20):
        barrier()
        begin = time.perf_counter()
        for _ in range(group):
            step()
        barrier()
        seconds.append((time.perf_counter() - begin) / group)
    return {"losses": [None if loss is None else float(loss) for loss in losses], "step_seconds": seconds}


def run_single(workload, steps):
    torch.set_num_threads(1)
    layers, _, microbatches, _ = WORKLOADS[workload]
    model = nn.Sequential(*[make_block(workload, i) for i in range(layers)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = make_batch(workload)
    pairs = list(zip(x.chunk(microbatches), y.chunk(microbatches)))

    def step():
        optimizer.zero_grad()
        total = 0.0
        for a, b in pairs:
            loss = F.mse_loss(model(a), b) / microbatches
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    return time_steps(step, lambda: None, steps)


def run_rank(rank, workload, schedule, ranks, steps, folder):
    import torch.distributed as dist
    import torch.distributed.pipelining as pipelining
    import torch.distributed.pipelining.schedules as schedules

    torch.set_num_threads(1)
    rendezvous = "file://" + os.path.join(folder, "rendezvous")
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=ranks)
    class_name, chunks, v_placement = SCHEDULES[schedule]
    stage_count = ranks * chunks
    layers, _, microbatches, _ = WORKLOADS[workload]
    size = layers // stage_count
    own = [rank] if chunks == 1 else [rank, stage_count - 1 - rank if v_placement else rank + ranks]
    stages, parameters = [], []
    for s in own:
        module = nn.Sequential(*[make_block(workload, i) for i in range(s * size, (s + 1) * size)])
        parameters += list(module.parameters())
        stages.append(pipelining.PipelineStage(module, s, stage_count, torch.device("cpu")))
    runner = getattr(schedules, class_name)(stages if chunks > 1 else stages[0], microbatches, loss_fn=F.mse_loss)
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    x, y = make_batch(workload)
    holds_last = stage_count - 1 in own

    def step():
        optimizer.zero_grad()
        losses = []
        inputs = (x,) if 0 in own else ()
        runner.step(*inputs, **({"target": y, "losses": losses} if holds_last else {}))
        optimizer.step()
        return torch.stack([loss.detach() for loss in losses]).mean() if holds_last else None

    result = time_steps(step, dist.barrier, steps)
    with open(os.path.join(folder, f"rank{rank}.json"), "w") as out:
        json.dump(result, out)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--schedule", choices=["single", *SCHEDULES], required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    a = parser.parse_args()
    if a.schedule == "single":
        print(json.dumps(run_single(a.workload, a.steps)))
        return
    import torch.multiprocessing as multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run_rank, args=(a.workload, a.schedule, a.ranks, a.steps, folder), nprocs=a.ranks)
        results = [json.load(open(os.path.join(folder, f"rank{r}.json"))) for r in range(a.ranks)]
    losses = next(r["losses"] for r in results if r["losses"][0] is not None)
    print(json.dumps({"losses": losses, "step_seconds": results[0]["step_seconds"]}))


if __name__ == "__main__":
    main()
