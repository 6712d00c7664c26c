#!/usr/bin/env python3
"""How far the orders of zero bubble's variant=auto are from the best ones, on small instances.

Every instance is a chain of stages with random times of F, I and W, equal ones or each its own, a message's latency and
a memory limit. The best order is that of a mixed-integer program, which HiGHS solves, of larger instances for a minute
at most. Objective, as the search's own: the longest span of a rank, from its first F to its last W, which is also the
period of updates one after another.

  order_gap.py --program build/sluice --records results/order_gap/order_gap.jsonl     solves them all: half an hour
  order_gap.py --page results/order_gap/order_gap.jsonl > results/order_gap/order_gap.md
  order_gap.py --test results/order_gap     the page is what the records give, and small programs' optima are known

On a rank the k-th F, I and W are of micro-batch k: micro-batches are alike, so that no order is lost. What remains to
choose on a rank, for i > j, is whether F i comes before I j, F i before W j and I i before W j. A rank holds one for
every micro-batch between F and the end of W: W keeps all that a micro-batch holds.
"""
import argparse
import ctypes
import glob
import itertools
import json
import os
import random
import subprocess
import sys
import textwrap

INFINITY = float("inf")
EQUAL = [(2, 2), (2, 3), (2, 4), (3, 3), (3, 4)]  # ranks, micro-batches: twenty instances each, solved to the end
UNEQUAL = [(2, 4), (3, 4), (3, 6), (4, 6), (4, 8)]  # twenty instances each, for a number of seconds at most
SECONDS = 60


class Program:
    """Minimise cost x, where low <= row x <= high."""

    def __init__(self):
        self.cost, self.low, self.high, self.whole, self.rows = [], [], [], [], []

    def column(self, low, high, whole=False, cost=0.0):
        for values, value in ((self.cost, cost), (self.low, low), (self.high, high), (self.whole, int(whole))):
            values.append(value)
        return len(self.cost) - 1

    def at_least(self, bound, terms):
        self.rows.append((bound, INFINITY, terms))

    def solve(self, library, seconds=None):
        """The least cost that was found and a bound that no cost is below: the same where HiGHS proved the optimum.

        Raises ValueError where it did not and no time was given, or found nothing.
        """
        doubles = lambda values: (ctypes.c_double * max(1, len(values)))(*values)
        ints = lambda values: (ctypes.c_int * max(1, len(values)))(*values)
        starts, columns, coefficients = [], [], []
        for _, _, terms in self.rows:
            starts.append(len(columns))
            for column, value in terms:
                columns.append(column)
                coefficients.append(value)
        library.Highs_create.restype = ctypes.c_void_p
        solver = ctypes.c_void_p(library.Highs_create())
        try:
            library.Highs_setBoolOptionValue(solver, b"output_flag", 0)
            if seconds is not None:
                library.Highs_setDoubleOptionValue(solver, b"time_limit", ctypes.c_double(seconds))
            by_rows, minimise, optimal, out_of_time = 2, 1, 7, 13
            error = library.Highs_passMip(
                solver, len(self.cost), len(self.rows), len(columns), by_rows, minimise, ctypes.c_double(0),
                doubles(self.cost), doubles(self.low), doubles(self.high), doubles([r[0] for r in self.rows]),
                doubles([r[1] for r in self.rows]), ints(starts), ints(columns), doubles(coefficients),
                ints(self.whole))
            if error >= 0:
                error = library.Highs_run(solver)
            status = library.Highs_getModelStatus(solver)
            if error < 0 or status != optimal and (seconds is None or status != out_of_time):
                raise ValueError(f"HiGHS ends with status {status}")
            best, bound = ctypes.c_double(INFINITY), ctypes.c_double(0)
            library.Highs_getDoubleInfoValue(solver, b"objective_function_value", ctypes.byref(best))
            library.Highs_getDoubleInfoValue(solver, b"mip_dual_bound", ctypes.byref(bound))
            return best.value, best.value if status == optimal else bound.value
        finally:
            library.Highs_destroy(solver)


def highs():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    places = [os.environ.get("SLUICE_HIGHS", "")]
    places += glob.glob(os.path.join(root, ".venv/lib/*/site-packages/highspy/libhighs.so.1")) + ["libhighs.so.1"]
    for place in filter(None, places):
        try:
            return ctypes.CDLL(place)
        except OSError:
            pass
    return None


