"""Keeps what a GPU was measured to do (harness/exec/torch/cuda/bundled/measure) and writes results/findings/gpu.md.

    python results/gpu.py OUT       keeps the files of OUT in results/reference, and writes the page
    python results/gpu.py           writes the page again
    python results/gpu.py --check   exit code 1 where the committed page is not what the kept files give
    --into FOLDER                   of another folder than results, for a rehearsal, which is kept nowhere else

The calibrations of the kernels are made of results/reference/gpu_kernels.csv by workloads/devices/fit_products.py.
"""

import argparse
import collections
import csv
import json
import pathlib
import re
import statistics
import sys

HOME = pathlib.Path(__file__).resolve().parent
CLAIMS = HOME / "claims"
CPU_LOSSES = HOME.parent / "harness/exec/torch/cuda/bundled/cpu_losses.json"
# Of the log: how parts ended, what NCCL's calls took, and how many tests passed.
KEPT_LINES = re.compile(r'part: \{|\{"call"|measure |\[  (PASSED|SKIPPED)\s*\] \d+ test|\[  FAILED  \]')
APART = 1.05  # two runs nearer than this have no order
EQUAL = 1.001  # two predictions nearer than this are equal
LOSSES_AGREE = 1e-3


def lines_of(file):
    return file.read_text().splitlines() if file.exists() else []


class Files:
    """Those that are kept, and the page that is made of them."""

    def __init__(self, folder):
        self.runs, self.kernels, self.log = (folder / "reference" / name
                                             for name in ("gpu_runs.jsonl", "gpu_kernels.csv", "gpu_log.txt"))
        self.page = folder / "findings/gpu.md"
        for file in (self.runs, self.page):
            file.parent.mkdir(parents=True, exist_ok=True)


def keep(out, files, rehearsals):
    """Copies what came back. Fails where it is a rehearsal's that is not asked for."""
    records = [line for name in ("runs", "nccl", "peers", "validation") for line in lines_of(out / f"{name}.jsonl")]
    log = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines_of(out / "log.txt")]
    log = [re.sub(r"^measure /\S*", "measure OUT", line) for line in log]
    if not records or not log:
        sys.exit(f"error: '{out}' holds no runs.jsonl and log.txt; give the folder that measure wrote")
    if any("--rehearse" in line for line in log if line.startswith("measure ")) and not rehearsals:
        sys.exit(f"error: '{out}' is of a rehearsal, whose figures mean nothing; --into FOLDER keeps it elsewhere")
    files.runs.write_text("".join(line + "\n" for line in records))
    files.log.write_text("".join(line + "\n" for line in log if KEPT_LINES.match(line)))
    if (out / "kernels.csv").exists():
        files.kernels.write_text((out / "kernels.csv").read_text())


def seconds_of(record):
    return statistics.median(record["step_seconds"][record["warmup_steps"]:])


def case_of(record):
    """What two records of one case on two clocks or devices have in common."""
    options = {name: value for name, value in record["options"].items() if name != "optimizer"}
    return (record["workload"], record["system"], record["ranks"], record["batch"], record["microbatches"],
            json.dumps(options, sort_keys=True))


def title_of(record):
    options = record["options"]
    words = [record["system"], options.get("variant", "")]
    words += ["update after every micro-batch"] if options.get("update") == "micro_batch" else []
    words += ["batched weight gradients"] if options.get("weight_gradient") == "batched" else []
    words += ["batch whole"] if record["system"] == "single_device" and record["microbatches"] == 1 else []
    return ", ".join(word for word in words if word)


def peak(record, field):
    return max((rank["total"] for rank in record[field]), default=0)


def table(headings, rows):
    return ["| " + " | ".join(headings) + " |", "| --- |" + " ---: |" * (len(headings) - 1),
            *("| " + " | ".join(row) + " |" for row in rows), ""]


def percent(value):
    return f"{100 * value:+.1f} %"


def errors_text(what, errors):
    found = sorted(abs(error) for error in errors)
    if not found:
        return f"No {what.lower()} were measured."
    ninetieth = found[min(len(found) - 1, round(0.9 * (len(found) - 1)))]
    return (f"{what} of {len(found)} predictions: median error {100 * statistics.median(found):.1f} %, 90th percentile "
            f"{100 * ninetieth:.1f} %, largest {100 * found[-1]:.1f} %.")


def work_of(record):
    return (record["workload"], record["batch"], record["options"].get("task", "train"))


