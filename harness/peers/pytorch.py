#!/usr/bin/env python3
"""PyTorch's side of the peers benchmark: a line of JSON on stdout for every schedule.

The work is that of the workloads tiny, mlp1024 and tfm256: the same layers, initial weights
(torch.manual_seed(seed + block) before each block), batch (generator seed 7), micro-batches, loss and
SGD step, on torch.distributed.pipelining over Gloo processes, or in one process that accumulates the
gradients of the micro-batches or takes the batch whole. With --device cuda the processes talk over NCCL; where they
share a GPU, NCCL is told that they are two hosts.

    pytorch.py --workload tiny --schedule 1F1B --seed 1000 --steps 100
"""
import argparse
import json
import os
import re
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
import torch.distributed.pipelining as pipelining
import torch.distributed.pipelining.schedules as schedules
import torch.multiprocessing as multiprocessing
import torch.nn as nn
import torch.nn.functional as F

RANKS = 2
WARMUP_STEPS = 5
WORKLOADS = {  # layers, micro-batch, micro-batches, shape of a sample
    "tiny": (8, 8, 8, (64,)),
    "mlp1024": (8, 32, 8, (1024,)),
    "tfm256": (8, 1, 8, (128, 256)),
}
ONE_PROCESS = ["accumulated", "whole batch"]
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


def set_up_rank(device, rank):
    """The device of this process."""
    torch.set_num_threads(1)
    if device == "cpu":
        return torch.device("cpu")
    gpus = torch.cuda.device_count()
    if gpus < RANKS:
        os.environ.update(NCCL_HOSTID=f"peer-{rank}", NCCL_NET="Socket", NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1",
                          NCCL_MULTI_RANK_GPU_ENABLE="1")
    torch.cuda.set_device(rank % gpus)
    return torch.device("cuda", rank % gpus)


def make_blocks(workload, seed, first, end, device):
    layers, _, _, shape = WORKLOADS[workload]
    blocks = []
    for index in range(first, end):
        torch.manual_seed(seed + index)
        blocks.append(TransformerBlock(256, 4, 1024) if workload == "tfm256" else
                      LinearRelu(shape[0], index + 1 < layers))
    return nn.Sequential(*blocks).to(device)


def make_batch(workload, device):
    _, micro_batch, microbatches, shape = WORKLOADS[workload]
    generator = torch.Generator().manual_seed(7)
    full = (micro_batch * microbatches, *shape)
    return [torch.randn(full, generator=generator).to(device) for _ in range(2)]


def time_steps(step, barrier, steps, device):
    """What a record holds of the updates: the warm-up's one by one, then means of several updates each, because an
    update of tiny is below a millisecond."""
    losses, seconds = [], []

    def meet():
        if device.type == "cuda":
            torch.cuda.synchronize()
        barrier()

    for group in [1] * WARMUP_STEPS + [max(1, steps // 20)] * min(20, steps):
        meet()
        begin = time.perf_counter()
        for _ in range(group):
            losses.append(step())
        meet()
        seconds.append((time.perf_counter() - begin) / group)
    first = [None if loss is None else float(loss) for loss in losses[:3]]
    return {"losses": first, "step_seconds": seconds}


def train_in_one_process(a, schedule, device):
    layers, _, microbatches, _ = WORKLOADS[a.workload]
    parts = microbatches if schedule == "accumulated" else 1
    model = make_blocks(a.workload, a.seed, 0, layers, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = make_batch(a.workload, device)
    pairs = list(zip(x.chunk(parts), y.chunk(parts)))

    def step():
        optimizer.zero_grad()
        total = 0.0
        for inputs, targets in pairs:
            loss = F.mse_loss(model(inputs), targets) / parts
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    return time_steps(step, lambda: None, a.steps, device)


def train_in_pipeline(a, schedule, rank, folder, device):
    rendezvous = "file://" + os.path.join(folder, "rendezvous")
    dist.init_process_group("gloo" if device.type == "cpu" else "nccl", init_method=rendezvous, rank=rank,
                            world_size=RANKS)
    class_name, chunks, v_placement = SCHEDULES[schedule]
    stage_count = RANKS * chunks
    layers, _, microbatches, _ = WORKLOADS[a.workload]
    size = layers // stage_count
    own = [rank] if chunks == 1 else [rank, stage_count - 1 - rank if v_placement else rank + RANKS]
    stages, parameters = [], []
    for s in own:
        module = make_blocks(a.workload, a.seed, s * size, (s + 1) * size, device)
        parameters += list(module.parameters())
        stages.append(pipelining.PipelineStage(module, s, stage_count, device))
    runner = getattr(schedules, class_name)(stages if chunks > 1 else stages[0], microbatches, loss_fn=F.mse_loss)
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    x, y = make_batch(a.workload, device)
    holds_last = stage_count - 1 in own

    def step():
        optimizer.zero_grad()
        losses = []
        inputs = (x,) if 0 in own else ()
        runner.step(*inputs, **({"target": y, "losses": losses} if holds_last else {}))
        optimizer.step()
        return torch.stack([loss.detach() for loss in losses]).mean() if holds_last else None

    result = time_steps(step, dist.barrier, a.steps, device)
    dist.barrier()
    dist.destroy_process_group()
    return result


def run_rank(rank, a, schedule, folder):
    device = set_up_rank(a.device, rank)
    result = train_in_one_process(a, schedule, device) if schedule in ONE_PROCESS else train_in_pipeline(
        a, schedule, rank, folder, device)
    # Not in the parent: this starts CUDA, and a process that is forked after that cannot use it.
    result["compiler"] = re.search(r"(GCC|clang) [\d.]+", torch.__config__.show()).group()
    with open(os.path.join(folder, f"rank{rank}.json"), "w") as out:
        json.dump(result, out)


def measure(a, schedule):
    ranks = 1 if schedule in ONE_PROCESS else RANKS
    with tempfile.TemporaryDirectory() as folder:
        # New processes for every schedule. They are forks, because importing torch takes seconds.
        multiprocessing.start_processes(run_rank, args=(a, schedule, folder), nprocs=ranks, start_method="fork")
        results = [json.load(open(os.path.join(folder, f"rank{r}.json"))) for r in range(ranks)]
    losses = next(r["losses"] for r in results if r["losses"][0] is not None)
    return {"schedule": schedule, "ranks": ranks, "losses": losses, "step_seconds": results[0]["step_seconds"],
            "warmup_steps": WARMUP_STEPS, "version": torch.__version__, "compiler": results[0]["compiler"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--schedule", choices=[*ONE_PROCESS, *SCHEDULES], action="append",
                        help="default: every one; may be repeated")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="what ranks compute on (default: cpu)")
    parser.add_argument("--seed", type=int, default=1000, help="of the first block's weights")
    parser.add_argument("--steps", type=int, default=100, help="updates that are timed, after the warm-up")
    a = parser.parse_args()
    for schedule in a.schedule or [*ONE_PROCESS, *SCHEDULES]:
        print(json.dumps(measure(a, schedule)), flush=True)


if __name__ == "__main__":
    main()
