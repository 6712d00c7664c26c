"""Times kernels on one GPU: products, attention, norms, activations, losses, convolutions, optimizer steps, copies.

    python3 kernels.py OUT.csv [--seconds 120] [--rehearse]

Needs PyTorch only. A row a kernel, written as it is measured, the most valuable first, so that a run that is cut off
keeps what it has. `seconds` is the median of five batches of calls between two CUDA events, `spread` their range over
the median. Where `timed` says "graph", a batch is the replay of a CUDA graph, which waits for no host: these are the
times of the device. Where it says "queued", a host queues the calls one by one, which small kernels wait for.
`host_seconds` is the host's time to queue a call. Inputs of products and convolutions are rotated, so that they
do not stay in the L2 cache; `detail` says which of a product's are transposed (tn: forward of a linear layer, nn: its
input gradient, nt: its weight gradient). batch, m, n, k of a row:
    product                  batch x (m x k) x (k x n)
    product_sustained        a product without a pause for two seconds, which a device may answer with a lower clock
    attention_*              samples, heads, positions, width of a head; causal
    layer_norm*, gelu*, ...  1, rows, columns; _both with the gradient of the input, _weights with those of the norm's
                             weights, too
    column_sum               1, rows, columns: a bias's gradient
    convolution_*            samples, input channels, output channels, window; the side of its input is in `detail`
    adamw, sgd_momentum      1, parameters
    block_*                  samples, heads, positions, width of a GPT block; in `detail` its tensor-parallel degree;
                             causal, with biases; `bytes` is what its forward keeps for its backward
    gpt_step                 samples, layers, positions, width: a training step of a whole GPT with fp32 weights under
                             autocast and fused AdamW; `bytes` is the peak of the memory
--rehearse: tiny shapes on the CPU, which shows that everything runs.
"""

import argparse
import csv
import itertools
import statistics
import sys
import time
import traceback

import torch
import torch.nn.functional as F

COLUMNS = ["device", "torch", "kernel", "types", "batch", "m", "n", "k", "detail", "timed", "seconds", "spread",
           "host_seconds", "flop", "bytes", "error"]
CACHE = 200e6  # bytes, more than the L2 of any GPU
BATCHES, BATCH_SECONDS = 5, 3e-3


