"""What results/gpu.py makes of files that a GPU could have sent back, by figures that are computed by hand."""

import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).resolve().parent / "gpu.py"
MACHINE = {"commit": "abc", "torch": "2.11.0", "gpu": [{"name": "a GPU"}],
           "cuda": {"runtime": "13.0", "driver": "13.1"}}


def record(system, seconds, clock="wall", costs="profile", transport="threads", peaks=(2 << 30, 1 << 30), losses=(),
           **more):
    return {"system": system, "workload": "vgg16_batch64", "clock": clock, "cost_source": costs, "transport": transport,
            "ranks": 4, "batch": 8, "microbatches": 8, "options": {}, "outcome": "ok", "environment": MACHINE,
            "warmup_steps": 1, "step_seconds": [9, seconds, seconds, 3 * seconds],
            "peak_bytes": [{"total": peak} for peak in peaks], "predicted_peak_bytes": [{"total": 11 * peaks[0] // 10}],
            "curve": [{"loss": loss} for loss in losses], **more}


def made_of(folder, records, log, *flags):
    out = folder / "out"
    out.mkdir(exist_ok=True)
    (out / "runs.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (out / "log.txt").write_text(log)
    (out / "kernels.csv").write_text("device,torch,kernel,types,timed,seconds,flop,bytes\r\n"
                                     "a GPU,2.11.0,product,bf16,graph,0.001,500000000000,0\r\n"
                                     "a GPU,2.11.0,product,bf16,graph,0.001,700000000000,0\r\n"
                                     "a GPU,2.11.0,product,bf16,queued,0.0001,700000000000,0\r\n"
                                     "a GPU,2.11.0,copy,fp32,graph,0.001,0,3000000000\r\n"
                                     "a GPU,2.11.0,product,fp16,graph,,100,0\r\n")
    return subprocess.run([sys.executable, str(PROGRAM), *flags], capture_output=True, text=True)


def main():
    log = ('measure OUT, 2026\n[  PASSED  ] 20 tests.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Cuda.Odd\n'
           'part: {"part": "tests", "status": 1, "seconds": 61.2}\n'
           'part: {"part": "kernels", "status": 124, "seconds": 90.0}\n'
           '{"call": "all_reduce", "bytes": 4096, "seconds": 0.0002, "right": true}\n')
    records = [record("gpipe", 0.100), record("gpipe", 0.104, "virtual"),
               record("one_f_one_b", 0.080), record("one_f_one_b", 0.100, "virtual"),
               record("zero_bubble", 0.050), record("zero_bubble", 0.104, "virtual"),
               record("pipedream", 0.010, batch=1), record("pipedream", 0.0125, "virtual", batch=1),
               *(record("spp", seconds, clock, environment={**MACHINE, "validation": {"label": "spp a", "round": 0}})
                 for clock, seconds in (("wall", 0.1), ("virtual", 0.12))),
               record("single_device", 0.3, costs="analytic", losses=(2.0, 1.001, 0.5)),
               record("one_f_one_b", 0.2, costs="analytic", transport="nccl")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        done = made_of(folder, records, log, str(folder / "out"), "--into", str(folder / "kept"))
        page = (folder / "kept/findings/gpu.md").read_text() if done.returncode == 0 else done.stderr
        for line in ["| tests | failed | 61 |", "| kernels | cut off by its time limit | 90 |",
                     "`cuda_test`, program by program: 20 tests passed, 1 test failed. Failed: `Cuda.Odd`.",
                     "Measured by us on a GPU: CUDA 13.0, driver 13.1, LibTorch 2.11.0, commit `abc`.",
                     "| gpipe | 4 | 100.0 ms | 104.0 ms | +4.0 % | 2.00 GiB | +10.0 % |",
                     "| zero_bubble | 4 | 50.0 ms | 104.0 ms | +108.0 % | 2.00 GiB | +10.0 % |",
                     # Errors 4 %, 25 %, 25 %, 108 %; three pairs of one batch (PipeDream's is another): gpipe after
                     # one_f_one_b is predicted so, and equal to zero_bubble.
                     "Times of ranks that share it of 4 predictions: median error 25.0 %, 90th percentile 108.0 %, "
                     "largest 108.0 %.",
                     "Of 3 pairs of one workload and batch that differ by more than 5 %, 1 are predicted in their "
                     "order and 1 as equal.",
                     "| spp a | 100.0 ms | 120.0 ms | +20.0 % | +10.0 % |",
                     "| all_reduce | 4,096 | 2.00e-04 | yes |", "| one_f_one_b | vgg16_batch64 | ok | 200.0 ms |",
                     "| vgg16_batch64 | single_device | 3 | 9.3e-01 | no |",
                     "| product | bf16 | 700.0 |", "| copy | fp32 | 3000 |"]:
            if line not in page:
                sys.exit(f"the page lacks '{line}':\n{page}")
        if made_of(folder, records, log, "--check", "--into", str(folder / "kept")).returncode != 0:
            sys.exit("--check rejects the page that was just written")
        (folder / "kept/findings/gpu.md").write_text(page.replace("104.0", "100.0"))
        if made_of(folder, records, log, "--check", "--into", str(folder / "kept")).returncode != 1:
            sys.exit("--check takes a page that was changed")
        rehearsal = made_of(folder, records, log.replace("OUT", "OUT --rehearse"), str(folder / "out"))
        if rehearsal.returncode != 1 or "rehearsal" not in rehearsal.stderr:
            sys.exit("a rehearsal is kept among the results")


if __name__ == "__main__":
    main()
