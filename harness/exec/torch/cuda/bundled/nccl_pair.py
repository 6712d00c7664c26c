"""PyTorch's own NCCL between two processes that share one GPU: is it possible here, and what does it cost?

    python3 nccl_pair.py [--rehearse]

Starts two processes with the environment that lets NCCL take one GPU for two hosts (./run with SLUICE_SHARE_GPU=1 sets
the same), checks each collective's result, and prints a line of JSON for each size. If this fails, the same of Sluice's
transport cannot work and is not its fault. --rehearse: the same over Gloo on the CPU.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time

SIZES = (1, 1 << 10, 1 << 16, 1 << 20, 1 << 24)  # floats
REPEATS = 5


def share_gpu(rank):
    return {"NCCL_HOSTID": f"sluice-rank-{rank}", "NCCL_NET": "Socket", "NCCL_P2P_DISABLE": "1",
            "NCCL_SHM_DISABLE": "1", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}


def cases(dist, rank):
    """Name, what the call does to its tensor, and the sum of what it must be then over that of ones."""
    import torch

    def send(x):
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0)

    def gather(x):
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x)
        x.copy_(parts[0] + parts[1])

    def scatter(x):
        out = torch.empty_like(x)
        dist.reduce_scatter_tensor(out, torch.cat([x, x]))
        x.copy_(out)

    yield "all_reduce", dist.all_reduce, 3  # ranks hold 1 and 2
    yield "all_gather", gather, 3
    yield "reduce_scatter", scatter, 3
    yield "broadcast", lambda x: dist.broadcast(x, 0), 1
    yield "send", send, 1


def work(rank, folder, rehearse):
    import torch
    import torch.distributed as dist
    device = "cpu" if rehearse else "cuda:0"
    dist.init_process_group("gloo" if rehearse else "nccl", init_method=f"file://{folder}/rendezvous", rank=rank,
                            world_size=2, timeout=datetime.timedelta(seconds=30))

    def wait():
        if not rehearse:
            torch.cuda.synchronize()

    for name, call, expected in cases(dist, rank):
        for size in SIZES[:2] if rehearse else SIZES:
            seconds = []
            for _ in range(REPEATS):
                x = torch.full((size,), 1.0 + rank, device=device)
                wait()
                begin = time.perf_counter()
                call(x)
                wait()
                seconds.append(time.perf_counter() - begin)
                right = bool((x == expected).all())
            if rank == 0 or not right:
                print(json.dumps({"call": name, "bytes": 4 * size, "seconds": min(seconds), "right": right,
                                  "version": None if rehearse else torch.cuda.nccl.version()}), flush=True)
            if not right:
                sys.exit(1)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rehearse", action="store_true", help="over Gloo on the CPU")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.rank is not None:
        return work(a.rank, a.folder, a.rehearse)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--folder", folder, *(["--rehearse"] if a.rehearse else [])]
        ranks = [subprocess.Popen([*command, "--rank", str(r)], env={**os.environ, **share_gpu(r)}) for r in range(2)]
        sys.exit(max(abs(p.wait()) for p in ranks))


if __name__ == "__main__":
    main()