class Timer:
    """On the CPU, and on a GPU between events of its stream."""

    def __init__(self, rehearse):
        self.gpu = not rehearse
        self.stream = torch.cuda.Stream() if self.gpu else None  # of the captures

    def wait(self):
        if self.gpu:
            torch.cuda.synchronize()

    def batch(self, replay, count):
        """Seconds of one of the `count` calls that replay() makes."""
        if not self.gpu:
            begin = time.perf_counter()
            replay()
            return (time.perf_counter() - begin) / count
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count

    def captured(self, calls):
        """A graph of the calls."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            calls(2)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            calls()
        return graph

    def measure(self, call, as_graph):
        """Seconds, their spread, and what the host takes to queue a call."""
        call(0)
        self.wait()
        begin = time.perf_counter()
        for i in range(3):
            call(i)
        host = (time.perf_counter() - begin) / 3
        self.wait()
        one = max((time.perf_counter() - begin) / 3, 1e-6)
        count = max(1, min(200, int(BATCH_SECONDS / one)))

        def calls(count=count):
            for i in range(count):
                call(i)

        graph = self.captured(calls) if as_graph and self.gpu else None
        replay = graph.replay if graph else calls
        repeats = 1
        if graph:
            self.batch(replay, 1)  # a graph's first replay also brings it to the device
            repeats = max(1, min(100, int(BATCH_SECONDS / max(1e-6, self.batch(replay, 1)))))

        def repeated():
            for _ in range(repeats):
                replay()

        seconds = [self.batch(repeated, count * repeats) for _ in range(BATCHES)]
        if graph:
            del replay, graph
            if torch.cuda.memory_reserved() > 30e9:
                torch.cuda.empty_cache()
        middle = statistics.median(seconds)
        return middle, (max(seconds) - min(seconds)) / middle, host


class Table:
    def __init__(self, file, rehearse, seconds):
        self.file, self.end = file, time.monotonic() + seconds
        self.timer = Timer(rehearse)
        self.device = "cpu" if rehearse else "cuda"
        self.rehearse = rehearse
        if rehearse:
            torch.set_num_threads(1)
        self.name = "cpu" if rehearse else torch.cuda.get_device_name()
        self.writer = csv.DictWriter(file, COLUMNS)
        self.writer.writeheader()

    def tensor(self, *shape, types=torch.float32, gradient=False):
        return torch.randn(*shape, device=self.device, dtype=types).requires_grad_(gradient)

    def rotated(self, *shape, types):
        """Copies of a tensor that are together larger than the cache; 16 at most."""
        one = torch.Size(shape).numel() * types.itemsize
        return [self.tensor(*shape, types=types) for _ in range(max(1, min(16, int(CACHE / one))))]

    def add(self, kernel, types, shape, call, flop=0, size=0, detail="", as_graph=True):
        """Measures and writes a row. Raises TimeoutError when the time is up."""
        if time.monotonic() > self.end:
            raise TimeoutError
        row = {"device": self.name, "torch": torch.__version__, "kernel": kernel, "types": types,
               **dict(zip(("batch", "m", "n", "k"), shape)), "detail": detail, "flop": flop, "bytes": size}
        for timed in ("graph", "queued") if as_graph else ("queued",):  # what cannot be captured is queued
            try:
                seconds, spread, host = self.timer.measure(call, timed == "graph")
                row.update(timed=timed, seconds=f"{seconds:.5g}", spread=f"{spread:.3f}", host_seconds=f"{host:.3g}")
                break
            except Exception as error:  # out of memory, or no such kernel: the others are still to come
                row["error"] = (str(error).splitlines() or [type(error).__name__])[0][:120]
        self.writer.writerow(row)
        self.file.flush()

    def add_both_ways(self, *row):
        self.add(*row)
        self.add(*row, as_graph=False)


def name_of(types, tf32=False):
    return "tf32" if tf32 else {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}[types]


def product(table, types, batch, m, n, k, layout="nn", tf32=False):
    first = (batch, k, m) if layout == "nt" else (batch, m, k)
    second = (batch, n, k) if layout == "tn" else (batch, k, n)
    left, right = table.rotated(*first, types=types), table.rotated(*second, types=types)
    if layout == "nt":
        left = [a.transpose(1, 2) for a in left]
    if layout == "tn":
        right = [b.transpose(1, 2) for b in right]
    if batch == 1:  # as a linear layer's
        left, right, multiply = [a[0] for a in left], [b[0] for b in right], torch.mm
    else:
        multiply = torch.bmm
    torch.backends.cuda.matmul.allow_tf32 = tf32
    table.add("product", name_of(types, tf32), (batch, m, n, k),
              lambda i: multiply(left[i % len(left)], right[i % len(right)]), 2 * batch * m * n * k,
              types.itemsize * batch * (m * k + k * n + m * n), layout)
    torch.backends.cuda.matmul.allow_tf32 = False


def products_on_a_grid(table, types, batches, tf32=False):
    """The grid of gemm_16bit.csv, so that both can be compared and fitted in the same way."""
    sides = (256, 512, 1024, 2048, 4096) if not table.rehearse else (16, 32)
    for batch, m, n, k in itertools.product(batches, sides, sides, sides):
        product(table, types, batch, m, n, k, "tn" if batch == 1 else "nn", tf32)


def products_of_transformers(table, types):
    """Forward and both gradients; whole and as a tensor-parallel rank of 2 and 8 has them."""
    widths, tokens = ((768, 2048, 4096, 6144), (512, 2048, 8192)) if not table.rehearse else ((32,), (16,))
    for h, t in itertools.product(widths, tokens):
        for degree in (1, 2, 8):
            for n, k in ((3 * h // degree, h), (h, h // degree), (4 * h // degree, h), (h, 4 * h // degree)):
                product(table, types, 1, t, n, k, "tn")
                product(table, types, 1, t, k, n, "nn")
                product(table, types, 1, n, k, t, "nt")
    product(table, types, 1, *((2048, 50257, 768) if not table.rehearse else (16, 101, 32)), "tn")


def sustained(table, types):
    side, seconds = (8192, 2) if not table.rehearse else (32, 0.01)
    a, b = table.tensor(side, side, types=types), table.tensor(side, side, types=types)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(50):
            torch.mm(a, b)
        table.timer.wait()
    table.add("product_sustained", name_of(types), (1, side, side, side), lambda i: torch.mm(a, b), 2 * side**3,
              3 * types.itemsize * side**2, "nn")


def attention(table, types):
    shapes = [(2, 12, 1024, 64), (4, 16, 1024, 64), (1, 32, 2048, 128), (4, 32, 2048, 128), (1, 4, 4096, 128),
              (1, 32, 4096, 128), (1, 32, 8192, 128)] if not table.rehearse else [(1, 2, 32, 16)]
    for b, heads, s, d in shapes:
        q, k, v = (table.tensor(b, heads, s, d, types=types, gradient=True) for _ in range(3))
        g = torch.randn_like(q)

        def forward(_):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        half = b * heads * s * s * d  # FLOP of one product over the pairs that a causal mask leaves
        table.add("attention_forward", name_of(types), (b, heads, s, d), forward, 2 * half)
        table.add("attention_both", name_of(types), (b, heads, s, d),
                  lambda i: torch.autograd.grad(forward(i), (q, k, v), g), 7 * half)


def streams(table, types):
    """Kernels that are bound by memory: forward, and forward with backward."""
    widths, rows = ((768, 4096), (2048, 8192, 32768)) if not table.rehearse else ((32,), (16,))
    size = types.itemsize
    for h, t in itertools.product(widths, rows):
        x, g = table.tensor(t, h, types=types, gradient=True), table.tensor(t, h, types=types)
        weight, plain = table.tensor(h, types=types, gradient=True), x.detach()
        kernels = {
            "layer_norm": lambda y: F.layer_norm(y, (h,), weight, weight),
            "rms_norm": lambda y: F.rms_norm(y, (h,), weight),
            "gelu": F.gelu, "relu": F.relu, "softmax": lambda y: F.softmax(y, -1)}
        for name, kernel in kernels.items():
            with torch.no_grad():
                table.add(name, name_of(types), (1, t, h, 0), lambda i: kernel(plain), 0, 2 * size * t * h)
            table.add(name + "_both", name_of(types), (1, t, h, 0),
                      lambda i: torch.autograd.grad(kernel(x), x, g), 0, 5 * size * t * h)
            if "norm" in name:
                table.add(name + "_weights", name_of(types), (1, t, h, 0),
                          lambda i: torch.autograd.grad(kernel(x), [x, weight], g), 0, 7 * size * t * h)
        table.add("column_sum", name_of(types), (1, t, h, 0), lambda i: plain.sum(0), 0, size * t * h)
        table.add("add", name_of(types), (1, t, h, 0), lambda i: plain + g, 0, 3 * size * t * h)
    for t, vocabulary in ((2048, 50257), (8192, 32000)) if not table.rehearse else ((16, 100),):
        x = table.tensor(t, vocabulary, types=types, gradient=True)
        y = torch.randint(vocabulary, (t,), device=table.device)
        table.add("cross_entropy_both", name_of(types), (1, t, vocabulary, 0),
                  lambda i: torch.autograd.grad(F.cross_entropy(x, y), x), 0, 5 * size * t * vocabulary)


class Block(torch.nn.Module):
    """A GPT block as a tensor-parallel rank of `degree` computes it, without its messages."""

    def __init__(self, table, width, heads, degree, types):
        super().__init__()
        of = dict(device=table.device, dtype=types)
        part = width // degree
        self.heads, self.side = heads // degree, width // heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width, **of), torch.nn.LayerNorm(width, **of)
        self.qkv, self.projection = torch.nn.Linear(width, 3 * part, **of), torch.nn.Linear(part, width, **of)
        self.up, self.down = torch.nn.Linear(width, 4 * part, **of), torch.nn.Linear(4 * part, width, **of)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (y.view(b, s, self.heads, self.side).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(b, s, self.heads * self.side))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def block_flop(b, s, width, degree):
    """Forward: its products, and the pairs that a causal mask leaves."""
    return (24 * b * s * width * width + 2 * b * s * s * width) // degree


def memory_of(table):
    return torch.cuda.memory_allocated() if table.timer.gpu else 0


def blocks(table, types):
    """Of GPT-2, GPT-3 1.3B and 6.7B and half a 175B's width, over micro-batches and tensor-parallel degrees."""
    shapes = [(width, heads, s, b, degree)
              for width, heads, s in ((768, 12, 1024), (1024, 16, 512), (2048, 16, 1024), (4096, 32, 2048),
                                      (6144, 48, 2048))
              for b in (1, 2, 4) for degree in ((1, 2, 8) if width >= 2048 else (1,))]
    for width, heads, s, b, degree in shapes if not table.rehearse else [(32, 2, 16, 1, 1)]:
        block = Block(table, width, heads, degree, types)
        x = table.tensor(b, s, width, types=types, gradient=True)
        g = torch.randn_like(x)
        leaves = [x, *block.parameters()]
        before = memory_of(table)
        y = block(x)
        kept = memory_of(table) - before
        del y
        shape, flop = (b, heads, s, width), block_flop(b, s, width, degree)
        detail = f"degree={degree}"
        table.add_both_ways("block_forward", name_of(types), shape, lambda _: block(x), flop, kept, detail)
        table.add_both_ways("block_both", name_of(types), shape,
                            lambda _: torch.autograd.grad(block(x), leaves, g), 3 * flop, kept, detail)