def order_text(pairs):
    """pairs: (work_of, measured, predicted)."""
    kept = tied = counted = 0
    for i, (work, measured, predicted) in enumerate(pairs):
        for other, other_measured, other_predicted in pairs[:i]:
            if work == other and max(measured, other_measured) > APART * min(measured, other_measured):
                counted += 1
                if max(predicted, other_predicted) < EQUAL * min(predicted, other_predicted):
                    tied += 1
                else:
                    kept += (measured > other_measured) == (predicted > other_predicted)
    return (f"Of {counted} pairs of one workload and batch that differ by more than 5 %, {kept} are predicted in their "
            f"order and {tied} as equal.")


def clocks(records):
    """The section, and its errors: of times of one device, of times of ranks that share it, of peaks."""
    of_profiles = [r for r in records if r["cost_source"] == "profile" and "validation" not in r["environment"]]
    measured = [r for r in of_profiles if r["clock"] == "wall"]
    predicted = {case_of(r): r for r in of_profiles if r["clock"] == "virtual" and r["outcome"] == "ok"}
    alone, shared, memories, pairs = [], [], [], []
    by_workload = collections.defaultdict(list)
    for record in measured:
        if record["outcome"] != "ok":
            row = [title_of(record), str(record["ranks"]), record["outcome"], *[""] * 4]
            by_workload[record["workload"]].append(row)
            continue
        seconds, real = seconds_of(record), peak(record, "peak_bytes")
        memory = peak(record, "predicted_peak_bytes") / real - 1 if real else None
        row = [title_of(record), str(record["ranks"]), f"{1e3 * seconds:.1f} ms", "", "", f"{real / 2**30:.2f} GiB",
               "" if memory is None else percent(memory)]
        if memory is not None:
            memories.append(memory)
        if found := predicted.get(case_of(record)):
            error = seconds_of(found) / seconds - 1
            (alone if record["ranks"] == 1 else shared).append(error)
            pairs.append((work_of(record), seconds, seconds_of(found)))
            row[3:5] = [f"{1e3 * seconds_of(found):.1f} ms", percent(error)]
        by_workload[record["workload"]].append(row)
    text = ["## Systems on both clocks", "",
            "An update, measured, and predicted with costs that were measured layer by layer on the same GPU; ranks",
            "share it. Asynchronous systems update after smaller batches. The peak is of the fullest rank. The profile",
            "of these records let the GPU wait for the host before every layer, and a rank that shares a GPU waits for",
            "no other rank's host: both make the prediction too slow. `sluice profile` keeps the GPU busy now; that",
            "was not measured yet.", ""]
    headings = ["system", "ranks", "update", "predicted", "error", "peak", "memory's error"]
    for workload, rows in by_workload.items():
        text += [f"`{workload}`:", "", *table(headings, rows)]
    summary = [errors_text("Times on one device", alone), errors_text("Times of ranks that share it", shared),
               errors_text("Peaks", memories)]
    return text + [*summary, order_text(pairs), ""], summary


def validation(records):
    """The section, and the errors of its peaks."""
    cases = collections.defaultdict(dict)
    for record in records:
        if (of := record["environment"].get("validation")) and record["outcome"] == "ok":
            cases[of["label"], of["round"]][record["clock"]] = record
    both = {label: pair for (label, _), pair in cases.items() if len(pair) == 2}
    if not both:
        return [], []
    rows, times, peaks, pairs = [], [], [], []
    for label, pair in sorted(both.items()):
        measured, predicted = seconds_of(pair["wall"]), seconds_of(pair["virtual"])
        times.append(predicted / measured - 1)
        peaks.append(peak(pair["wall"], "predicted_peak_bytes") / peak(pair["wall"], "peak_bytes") - 1)
        pairs.append((work_of(pair["wall"]), measured, predicted))
        rows.append([label, f"{1e3 * measured:.1f} ms", f"{1e3 * predicted:.1f} ms", percent(times[-1]),
                     percent(peaks[-1])])
    of_peaks = errors_text("Peaks on two ranks", peaks)
    return ["## Systems on two ranks, until the time limit", "",
            "`sluice validate --quick --device cuda`: two ranks that share the GPU; medians of updates. Predicted",
            "peaks leave out buffers, here the memory that cuDNN's and cuBLAS's kernels work in.", "",
            *table(["case", "update", "predicted", "error", "memory's error"], rows),
            errors_text("Times", times), of_peaks, order_text(pairs), ""], [of_peaks]