def best_span(library, instance, known=INFINITY, seconds=None):
    """The best span and a bound that none is below (Program.solve). known: the span of some order."""
    p, m, memory = instance["ranks"], instance["microbatches"], instance["memory"]
    latency = instance["latency"]
    work = [sum(seconds_of(instance, k, r) for k in "FIW") for r in range(p)]
    longest = min(known, m * (sum(work) + 2 * latency * p))
    program = Program()
    span = program.column(m * max(work), longest, cost=1)
    # Every rank's first F is before rank 0's last I, and no rank takes longer than the longest span.
    start = {(r, k, i): program.column(0, 2 * longest) for r in range(p) for k in "FIW" for i in range(m)}

    def after(second, first, gap):
        program.at_least(gap, [(start[second], 1), (start[first], -1)])

    for r in range(p):
        times = {k: seconds_of(instance, k, r) for k in "FIW"}
        program.at_least(times["W"], [(span, 1), (start[r, "W", m - 1], -1), (start[r, "F", 0], 1)])
        before = {}  # (kind, i, kind, j): the column that is 1 where the first comes before the second
        for i in range(m):
            after((r, "I", i), (r, "F", i), times["F"])
            after((r, "W", i), (r, "I", i), times["I"])
            if r > 0:
                after((r, "F", i), (r - 1, "F", i), seconds_of(instance, "F", r - 1) + latency)
                after((r - 1, "I", i), (r, "I", i), times["I"] + latency)
            if i > 0:
                for k in "FIW":
                    after((r, k, i), (r, k, i - 1), times[k])
            for j in range(i):
                for one, other in (("F", "I"), ("F", "W"), ("I", "W")):
                    first = before[one, i, other, j] = program.column(0, 1, whole=True)
                    a, b = start[r, one, i], start[r, other, j]
                    program.at_least(times[one] - longest, [(b, 1), (a, -1), (first, -longest)])
                    program.at_least(times[other], [(a, 1), (b, -1), (first, longest)])
        # What one order of two ops says of others, which the times alone would say only late.
        for (one, i, other, j), first in before.items():
            if j + 1 < i:
                program.at_least(0, [(before[one, i, other, j + 1], 1), (first, -1)])
            if i + 1 < m:
                program.at_least(0, [(first, 1), (before[one, i + 1, other, j], -1)])
            if (one, other) == ("F", "I"):
                program.at_least(0, [(before["F", i, "W", j], 1), (first, -1)])
            if (one, other) == ("I", "W"):
                program.at_least(0, [(before["F", i, "W", j], 1), (first, -1)])
        # When F i begins, i before it have begun, and at least i + 1 - memory of their W have ended.
        for i in range(memory, m):
            after((r, "F", i), (r, "W", i - memory), times["W"])
    return program.solve(library, seconds)


def seconds_of(instance, kind, rank):
    """Of an op: one time for all ranks, or a list of theirs."""
    return instance[kind][rank] if isinstance(instance[kind], list) else instance[kind]


def found_span(program, instance):
    stages = ["/".join(str(seconds_of(instance, k, r)) for k in "FIW") for r in range(instance["ranks"])]
    costs = ",".join(stages if isinstance(instance["F"], list) else stages[:1]) + f"+{instance['latency']}"
    answer = subprocess.run(
        [program, "schedule", "--system", "zero_bubble", "--set", "variant=auto", "--set",
         f"memory={instance['memory']}", "--ranks", str(instance["ranks"]), "--microbatches",
         str(instance["microbatches"]), "--costs", costs, "--json"], check=True, capture_output=True, text=True)
    return longest_span(json.loads(answer.stdout)["ops"], instance)


def longest_span(ops, instance):
    """Of the order that `ops` gives every rank, each op begun as soon as it can."""
    ends, begun, p = {}, {}, instance["ranks"]
    queues = {int(r): [(o[len(r)], int(o[len(r) + 1:])) for o in order] for r, order in ops.items()}
    while any(queues.values()):
        before = len(ends)
        for r, queue in queues.items():
            while queue:
                kind, i = queue[0]
                needs = {"F": (r - 1, "F", i) if r > 0 else None, "I": (r + 1, "I", i) if r + 1 < p else (r, "F", i),
                         "W": (r, "I", i)}[kind]
                if needs is not None and needs not in ends:
                    break
                arrives = 0 if needs is None else ends[needs] + (instance["latency"] if needs[0] != r else 0)
                begin = max(arrives, max((e for (rank, _, _), e in ends.items() if rank == r), default=0))
                begun.setdefault(r, begin)
                ends[r, kind, i] = begin + seconds_of(instance, kind, r)
                queue.pop(0)
        if len(ends) == before:
            raise ValueError("the order waits for itself")
    return max(max(e for (rank, _, _), e in ends.items() if rank == r) - begun[r] for r in range(p))