def gpt_steps(table):
    """Whole training steps: GPT-2 small with its vocabulary, and 1.3B parameters, which fit one GPU of 80 GB."""
    shapes = [(4, 12, 12, 1024, 768), (8, 12, 12, 1024, 768), (16, 12, 12, 1024, 768), (1, 24, 16, 1024, 2048),
              (4, 24, 16, 1024, 2048)] if not table.rehearse else [(1, 2, 2, 16, 32)]
    vocabulary = 50257 if not table.rehearse else 100
    for b, layers, heads, s, width in shapes:
        gpt = torch.nn.Sequential(torch.nn.Embedding(vocabulary, width, device=table.device),
                                  *(Block(table, width, heads, 1, torch.float32) for _ in range(layers)),
                                  torch.nn.LayerNorm(width, device=table.device),
                                  torch.nn.Linear(width, vocabulary, bias=False, device=table.device))
        optimizer = torch.optim.AdamW(gpt.parameters(), fused=table.timer.gpu, capturable=table.timer.gpu)
        tokens, labels = (torch.randint(vocabulary, (b, s), device=table.device) for _ in range(2))

        def step(_):
            optimizer.zero_grad()
            with torch.autocast("cuda" if table.timer.gpu else "cpu", torch.bfloat16):
                loss = F.cross_entropy(gpt(tokens).flatten(0, 1), labels.flatten())
            loss.backward()
            optimizer.step()

        peak = 0
        if table.timer.gpu:
            torch.cuda.reset_peak_memory_stats()
            step(0)
            peak = torch.cuda.max_memory_allocated()
        flop = 3 * (layers * block_flop(b, s, width, 1) + 2 * b * s * width * vocabulary)
        table.add_both_ways("gpt_step", "bf16", (b, layers, s, width), step, flop, peak, f"heads={heads}")
        del gpt, optimizer
        if table.timer.gpu:
            torch.cuda.empty_cache()