def losses(records):
    expected = json.loads(CPU_LOSSES.read_text()) if CPU_LOSSES.exists() else {}
    rows = []
    for record in records:
        if record["clock"] != "wall" or record["cost_source"] != "analytic" or record["system"] == "pytorch":
            continue
        of_cpu = expected.get(f"{record['workload']} {record['system']} batch {record['batch']}")
        of_gpu = [point["loss"] for point in record["curve"] if point["loss"] is not None]
        if of_cpu and of_gpu:
            apart = max(abs(a - b) / abs(b) for a, b in zip(of_gpu, of_cpu))
            rows.append([record["workload"], record["system"], str(min(len(of_gpu), len(of_cpu))), f"{apart:.1e}",
                         "yes" if apart <= LOSSES_AGREE else "no"])
    if not rows:
        return []
    return ["## The first losses, against the CPU's", "",
            f"The largest relative difference; {LOSSES_AGREE:g} is what fp32 kernels of other orders may make.",
            "ResNet-152 normalises over two samples here, and its first loss is already 2e-5 apart.", "",
            *table(["workload", "system", "updates", "difference", "agrees"], rows)]


def nccl(records, log):
    calls = [json.loads(line) for line in log if line.startswith('{"call"')]
    runs = [r for r in records if r["transport"] == "nccl"]
    if not calls and not runs:
        return []
    text = ["## NCCL between two processes on one GPU", "",
            "Over sockets, each process as if on a host of its own: it shows that it is right, not how fast it is.", ""]
    if calls:
        text += ["PyTorch's own calls:", "", *table(["call", "bytes", "seconds", "right"], (
            [c["call"], f"{c['bytes']:,}", f"{c['seconds']:.2e}", "yes" if c["right"] else "no"] for c in calls))]
    if runs:
        text += ["Sluice's transport:", "", *table(["system", "workload", "outcome", "update"], (
            [r["system"], r["workload"], r["outcome"], f"{1e3 * seconds_of(r):.1f} ms" if r["outcome"] == "ok" else "-"]
            for r in runs))]
    return text


def peers(records):
    of_peers = [r for r in records if r["system"] == "pytorch"]
    if not of_peers:
        return []
    rows = [[r["workload"], "PyTorch " + r["options"]["schedule"], f"{1e3 * seconds_of(r):.2f} ms"] for r in of_peers]
    workloads = {r["workload"] for r in of_peers}
    rows += [[r["workload"], "Sluice " + title_of(r), f"{1e3 * seconds_of(r):.2f} ms"] for r in records
             if r["workload"] in workloads and r["cost_source"] == "analytic" and r["transport"] == "threads"
             and r["outcome"] == "ok"]
    return ["## PyTorch's own pipeline on the same work", "",
            "Two ranks that share the GPU: PyTorch's are processes that talk over NCCL, Sluice's are threads.", "",
            *table(["workload", "runtime and schedule", "update"], sorted(rows))]


def kernels(file):
    rows = [row for row in csv.DictReader(lines_of(file)) if row["timed"] == "graph" and row["kernel"] != "launch"]
    best = collections.defaultdict(float)
    for row in rows:
        if row["seconds"] and float(row["flop"] or 0) > 0:
            key = (row["kernel"], row["types"])
            best[key] = max(best[key], float(row["flop"]) / float(row["seconds"]) / 1e12)
    streams = collections.defaultdict(float)
    for row in rows:
        if row["seconds"] and not float(row["flop"] or 0) and float(row["bytes"] or 0) > 0:
            key = (row["kernel"], row["types"])
            streams[key] = max(streams[key], float(row["bytes"]) / float(row["seconds"]) / 1e9)
    if not rows:
        return []
    return ["## Kernels", "",
            f"{len(rows):,} timings in CUDA graphs, by PyTorch {rows[0]['torch']}: single kernels and whole blocks.",
            "The table has the fastest shapes, `results/reference/gpu_kernels.csv` all.", "",
            *table(["kernel", "type", "TFLOP/s"], ([k, t, f"{v:.1f}"] for (k, t), v in sorted(best.items()))),
            *table(["kernel", "type", "GB/s"], ([k, t, f"{v:.0f}"] for (k, t), v in sorted(streams.items())))]