def tried_span(instance):
    """The least over all orders of two ranks that keep to the memory, by trying each."""
    m, orders = instance["microbatches"], []
    for kinds in sorted(set(itertools.permutations("F" * m + "I" * m + "W" * m))):
        done, fits = {"F": 0, "I": 0, "W": 0}, True
        for kind in kinds:
            done[kind] += 1
            fits = fits and done["W"] <= done["I"] <= done["F"] <= done["W"] + instance["memory"]
        if fits:
            count = {"F": itertools.count(), "I": itertools.count(), "W": itertools.count()}
            orders.append([f"0{kind}{next(count[kind])}" for kind in kinds])
    spans = []
    for first, second in itertools.product(orders, orders):
        try:
            spans.append(longest_span({"0": first, "1": second}, instance))
        except ValueError:  # these two wait for each other
            pass
    return min(spans)


def instances():
    draw = random.Random(2510)
    for p, m in EQUAL:
        for k in range(20):
            yield {"ranks": p, "microbatches": m, "memory": p if k < 10 else 2 * p, "F": draw.randint(1, 20),
                   "I": draw.randint(1, 20), "W": draw.randint(1, 20), "latency": draw.choice([0, 1, 3])}
    for p, m in UNEQUAL:
        for k in range(20):
            yield {"ranks": p, "microbatches": m, "memory": p if k < 10 else 2 * p,
                   **{kind: [draw.randint(1, 20) for _ in range(p)] for kind in "FIW"},
                   "latency": draw.choice([0, 1, 3])}


def gaps(chosen):
    """Of the instances whose best order is proved, in per cent, sorted; and the largest bound of the others' gaps."""
    gap = lambda r: 100 * (r["auto"] / r["bound"] - 1)
    is_proved = lambda r: r["bound"] > r["best"] * (1 - 2e-4)
    return (sorted(gap(r) for r in chosen if is_proved(r)),
            max((gap(r) for r in chosen if not is_proved(r)), default=None))


def number_optimal(proved):
    return sum(gap < 0.02 for gap in proved)


