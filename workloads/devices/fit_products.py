"""Fits the 16-bit calibrations of workloads/devices to measured products (needs numpy and scipy).

    python workloads/devices/fit_products.py [CALIBRATION ...]

reads harness/model/testdata/gemm_16bit.csv and gemm_a100.csv and writes h100_sxm_bf16.json and the like. Rows with
held_out = 1 are never fitted; harness/model/calibration_16bit_test.cpp computes their errors again. A fit is the tile
model of harness/model/kernel_times.h, then weights of a Gaussian process on what it misses (`corrections`), whose
lengths are chosen by leaving out one fitted row at a time. The A100 has the H100's parameters with its own peak,
bandwidth and multiprocessors; two of them, peak_share and quantisation, come from its own products.

    python workloads/devices/fit_products.py --kernels results/reference/gpu_kernels.csv

writes a calibration for each type of which that file (harness/exec/torch/cuda/bundled/kernels.py) has the grid of
products: h100_hbm3_bf16.json and the like, with convolutions, attention and streams as measured there. All are times of
the device alone; what a host needs to start a kernel is a setting (host_gap).
"""

import argparse
import csv
import hashlib
import itertools
import json
import pathlib
import re

import numpy as np
from scipy.optimize import minimize

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent.parent / "harness/model/testdata"
TILES = [(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (32, 128), (128, 32),
         (32, 32)]
SPLITS = [1, 2, 3, 4, 6, 8, 12, 16, 32]
NAMES = ["peak_share", "half_intensity", "prologue", "quantisation", "bandwidth_share", "gap"]
LOW = np.array([0.2, 0.1, 0.1, 0, 0.05, 0])
HIGH = np.array([1.3, 1000, 2000, 1, 4, 40e-6])

XLA = ("OpenXLA (Apache 2.0), xla/service/gpu/model, as shipped in jax-cuda13-pjrt 0.12.0.1: 375 products in bf16 from "
       "256 to 4096 a side, of which 256 are fitted. Peak, bandwidth and multiprocessors: data sheets")
VIDUR = ("the H100's curve (h100_sxm_bf16) with the A100's peak, bandwidth and 108 multiprocessors; peak_share and "
         "quantisation from products in fp16 of microsoft/vidur (MIT), data/profiling/compute/a100. Peak, bandwidth "
         "and multiprocessors: data sheet")
GRID = "The products are on a grid of powers of two from 256 to 4096 a side: far from it the tile model alone answers."
SUSTAINED = ("The products were timed alone, on a cool device: in long runs an H100 lowers its clock and reaches 0.86 "
             "of this (out_of_range, vidur's products of 3,456 to 4,096 tokens).")
IRREGULAR = ("Two products that differ by swapping m and n take times {:.0%} apart at the 90th percentile: which "
             "kernel the library chooses decides as much as the shape, and no model of the shape alone was closer.")
ASSUMED = "The shares of attention are assumed, from reports of such kernels on this device; they are not fitted."
STREAMS = "Kernels that only stream take 0.8 of the bandwidth and 5 us, which is not fitted."
DEVICES = {
    "h100_sxm_bf16": dict(
        rows="h100_sxm", device="NVIDIA H100 SXM5", peak=989.4e12, bandwidth=3350, sms=132, quantisation=0.5,
        attention=dict(forward_share=0.4, backward_share=0.33), streams=(0.9, "2us", 0.32, 0.58), cautions=[
            SUSTAINED, GRID, ASSUMED,
            "quantisation is set to what the A100's products give: on powers of two it is not determined.",
            "An addition of 200 MB reached 0.97 of the bandwidth (vidur), a part of it in the cache: 0.9 is stated. "
            "Norms and activations are vLLM's RMSNorm and SiLU as vidur measured them; others' may be faster."]),
    "b200_bf16": dict(
        rows="b200", device="NVIDIA B200", peak=2250e12, bandwidth=8000, sms=148,
        attention=dict(forward_share=0.5, backward_share=0.4),
        streams=(0.8, "5us"), cautions=[GRID, ASSUMED, STREAMS]),
    "mi300x_bf16": dict(
        rows="mi300x", device="AMD MI300X", peak=1307.4e12, bandwidth=5300, sms=304,
        attention=dict(forward_share=0.3, backward_share=0.2),
        streams=(0.8, "5us"), cautions=[GRID, ASSUMED, STREAMS]),
    "mi355x_bf16": dict(
        rows="mi355x", device="AMD MI355X", peak=2516.6e12, bandwidth=8000, sms=256,
        attention=dict(forward_share=0.3, backward_share=0.2),
        streams=(0.8, "5us"), cautions=[GRID, ASSUMED, STREAMS]),
}


def read(file, device):
    lines = [line for line in (DATA / file).read_text().splitlines() if not line.startswith("#")]
    rows = [row for row in csv.DictReader(lines) if row["device"] == device]
    shapes = np.array([[float(row[key]) for key in ("batch", "m", "n", "k")] for row in rows])
    seconds = 2 * shapes.prod(1) / np.array([float(row["flop_per_second"]) for row in rows])
    return shapes, seconds, np.array([row["held_out"] == "1" for row in rows])


def tile_seconds(p, shapes, peak, bandwidth, sms, element=2, moved=None):
    """least_seconds of kernel_times.cpp, of tensors of `element` bytes a number, and the gap. moved: the numbers that
    are read and written, of a convolution, whose reduction is split at no cost."""
    share, half, prologue, quantisation, bandwidth_share, gap = p
    batch, m, n, k = shapes.T
    rate = bandwidth * bandwidth_share
    traffic = element * (batch * (m * k + k * n + m * n) if moved is None else moved) / rate
    least = np.full(len(shapes), np.inf)
    for rows, columns in TILES:
        intensity = rows * columns / (rows + columns)
        reached = peak * share * min(1, intensity / (intensity + half) * (64 + half) / 64)
        tiles = batch * np.ceil(m / rows) * np.ceil(n / columns)
        for parts in SPLITS:
            each = tiles * parts / sms
            waves = (1 - quantisation) * np.maximum(1, each) + quantisation * np.ceil(each)
            compute = waves * 2 * rows * columns * (np.ceil(k / parts) + prologue) * sms / reached
            again = 8 * parts * batch * m * n / rate if parts > 1 and moved is None else 0
            allowed = (parts == 1) | (k / parts >= 48)
            least = np.where(allowed, np.minimum(least, np.maximum(compute, traffic) + again), least)
    return least + gap


def fit(seconds_of, measured, start, low, high):
    """Least mean of |log(seconds / measured)|, and a part of its 90th percentile."""
    def bounded(z):
        return low + (high - low) / (1 + np.exp(-np.clip(z, -500, 500)))

    def loss(z):
        errors = np.abs(np.log(seconds_of(bounded(z)) / measured))
        return errors.mean() + 0.15 * np.quantile(errors, 0.9)

    z = np.log((start - low + 1e-9) / (high - start + 1e-9))
    for _ in range(3):
        z = minimize(loss, z, method="Nelder-Mead", options=dict(maxiter=900, xatol=1e-4, fatol=1e-6)).x
    return loss(z), bounded(z)


def similarity(a, b, lengths):
    a, b = np.log2(a) / lengths, np.log2(b) / lengths
    return np.exp(-((a[:, None] - b[None]) ** 2).sum(2) / 2)


def corrections_of(shapes, missed):
    best = None
    for batch, side, reduction, noise in itertools.product((1, 2, 4), (0.6, 0.8, 1, 1.5, 2), (0.6, 1, 1.5, 2),
                                                           (0.1, 0.3, 1)):
        lengths = np.array([batch, side, side, reduction])
        inverse = np.linalg.inv(similarity(shapes, shapes, lengths) + noise * np.eye(len(shapes)))
        errors = np.abs(np.exp(-(inverse @ missed) / np.diag(inverse)) - 1)  # of each row by all others
        score = 2.5 * np.median(errors) + np.quantile(errors, 0.9)
        if best is None or score < best[0]:
            best = (score, lengths, inverse @ missed)
    return best[1], best[2]


def errors(seconds, measured):
    found = np.sort(np.abs(seconds / measured - 1))
    return {"median": float(f"{np.median(found):.3g}"), "ninetieth": float(f"{found[(len(found) - 1) * 9 // 10]:.3g}")}


def write(name, spec, source, products, notes):
    products["gap"] = f"{products['gap'] * 1e6:.4g}us"
    text = json.dumps({
        "schema": "sluice/calibration/1", "device": spec["device"], "precision": spec.get("precision", "bf16"),
        **spec.get("evidence", {}), "source": source,
        "peak": spec["peak"], "memory_bandwidth": f"{spec['bandwidth']}GB/s", "multiprocessors": spec["sms"],
        "products": products,
        **({"convolutions": spec["convolutions"]} if spec.get("convolutions") else {}),
        "attention": spec["attention"],
        "streams": dict(zip(("bandwidth_share", "gap", "norm_share", "activation_share"), spec["streams"])),
        "cautions": spec["cautions"] + notes}, indent=2)
    # A row of weights on one line.
    text = re.sub(r"\[\s+((?:-?[\d.e-]+,\s+){3,4}-?[\d.e-]+)\s+\]",
                                lambda m: "[" + " ".join(m.group(1).split()) + "]", text)
    (HERE / f"{name}.json").write_text(text + "\n")
    print(name, {key: value for key, value in products.items() if key != "corrections"})


def fit_shapes(shapes, measured, held, machine, element, quantisation=None):
    """The members of "products", the parameters, the seconds of any shapes, and how far the tile model alone is off."""
    fitted = ~held
    starts = [np.array([0.8, 30, 100, 0.8, 0.8, 3e-6]), np.array([0.7, 5, 300, 0.3, 0.6, 5e-6])]
    low, high = LOW.copy(), HIGH.copy()
    if quantisation is not None:
        low[3], high[3] = quantisation - 1e-9, quantisation + 1e-9
        for start in starts:
            start[3] = quantisation

    def tile_of(p, of):
        return tile_seconds(p, of, *machine, element)

    parameters = min((fit(lambda p: tile_of(p, shapes[fitted]), measured[fitted], start, low, high)
                      for start in starts), key=lambda result: result[0])[1]
    tile = tile_of(parameters, shapes)
    lengths, weights = corrections_of(shapes[fitted], np.log(measured / tile)[fitted])
    weights = np.array([float(f"{weight:.5g}") for weight in weights])

    def seconds_of(of):
        return tile_of(parameters, of) * np.exp(similarity(of, shapes[fitted], lengths) @ weights)

    products = {key: float(f"{value:.4g}") for key, value in zip(NAMES, parameters)}
    products["points"] = int(fitted.sum())
    products["held_out"] = errors(seconds_of(shapes[held]), measured[held])
    corrections = {"lengths": [float(lengths[0]), float(lengths[1]), float(lengths[3])],
                   "weights": [[*map(int, shape), float(weight)] for shape, weight in zip(shapes[fitted], weights)]}
    alone = "Without corrections the held-out error is {median} in the median and {ninetieth} at the 90th percentile."
    return products, corrections, parameters, seconds_of, alone.format(**errors(tile[held], measured[held]))


def fit_grid(name):
    spec = DEVICES[name]
    shapes, measured, held = read("gemm_16bit.csv", spec["rows"])
    machine = (spec["peak"], spec["bandwidth"] * 1e9, spec["sms"])
    products, corrections, parameters, seconds_of, alone = fit_shapes(shapes, measured, held, machine, 2,
                                                                      spec.get("quantisation"))
    notes = [alone]
    if spec["rows"] == "h100_sxm":
        products["unidentified"] = ["quantisation"]
        far, far_measured, _ = read("gemm_a100.csv", "h100_sxm")
        products["out_of_range"] = errors(seconds_of(far), far_measured)
    if products["held_out"]["ninetieth"] > 0.15:
        times = {tuple(shape): seconds for shape, seconds in zip(shapes, measured)}
        swapped = [abs(np.log(times[b, m, n, k] / times[b, n, m, k])) for b, m, n, k in times if m < n]
        notes.append(IRREGULAR.format(np.quantile(swapped, 0.9)))
    products["corrections"] = corrections
    write(name, spec, XLA, products, notes)
    return parameters


def derive_a100(h100):
    shapes, measured, held = read("gemm_a100.csv", "a100_sxm")
    machine = (312e12, 2039e9, 108)

    def seconds_of(p):
        return tile_seconds([p[0], h100[1], h100[2], p[1], h100[4], h100[5]], shapes, *machine)

    own = fit(lambda p: seconds_of(p)[~held], measured[~held], np.array([0.8, 0.5]), np.array([0.5, 0.0]),
              np.array([1.2, 1.0]))[1]
    products = {key: float(f"{value:.4g}") for key, value in zip(NAMES, [own[0], *h100[1:3], own[1], *h100[4:]])}
    products["points"] = int((~held).sum())
    products["held_out"] = errors(seconds_of(own)[held], measured[held])
    spec = dict(device="NVIDIA A100 SXM4 80 GB", peak=312e12, bandwidth=2039, sms=108,
                attention=dict(forward_share=0.59, backward_share=0.51),
                evidence={"evidence": "derived: the H100's curve (OpenXLA's table), scaled by products on an A100 "
                                      "(vidur)"},
                streams=(0.86, "2us", 0.34, 0.51), cautions=[
                    "Derived: of the A100 itself there are products of 3,200 to 4,096 rows; smaller ones have the "
                    "H100's prologue, tiles and gap.",
                    "With the H100's own peak_share the A100's products would be {:.0%} too fast.".format(
                        1 - np.median(seconds_of([h100[0], own[1]]) / measured)),
                    "Streams: vidur's additions of 100 and 201 MB on an A100; norms and activations are vLLM's "
                    "RMSNorm and SiLU as "
                    "vidur measured them, others' may be faster.",
                    "Attention: FlashAttention-2 forward without a mask as measured on an A100 (liangan1/GPU_travel: "
                    "184 TFLOP/s); backward by the ratio of the shares that its README states, 63 % to 73 %."])
    write("a100_sxm_bf16", spec, VIDUR, products, [])


# What kernels.py measures: its name of a device, ours, and the data sheet's peaks, bandwidth and multiprocessors.
PEAKS = {"bf16": 989.4e12, "fp16": 989.4e12, "fp32": 66.9e12}
OWN = {"NVIDIA H100 80GB HBM3": ("h100_hbm3", PEAKS, 3350, 132), "NVIDIA H200": ("h200", PEAKS, 4800, 132)}


def is_held_out(shape):
    return int(hashlib.sha256("x".join(str(int(side)) for side in shape).encode()).hexdigest(), 16) % 3 == 0


def shapes_of(rows):
    shapes = np.array([[float(row[key]) for key in ("batch", "m", "n", "k")] for row in rows])
    return shapes, np.array([float(row["seconds"]) for row in rows]), np.array([is_held_out(shape) for shape in shapes])


def implied_product(of_pass, row):
    """As implied_product of kernel_times.cpp; then the numbers that move, and whether it may run as a transform."""
    images, channels, out, window = (int(row[key]) for key in ("batch", "m", "n", "k"))
    side, stride = (int(number) for number in re.findall(r"\d+", row["detail"]))
    made = images * (-(-side // stride)) ** 2  # windows are odd, with half of them as padding
    of_window = channels * window * window
    products = {"forward": (1, made, out, of_window), "weight_gradient": (1, out, of_window, made),
                "input_gradient": (1, images * side * side, channels, max(1, out * window * window // stride**2))}
    moved = images * channels * side * side + of_window * out + made * out
    return products[of_pass], moved, window == 3 and stride == 1 and channels >= 16


def fit_convolutions(rows, machine, element):
    """"convolutions", or nothing where a pass was measured too little."""
    passes = {}
    for of_pass in ("forward", "input_gradient", "weight_gradient"):
        of = [row for row in rows if row["kernel"] == "convolution_" + of_pass]
        if len(of) < 20:
            return None
        seconds = np.array([float(row["seconds"]) for row in of])
        implied = [implied_product(of_pass, row) for row in of]
        shapes, moved = np.array([i[0] for i in implied], float), np.array([i[1] for i in implied], float)
        transforms = np.array([i[2] for i in implied])
        held = np.array([is_held_out(shape) for shape in shapes])

        def seconds_of(p, some, shapes=shapes, moved=moved, transforms=transforms):
            plain = tile_seconds(p[:6], shapes[some], *machine, element, moved[some])
            shorter = shapes[some].copy()
            shorter[:, 3] = np.ceil(shorter[:, 3] / p[6])
            return np.where(transforms[some], np.minimum(plain, tile_seconds(p[:6], shorter, *machine, element,
                                                                             moved[some])), plain)

        found = fit(lambda p: seconds_of(p, ~held), seconds[~held], np.array([0.7, 10, 20, 0.5, 0.7, 5e-6, 1.5]),
                    np.append(LOW, 1), np.append(HIGH, 4))[1]
        values = {key: float(f"{value:.4g}") for key, value in zip([*NAMES, "gain_3x3"], found)}
        values["gap"] = f"{values['gap'] * 1e6:.4g}us"
        passes[of_pass] = {**values, "points": int((~held).sum()),
                           "held_out": errors(seconds_of(found, held), seconds[held])}
    return passes


def attention_seconds(p, shapes, n, peak, sms, gap):
    """fused_attention_seconds of kernel_times.cpp, of causal attention as layer_kernels.cpp counts its pairs."""
    share, extra, tail = p
    samples, heads, positions, width = shapes.T
    pairs = samples * heads * positions * np.minimum(positions, (positions + 256) / 2)
    pairs = pairs + tail * 128 * positions * sms
    return 2 * n * pairs * (width + extra) * 128 / (128 + extra) / (peak * share) + gap


def fit_attention(rows, peak, sms, gap):
    """"attention", or nothing where it was not measured."""
    of = {kernel: {tuple(int(row[key]) for key in ("batch", "m", "n", "k")): float(row["seconds"])
                   for row in rows if row["kernel"] == kernel} for kernel in ("attention_forward", "attention_both")}
    shapes = [shape for shape in of["attention_forward"] if shape in of["attention_both"]]
    if len(shapes) < 5:
        return None
    forward = np.array([of["attention_forward"][shape] for shape in shapes])
    both = np.array([of["attention_both"][shape] for shape in shapes])
    shapes, found = np.array(shapes, float), {}
    for name, measured, n, kernels in (("forward", forward, 2, 1), ("backward", both - forward, 5, 3)):
        p = fit(lambda p: attention_seconds(p, shapes, n, peak, sms, kernels * gap), measured,
                np.array([0.5, 100, 0.3]), np.array([0.05, 0, 0]), np.array([1, 1000, 1]))[1]
        found.update(zip((f"{name}_share", f"{name}_extra_width", f"{name}_tail"), (float(f"{v:.3g}") for v in p)))
        found[f"{name}_error"] = errors(attention_seconds(p, shapes, n, peak, sms, kernels * gap), measured)
    return found


def fit_streams(rows, bandwidth, launch):
    """Shares of the bandwidth and the gap of a kernel. A row's bytes are those of layer_kernels.cpp: forward twice the
    tensor; with the backward three times more (activations) or five (norms), in one kernel more or two."""
    kinds = [{"add"}, {"layer_norm", "rms_norm"}, {"gelu", "relu"}]
    sizes, kernels, kind, seconds = [], [], [], []
    for row in rows:
        name = row["kernel"].removesuffix("_both")
        if not any(name in names for names in kinds):
            continue
        both, norm = row["kernel"] != name, "norm" in name
        sizes.append(float(row["bytes"]) * (7 / 5 if both and norm else 1))
        kernels.append(1 if not both else 3 if norm else 2)
        kind.append(next(i for i, names in enumerate(kinds) if name in names))
        seconds.append(float(row["seconds"]))
    if not seconds:
        return (0.8, f"{launch * 1e6:.3g}us")
    sizes, kernels, kind, seconds = map(np.array, (sizes, kernels, kind, seconds))
    p = fit(lambda p: sizes / (bandwidth * p[kind]) + kernels * p[3], seconds, np.array([0.9, 0.8, 0.9, 1.5 * launch]),
            np.array([0.1, 0.1, 0.1, 0.999 * launch]), np.array([2, 2, 2, 2e-5]))[1]
    return (float(f"{p[0]:.3g}"), f"{p[3] * 1e6:.3g}us", float(f"{p[1]:.3g}"), float(f"{p[2]:.3g}"))


def fit_kernels(file):
    all_rows = [row for row in csv.DictReader(pathlib.Path(file).read_text().splitlines())
                if row["seconds"] and row["timed"] == "graph"]
    device = all_rows[0]["device"] if all_rows else "nothing"
    if device not in OWN:
        raise SystemExit(f"error: {file}: measures {device}; its peaks are not in OWN, which has {', '.join(OWN)}")
    name, peaks, bandwidth, sms = OWN[device]
    launch = min((float(row["seconds"]) for row in all_rows if row["kernel"] == "launch"), default=5e-6)
    for types, peak in peaks.items():
        rows, element = [row for row in all_rows if row["types"] == types], 4 if types == "fp32" else 2
        streams = "fp32" if types == "fp32" else "bf16"  # in both types of 16 bit they move the same bytes
        products = [row for row in rows if row["kernel"] == "product"]
        if len(products) < 100:
            print(f"{types}: {len(products)} products are too few for a calibration")
            continue
        machine = (peak, bandwidth * 1e9, sms)
        fitted, corrections, _, _, alone = fit_shapes(*shapes_of(products), machine, element)
        fitted["corrections"] = corrections
        notes = [alone]
        attention = fit_attention(rows, peak, sms, fitted["gap"])
        if attention:
            notes += [f"Attention {name}: off by {{median}} in the median, {{ninetieth}} at the 90th percentile of the "
                      "rows that it is fitted to.".format(**attention.pop(f"{name}_error"))
                      for name in ("forward", "backward")]
        else:
            notes.append("No attention was measured in this type: its shares are assumed.")
        if types != "fp32":
            notes.append("Convolutions take what their products take: they were timed with inputs that stay in the L2 "
                         "cache, which in 16 bit decides.")
        for row in rows:
            if row["kernel"] == "product_sustained":
                reached = float(row["flop"]) / float(row["seconds"])
                notes.append(f"After two seconds without a pause a product of 8,192 a side ran at {reached / 1e12:.0f} "
                             "TFLOP/s: the others, timed in turn, were not slowed down by the power limit.")
        spec = {"device": device, "precision": types, "peak": peak, "bandwidth": bandwidth, "sms": sms,
                "convolutions": fit_convolutions(rows, machine, element) if types == "fp32" else None, "cautions": [],
                "attention": attention or {"forward_share": 0.4, "backward_share": 0.33},
                "streams": fit_streams([row for row in all_rows if row["types"] == streams], bandwidth * 1e9, launch)}
        spec["evidence"] = {"evidence": f"measured by us: PyTorch {rows[0]['torch']} on one {device}"}
        source = (f"{len(rows)} kernels (results/reference/{pathlib.Path(file).name}), replayed as CUDA graphs by "
                  "harness/exec/torch/cuda/bundled/kernels.py. Peak, bandwidth and multiprocessors: data sheet")
        write(f"{name}_{types}", spec, source, fitted, notes)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calibrations", nargs="*", metavar="CALIBRATION", help="h100_sxm_bf16, ...; default: all",
                        choices=[[], *DEVICES, "a100_sxm_bf16"])
    parser.add_argument("--kernels", metavar="FILE", help="what kernels.py measured")
    return parser.parse_args()


def main():
    if file := arguments().kernels:
        return fit_kernels(file)
    names = arguments().calibrations or [*DEVICES, "a100_sxm_bf16"]
    h100 = fit_grid("h100_sxm_bf16") if {"h100_sxm_bf16", "a100_sxm_bf16"} & set(names) else None
    for name in names:
        if name == "a100_sxm_bf16":
            derive_a100(h100)
        elif name != "h100_sxm_bf16":
            fit_grid(name)


if __name__ == "__main__":
    main()