def errors_of_claims():
    """(group, number, median of |ratio - 1|, its 90th percentile, median ratio) of results/claims/gpu.json."""
    if not (CLAIMS / "gpu.json").exists():
        return []
    groups = json.loads((CLAIMS / "gpu.json").read_text())["groups"]
    outcomes = json.loads((CLAIMS / "gpu.results.json").read_text())["outcomes"]
    ours = {(outcome["group"], outcome["name"]): outcome["ours"] for outcome in outcomes}
    rows = []
    for group in groups:
        ratios = [ours[group["name"], claim["name"]] / claim["published"] for claim in group["claims"]]
        errors = sorted(abs(ratio - 1) for ratio in ratios)
        rows.append((group["name"], len(ratios), statistics.median(errors), errors[(len(errors) - 1) * 9 // 10],
                     statistics.median(ratios)))
    return rows


def by_shape():
    rows = errors_of_claims()
    if not rows:
        return []
    return ["## Blocks and steps from costs by shape", "",
            "Predicted from the calibration `h100_hbm3_bf16`, which is fitted to single kernels; every row is in",
            "[the claims](../claims/gpu.md). GPT blocks of width 768 to 6,144, with 512 to 8,192 tokens, whole and as",
            "one rank of 2 or 8 tensor-parallel ranks has them.", "",
            *table(["rows", "number", "error, median", "90th percentile", "predicted over measured"],
                   ([name, str(number), f"{100 * middle:.1f} %", f"{100 * ninetieth:.1f} %", f"{ratio:.3f}"]
                    for name, number, middle, ninetieth, ratio in rows))]


def answers(sections):
    lines = []
    if rows := errors_of_claims():
        forward, backward, graph = (f"{100 * middle:.1f} %" for _, _, middle, _, _ in rows[:3])
        lines = [f"- GPT in bf16 from kernels, median error: forward of a block {forward}, backward {backward}, whole "
                 f"training steps {graph}."]
    return [*lines, *(f"- {section}" for section in sections)]


def page_of(files):
    records = [json.loads(line) for line in lines_of(files.runs)]
    log = lines_of(files.log)
    machine = next((r["environment"] for r in records if r["clock"] == "wall"), {})
    gpus = ", ".join(gpu["name"] for gpu in machine.get("gpu") or []) or "no GPU"
    cuda = machine.get("cuda") or {}
    parts = [json.loads(line.removeprefix("part: ")) for line in log if line.startswith("part: ")]
    tests = [f"{found[2]} {found[1].lower()}" for line in log
             if (found := re.match(r"\[  (PASSED|FAILED|SKIPPED)\s*\] ([1-9]\d* tests?)", line))]
    failed = sorted({found[1] for line in log if (found := re.match(r"\[  FAILED  \] (\S*\.[^\s,]*)", line))})
    text = ["<!-- Made by: python results/gpu.py; a test compares it with the files it is made of. -->", "# On a GPU",
            "", "How far are the virtual clock's predictions from what we measured on a GPU?", ""]
    systems, summary = clocks(records)
    on_two_ranks, peaks = validation(records)
    text += [*answers([*summary, *peaks]), "",
            f"Measured by us on {gpus}: CUDA {cuda.get('runtime')}, driver {cuda.get('driver')}, LibTorch "
            f"{machine.get('torch')}, commit `{machine.get('commit')}`.",
            "Measured by others: the tables of [external.md](external.md), and the calibrations in `workloads/devices`",
            "that name another source. Derived: the times of every other device.", ""]
    if parts:
        text += table(["part", "ended", "seconds"],
                      ([p["part"], {0: "done", 124: "cut off by its time limit"}.get(p["status"], "failed"),
                        f"{p['seconds']:.0f}"] for p in parts))
    if tests:
        text += [f"`cuda_test`, program by program: {', '.join(tests)}."
                 + "".join(f" Failed: `{name}`." for name in failed), ""]
    text += [*by_shape(), *systems, *on_two_ranks, *losses(records), *nccl(records, log), *peers(records),
             *kernels(files.kernels)]
    return "\n".join(text).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path, help="folder that measure wrote")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--into", type=pathlib.Path, help="folder (default: results)")
    a = parser.parse_args()
    files = Files(a.into or HOME)
    if a.out:
        keep(a.out, files, rehearsals=a.into is not None)
    if not files.runs.exists():
        print(f"no GPU was measured yet: there is no {files.runs.name}")
        return
    text = page_of(files)
    if a.check:
        sys.exit(0 if "".join(line + "\n" for line in lines_of(files.page)) == text else
                 f"error: {files.page.name} is not what its files give; run: python results/gpu.py")
    files.page.write_text(text)
    print(files.page)


if __name__ == "__main__":
    main()