def page(records):
    equal = [r for r in records if not isinstance(r["F"], list)]
    unequal = [r for r in records if isinstance(r["F"], list)]
    (alike, _), (proved, at_most) = gaps(equal), gaps(unequal)
    lines = ["<!-- Made by: baselines/zero_bubble/order_gap.py --page; a test compares it with its records. -->",
             "# How far zero bubble's searched orders are from optimal", "",
             "How much longer is a pipeline in the order that `variant=auto` finds than in the best order?", "",
             f"- Equal stages: {number_optimal(alike)} of {len(alike)} orders are optimal.",
             f"- Unequal stages: {number_optimal(proved)} of {len(proved)} are; the others are up to "
             f"{proved[-1]:.1f} % longer, {sum(proved) / len(proved):.1f} % in the mean over all.",
             f"- For {len(unequal) - len(proved)} more the best order is not proved: at most {at_most:.1f} % longer.",
             "- Instances are small (two to four ranks); longer pipelines could have larger gaps.", "",
             *textwrap.wrap("The longest span of a rank that `variant=auto` finds, over that of the best order under "
                            "the same limit on memory, which a mixed-integer program proves (HiGHS). Instances are "
                            "small chains with random times of F, I and W (seeded); memory is in micro-batches: as "
                            "many as ranks (ZB-1p) or twice that (ZB-2p). Where the program's time ends before its "
                            "proof, the gap is known to be no more than that over the bound that it has proved; those "
                            "instances are in the last column alone.", 120)]

    def table(title, sizes, chosen):
        lines.extend(["", f"## {title}", "",
                      "| ranks | micro-batches | memory | instances | proved | optimal | median gap | mean gap "
                      "| largest gap | not proved: at most |",
                      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"])
        for p, m in sizes:
            for memory in (p, 2 * p):
                line(f"{p} | {m} | {memory}", [r for r in chosen
                                               if (r["ranks"], r["microbatches"], r["memory"]) == (p, m, memory)])
        line("all | | ", chosen)

    def line(title, chosen):
        proved, at_most = gaps(chosen)
        middle = (proved[len(proved) // 2] + proved[(len(proved) - 1) // 2]) / 2
        lines.append(f"| {title} | {len(chosen)} | {len(proved)} | {number_optimal(proved)} | {middle:.1f} % | "
                     f"{sum(proved) / len(proved):.1f} % | {proved[-1]:.1f} % | "
                     + ("- |" if at_most is None else f"{at_most:.1f} % |"))

    table("Equal stages", EQUAL, equal)
    table("Unequal stages", UNEQUAL, unequal)
    lines += ["", "## How it was run", "", "```",
              "baselines/zero_bubble/order_gap.py --program build/sluice --records results/order_gap/order_gap.jsonl",
              "baselines/zero_bubble/order_gap.py --page results/order_gap/order_gap.jsonl \\",
              "  > results/order_gap/order_gap.md", "```"]
    return "\n".join(lines) + "\n"


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test(folder):
    records = read(os.path.join(folder, "order_gap.jsonl"))
    with open(os.path.join(folder, "order_gap.md"), encoding="utf-8") as file:
        assert file.read() == page(records), "the page is not what its records give: make it again"
    assert len(records) == 200 and [{k: r[k] for k in i} for r, i in zip(records, instances())] == list(instances())
    assert all(r["auto"] >= r["bound"] * (1 - 2e-4) for r in records), "an order is better than the best one"
    unit = {"F": 1, "I": 1, "W": 1, "latency": 0}
    # By hand, rank 0 of two: F0 F1 I0 W0 I1 W1 around what rank 1 needs for F0 I0 F1 I1 W0 W1.
    by_hand = {"0": ["0F0", "0F1", "0I0", "0W0", "0I1", "0W1"], "1": ["1F0", "1I0", "1F1", "1I1", "1W0", "1W1"]}
    small = {**unit, "ranks": 2, "microbatches": 2, "memory": 2}
    assert longest_span(by_hand, small) == 7, longest_span(by_hand, small)
    library = highs()
    if library is None:
        print("HiGHS is not there: its part is skipped")
        return
    # One rank has nothing to wait for; two ranks: rank 0 waits for I0 of rank 1, at 3, behind its F at 2.
    assert abs(best_span(library, {**unit, "ranks": 1, "microbatches": 3, "memory": 1})[0] - 9) < 1e-3
    assert abs(best_span(library, small)[0] - 7) < 1e-3
    # A memory of one micro-batch: the second F of rank 0 waits for its first W, at 5, and ends as late after it.
    assert abs(best_span(library, {**small, "memory": 1})[0] - 10) < 1e-3
    for times in ((3, 1, 2, 0), (1, 4, 2, 1), (2, 2, 5, 3), ([1, 4], [3, 2], [2, 1], 1)):
        for memory in (1, 2):
            instance = {**dict(zip(("F", "I", "W", "latency"), times)), "ranks": 2, "microbatches": 2, "memory": memory}
            assert abs(best_span(library, instance)[0] - tried_span(instance)) < 1e-2, instance
    for r in records[:3]:
        assert abs(best_span(library, r)[0] - r["best"]) < 1e-3 * r["best"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--program", default="build/sluice")
    arguments.add_argument("--records", help="where to write them")
    arguments.add_argument("--page", help="the records whose page to print")
    arguments.add_argument("--test", help="the folder of both")
    given = arguments.parse_args()
    if given.test:
        test(given.test)
    elif given.page:
        sys.stdout.write(page(read(given.page)))
    elif given.records:
        library = highs()
        if library is None:
            sys.exit("error: HiGHS is not there: run ./check, which installs it, or set SLUICE_HIGHS")
        with open(given.records, "w", encoding="utf-8") as out:
            for instance in instances():
                auto = found_span(given.program, instance)
                seconds = SECONDS if isinstance(instance["F"], list) else None
                best, bound = best_span(library, instance, auto, seconds)
                record = {**instance, "best": round(min(best, auto), 3), "bound": round(bound, 3), "auto": auto}
                out.write(json.dumps(record) + "\n")
                out.flush()
    else:
        arguments.error("one of --records, --page and --test")


if __name__ == "__main__":
    main()
