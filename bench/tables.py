"""Samples of bench/compare and what they say: medians, spreads, and ratios of paired rounds.

SPDX-License-Identifier: BSD-3-Clause
"""

import csv
import datetime
import math
import platform
import statistics
from collections import defaultdict

UNITS = {"bandwidth": "MB/s", "rate": "msg/s", "match_rate": "msg/s", "match_rate_any": "msg/s"}
HIGHER_IS_BETTER = set(UNITS)
LATE = "> limit"  # a value that is infinite: the run was not done in time
FIELDS = ["group", "measure", "x", "subject", "role", "round", "kind", "probe_us", "value"]


def unit(measure):
    return UNITS.get(measure, "us")


def processor():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def heading(run, rounds):
    parts = [
        datetime.date.today().isoformat(),
        processor(),
        f"{len(run.processors)} processors",
        f"Linux {platform.release().partition('-')[0]}",
        f"{rounds} round{'s' if rounds != 1 else ''}",
    ]
    return ", ".join(parts + ([f"{run.seconds} s per point"] if run.seconds else []))


def write_csv(samples, out):
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(samples)


def read_csv(name):
    with open(name, encoding="ascii", newline="") as rows:
        return [{**row, "x": int(row["x"]), "value": float(row["value"])} for row in csv.DictReader(rows)]


def spread(values):
    """Half the range over the median, in percent."""
    middle = statistics.median(values)
    return 0.0 if middle == 0 else 50 * (max(values) - min(values)) / middle


def paired(mine, theirs):
    """Median ratio over the rounds that both have; each maps rounds to values of one kind of placement. Without a
    common round the ratio of the medians, marked with "~". Below 1 is faster for times, slower for rates."""
    mine, theirs = ({number: v for number, v in values.items() if v < math.inf} for values in (mine, theirs))
    common = [mine[number] / theirs[number] for number in mine if theirs.get(number)]
    if common:
        return f"{statistics.median(common):.2f}"
    their_middle = statistics.median(theirs.values()) if theirs else 0
    return f"~{statistics.median(mine.values()) / their_middle:.2f}" if mine and their_middle else "-"


class Table:
    """All samples of one group, measure and kind of placement."""

    def __init__(self, group, measure, kind):
        self.group, self.measure, self.kind = group, measure, kind
        self.values = defaultdict(lambda: defaultdict(dict))  # x -> subject -> round -> value
        self.roles = {}

    def add(self, sample):
        self.values[sample["x"]][sample["subject"]][int(sample["round"])] = sample["value"]
        self.roles[sample["subject"]] = sample["role"]

    def best(self, role, x):
        """The best subject of the role, "peer" or "limit"; None without one."""
        peers = {
            subject: statistics.median(values.values())
            for subject, values in self.values[x].items()
            if self.roles[subject] == role
            and any(values.values())
            and statistics.median(values.values()) < math.inf
        }
        if not peers:
            return None
        choose = max if self.measure in HIGHER_IS_BETTER else min
        return choose(peers, key=peers.get)

    def ours(self):
        return [subject for subject, role in self.roles.items() if role == "hcomm"]

    def print(self, out, full):
        ours = self.ours()
        if not ours:
            return
        better = "higher" if self.measure in HIGHER_IS_BETTER else "lower"
        print(f"\n## {self.group}: {self.measure}, {unit(self.measure)} ({better} is better), {self.kind}\n", file=out)
        titles = ["x"] + [f"{name} ±%" for name in ours] + ["best peer", "its value ±%"]
        titles += [f"{name} / best" for name in ours]
        others = [s for s, role in self.roles.items() if role != "hcomm"] if full else []
        limits = ["bare limit", "its value"] if "limit" in self.roles.values() and not full else []
        rows = [titles + limits + others]
        for x in sorted(self.values):
            row = self.row(x, ours, others, bool(limits))
            if row:
                rows.append(row)
        print_markdown(rows, out)

    def row(self, x, ours, others, limits):
        at = self.values[x]
        best = self.best("peer", x)
        if not any(name in at for name in ours):
            return None
        cells = [str(x)] + [self.cell(at.get(name)) for name in ours]
        late = any(math.isinf(value) for s in at if self.roles[s] == "peer" for value in at[s].values()) and not best
        cells += [best or "-", LATE if late else self.cell(at.get(best))]
        for name in ours:
            cells.append(paired(at[name], at[best]) if best and name in at else "-")
        if limits:
            limit = self.best("limit", x)
            cells += [limit or "-", number(statistics.median(at[limit].values())) if limit else "-"]
        return cells + [number(statistics.median(at[s].values())) if any(at.get(s, {}).values()) else "-" for s in others]

    @staticmethod
    def cell(values):
        if not values or not any(values.values()):  # messages of 0 bytes have no bandwidth
            return "-"
        middle = number(statistics.median(values.values()))
        if middle == LATE:
            return middle
        return f"{middle} ±{spread(values.values()):.0f}" if len(values) > 1 else middle


def number(value):
    if math.isinf(value):
        return LATE
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.3f}"


def print_markdown(rows, out):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    line = lambda row: "| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths)) + " |"
    print(line(rows[0]), file=out)
    print("|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|", file=out)
    for row in rows[1:]:
        print(line(row), file=out)


def print_tables(samples, out, full):
    tables = {}
    for sample in samples:
        key = (sample["group"], sample["measure"], sample["kind"])
        if key not in tables:
            tables[key] = Table(*key)
        tables[key].add(sample)
    for table in tables.values():
        table.print(out, full)