def optimizers(table):
    for count in (1 << 20, 1 << 24, 1 << 27) if not table.rehearse else (1 << 10,):
        for name, size, make in (
                ("adamw", 28, lambda p: torch.optim.AdamW(p, fused=table.timer.gpu, capturable=table.timer.gpu)),
                ("sgd_momentum", 20, lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9, fused=table.timer.gpu))):
            parameters = [table.tensor(count // 8, gradient=True) for _ in range(8)]
            for p in parameters:
                p.grad = torch.randn_like(p)
            optimizer = make(parameters)
            table.add(name, "fp32", (1, count, 0, 0), lambda i: optimizer.step(), 0, size * count)


def copies(table):
    x = table.tensor(1)
    table.add("launch", "fp32", (1, 1, 0, 0), lambda i: x.add_(1), 0, 8)
    for count in (1 << 14, 1 << 20, 1 << 26) if not table.rehearse else (1 << 10,):
        a, b = table.tensor(count), table.tensor(count)
        host = torch.empty(count, pin_memory=not table.rehearse)
        table.add("copy", "fp32", (1, count, 0, 0), lambda i: b.copy_(a), 0, 8 * count)
        table.add("to_host", "fp32", (1, count, 0, 0), lambda i: host.copy_(a, non_blocking=True), 0, 4 * count)
        table.add("to_device", "fp32", (1, count, 0, 0), lambda i: a.copy_(host, non_blocking=True), 0, 4 * count)


def convolutions(table, types, tf32=False):
    """Of ResNet-152 and VGG-16: input channels, output channels, side, window, stride."""
    shapes = [(3, 64, 224, 7, 2), (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1),
              (256, 128, 56, 1, 1), (128, 128, 56, 3, 2), (128, 512, 28, 1, 1), (256, 512, 56, 1, 2),
              (512, 128, 28, 1, 1), (128, 128, 28, 3, 1), (512, 256, 28, 1, 1), (256, 256, 28, 3, 2),
              (256, 1024, 14, 1, 1), (512, 1024, 28, 1, 2), (1024, 256, 14, 1, 1), (256, 256, 14, 3, 1),
              (1024, 512, 14, 1, 1), (512, 512, 14, 3, 2), (512, 2048, 7, 1, 1), (1024, 2048, 14, 1, 2),
              (2048, 512, 7, 1, 1), (512, 512, 7, 3, 1), (3, 64, 224, 3, 1), (64, 64, 224, 3, 1), (64, 128, 112, 3, 1),
              (128, 128, 112, 3, 1), (128, 256, 56, 3, 1), (256, 256, 56, 3, 1), (256, 512, 28, 3, 1),
              (512, 512, 28, 3, 1), (512, 512, 14, 3, 1)] if not table.rehearse else [(3, 4, 8, 3, 1)]
    torch.backends.cudnn.allow_tf32 = tf32
    for b in (8, 32) if not table.rehearse else (1,):
        for c, o, side, window, stride in shapes:
            inputs = table.rotated(b, c, side, side, types=types)
            weight = table.tensor(o, c, window, window, types=types)
            padding = window // 2
            shape = F.conv2d(inputs[0], weight, stride=stride, padding=padding).shape
            gradients = table.rotated(*shape, types=types)

            def forward(i):
                return F.conv2d(inputs[i % len(inputs)], weight, stride=stride, padding=padding)

            def backward(i, of):
                return torch.ops.aten.convolution_backward(
                    gradients[i % len(gradients)], inputs[i % len(inputs)], weight, None, [stride] * 2, [padding] * 2,
                    [1, 1], False, [0, 0], 1, [of == "input", of == "weight", False])

            flop = 2 * b * o * c * window * window * shape[2] * shape[3]
            row = name_of(types, tf32), (b, c, o, window)
            detail = f"side={side} stride={stride}"
            table.add("convolution_forward", *row, forward, flop, 0, detail)
            table.add("convolution_input_gradient", *row, lambda i: backward(i, "input"), flop, 0, detail)
            table.add("convolution_weight_gradient", *row, lambda i: backward(i, "weight"), flop, 0, detail)
    torch.backends.cudnn.allow_tf32 = False


def parts():
    """The most valuable first."""
    bf16, fp16, fp32 = torch.bfloat16, torch.float16, torch.float32
    yield products_on_a_grid, (bf16, (1, 2, 4))
    yield products_of_transformers, (bf16,)
    yield sustained, (bf16,)
    yield attention, (bf16,)
    yield blocks, (bf16,)
    yield gpt_steps, ()
    yield streams, (bf16,)
    yield optimizers, ()
    yield copies, ()
    yield products_on_a_grid, (fp32, (1,))
    yield convolutions, (fp32,)
    yield products_on_a_grid, (fp32, (1,), True)
    yield convolutions, (bf16,)
    yield streams, (fp32,)
    yield attention, (fp16,)
    yield products_of_transformers, (fp16,)
    yield products_on_a_grid, (fp16, (1,))
    yield convolutions, (fp32, True)
    yield convolutions, (fp16,)


def measure(table):
    """Whether all parts were measured; one that fails does not keep the others from it."""
    good = True
    for part, arguments in parts():
        try:
            part(table, *arguments)
        except TimeoutError:
            raise
        except Exception:
            traceback.print_exc()
            good = False
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="CSV file, which is replaced")
    parser.add_argument("--seconds", type=float, default=120, help="until it stops (default: 120)")
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes on the CPU")
    a = parser.parse_args()
    with open(a.out, "w", newline="") as file:
        try:
            sys.exit(0 if measure(Table(file, a.rehearse, a.seconds)) else 1)
        except TimeoutError:
            print(f"the {a.seconds:g} seconds are up; {a.out} has what was measured")


if __name__ == "__main__":
    main()
