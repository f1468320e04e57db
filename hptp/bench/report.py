"""Tables, findings and charts of records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hptp.bench.cases import Case
from hptp.bench.peers import COPY, OURS
from hptp.bench.record import Record, merge
from hptp.bench.timer import UNTRUSTWORTHY_SPREAD, WIDE_SPREAD, format_seconds
from hptp.errors import HptpError

UNITS = ("share", "GB/s", "time")
NOT_PERMUTING = (COPY, "memcpy")

# What the project asks of itself; see Compare.findings.
PITCH_RATIO = 1.25
THREAD_RATIO = 1.6
MIN_COMPARED_BYTES = 4096

LEGEND = """\
name+ allocates its output in every call; the others write to one that is there.
cold is hptp's first call, with its plan to make.
~ and ! mark an interquartile range above 10 % and 25 % of the median; - is not measured."""


@dataclass(frozen=True)
class Column:
    contestant: str
    allocates: bool

    def __str__(self) -> str:
        return self.contestant + ("+" if self.allocates else "")


class Compare:
    """Contestants against each other; repeats of a measurement are merged.

    Args:
        records: of one machine, of any number of runs.

    Example:
        >>> from hptp.bench.cases import ROWS
        >>> from hptp.bench.timer import Block, Measurement
        >>> warm = Measurement((Block(1, 0.05),))
        >>> compare = Compare([Record(ROWS[0], "hptp", "0.1.0", False, 1, warm=warm)])
        >>> print(compare.table("GB/s").splitlines()[2])
        2-D f32  float32  8192x8192  (1,0)  10.7
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = merge(records)
        self._by_key = {record.key: record for record in self.records}

    # ---- look-ups

    def thread_counts(self) -> list[int]:
        return sorted({record.num_threads for record in self.records})

    def cases(self, group: str = "") -> list[Case]:
        """The cases of the groups whose name starts with `group`, in order."""
        found = {(r.case.id, r.case.shape): r.case for r in self.records}
        return [case for case in found.values() if case.group.startswith(group)]

    def find(self, case: Case, column: Column, num_threads: int) -> Record | None:
        key = (case.id, str(case.shape), column.contestant, column.allocates, num_threads)
        return self._by_key.get(key)

    def seconds(self, case: Case, column: Column, num_threads: int) -> float | None:
        record = self.find(case, column, num_threads)
        return record.seconds if record else None

    def share(self, case: Case, column: Column, num_threads: int) -> float | None:
        """The speed as a share of the non-temporal copy's in the same runs."""
        own = self.seconds(case, column, num_threads)
        copy = self.seconds(case, Column(COPY, False), num_threads)
        return copy / own if own and copy else None

    def columns(self, group: str = "") -> list[Column]:
        """Copies, hptp, peers of such cases; then those that allocate."""
        found = {
            Column(r.contestant, r.allocates)
            for r in self.records
            if r.warm and r.case.group.startswith(group)
        }
        order = [COPY, "memcpy", OURS, "hptp-torch"]

        def place(column: Column) -> tuple[bool, int, str]:
            name = column.contestant
            return column.allocates, order.index(name) if name in order else len(order), name

        return sorted(found, key=place)

    # ---- tables

    def table(self, unit: str = "share", group: str = "") -> str:
        """One line a case, one table a thread count; the copy itself is always in GB/s."""
        if unit not in UNITS:
            raise ValueError(f"unit {unit!r} is none of {', '.join(UNITS)}")
        return "\n\n".join(self._table(unit, group, n) for n in self.thread_counts())

    def _table(self, unit: str, group: str, num_threads: int) -> str:
        cases, columns = self.cases(group), self.columns(group)
        cold = Column(OURS, False)
        header = ["case", "dtype", "shape", "perm", *map(str, columns)]
        extra = ["must", "best peer", "kernel", "cold"] if unit == "share" else []
        rows = []
        for case in cases:
            dtype = f"{case.dtype}, {case.to_dtype}" if case.to_dtype else case.dtype
            row = [case.id, dtype, "x".join(map(str, case.shape)), _perm_text(case)]
            row += [self._cell(unit, case, column, num_threads) for column in columns]
            record = self.find(case, cold, num_threads)
            if extra:
                must = case.must_with(num_threads)
                row.append(f"{must:.0%}" if must else "")
                row.append(self._best_peer(case, num_threads))
                row.append(record.kernel if record else "")
                row.append(format_seconds(record.cold.median) if record and record.cold else "")
            rows.append(row)
        what = {"share": f"share of the {COPY} (itself in GB/s)", "GB/s": "GB/s", "time": "time"}
        title = f"{_threads(num_threads)}, {what[unit]}, read + written"
        return title + "\n" + _aligned([header + extra, *rows])

    def _cell(self, unit: str, case: Case, column: Column, num_threads: int) -> str:
        record = self.find(case, column, num_threads)
        if record is None or record.warm is None or record.gb_per_s is None:
            return "wrong" if record and record.refusal.startswith("wrong") else "-"
        mark = _mark(record.warm.spread)
        if unit == "time":
            return format_seconds(record.warm.median, record.warm.significant_figures) + mark
        share = self.share(case, column, num_threads)
        if unit == "share" and column.contestant != COPY and share is not None:
            return f"{share:.0%}{mark}"
        return f"{record.gb_per_s:.3g}{mark}"

    def _best_peer(self, case: Case, num_threads: int) -> str:
        rivals = [
            (seconds, str(column))
            for column in self.columns()
            if column.contestant not in NOT_PERMUTING and not column.contestant.startswith(OURS)
            if (seconds := self.seconds(case, column, num_threads))
        ]
        return min(rivals)[1] if rivals else ""

    # ---- what the numbers mean

    def findings(self) -> list[str]:
        """Every aim that was missed, and every number that cannot be trusted, in words."""
        found = []
        for num_threads in self.thread_counts():
            for case in self.cases():
                texts = [
                    *self._short_of_target(case, num_threads),
                    *self._faster_peers(case, num_threads),
                    *self._untrustworthy(case, num_threads),
                ]
                if texts:
                    found.append(f"{case.id}, {_threads(num_threads)}: {'; '.join(texts)}")
            found += self._pitches(num_threads)
        return found + self._scaling()

    def _short_of_target(self, case: Case, num_threads: int) -> list[str]:
        share, must = (
            self.share(case, Column(OURS, False), num_threads),
            case.must_with(num_threads),
        )
        if share is None or must is None or share >= must:
            return []
        return [f"hptp has {share:.0%} of the copy and must have {must:.0%}"]

    def _faster_peers(self, case: Case, num_threads: int) -> list[str]:
        """Who does the same in less time; below a few KiB it would compare calls, not copies."""
        if case.nbytes <= MIN_COMPARED_BYTES:
            return []
        pairs = [
            (Column(OURS, column.allocates), column)
            for column in self.columns()
            if column.contestant not in NOT_PERMUTING and not column.contestant.startswith(OURS)
        ]
        pairs.append((Column("hptp-torch", True), Column("torch", True)))
        faster = []
        for own, other in pairs:
            ours, theirs = (self.seconds(case, column, num_threads) for column in (own, other))
            if ours and theirs and theirs < ours:
                faster.append(f"{other} {ours / theirs:.2f}x than {own}")
        return ["faster: " + ", ".join(faster)] if faster else []

    def _untrustworthy(self, case: Case, num_threads: int) -> list[str]:
        texts = []
        for column in self.columns():
            record = self.find(case, column, num_threads)
            if record and record.warm and record.warm.spread > UNTRUSTWORTHY_SPREAD:
                texts.append(f"{column} varies by {record.warm.spread:.0%}")
        wrong = [
            f"{Column(r.contestant, r.allocates)} is {r.refusal}"
            for r in self.records
            if r.case == case and r.num_threads == num_threads and r.refusal.startswith("wrong")
        ]
        return wrong + texts

    def _pitches(self, num_threads: int) -> list[str]:
        """Sizes of a pitch sweep that cost more a byte than their neighbours."""
        found = []
        cases = self.cases("pitch")
        for group in dict.fromkeys(case.group for case in cases):
            per_byte = {
                case.id: seconds / case.nbytes
                for case in cases
                if case.group == group
                and (seconds := self.seconds(case, Column(OURS, False), num_threads))
            }
            if per_byte:
                worst = max(per_byte, key=per_byte.__getitem__)
                ratio = per_byte[worst] / min(per_byte.values())
                if ratio > PITCH_RATIO:
                    found.append(
                        f"{worst}, {_threads(num_threads)}: {ratio:.2f}x slower a byte than its "
                        f"neighbours, at most {PITCH_RATIO} is allowed"
                    )
        return found

    def _scaling(self) -> list[str]:
        """Rows that gain less from a second thread than they should where the copy itself gains."""
        found = []
        for case in self.cases("rows") if {1, 2} <= set(self.thread_counts()) else []:
            gains = []
            for name in (COPY, OURS):
                one, two = (self.seconds(case, Column(name, False), n) for n in (1, 2))
                gains.append(one / two if one and two else None)
            copy, ours = gains
            if copy and ours and copy >= THREAD_RATIO > ours:
                found.append(f"{case.id}: two threads are {ours:.2f}x one, the copy's {copy:.2f}x")
        return found

    def small_sizes(self) -> str:
        """What a call costs at least, and the size from which bandwidth costs more."""
        lines = []
        for num_threads in self.thread_counts():
            rows = [["call", "floor", "f32 2x3x4", "crossover"]]
            for column in self.columns("small"):
                times = {
                    case.nbytes: seconds
                    for case in self.cases("small")
                    # A row or a column is contiguous after transposing, too: some do nothing then.
                    if min(case.shape) > 1 and (seconds := self.seconds(case, column, num_threads))
                }
                if times:
                    floor, crossover = floor_and_crossover(times)
                    tiny = [self.seconds(c, column, num_threads) for c in self.cases("tiny")]
                    rows.append(
                        [
                            str(column),
                            format_seconds(floor),
                            format_seconds(tiny[0]) if tiny and tiny[0] else "-",
                            f"{crossover / 1024:.3g} KiB" if crossover else "-",
                        ]
                    )
            if len(rows) > 1:
                lines.append(f"{_threads(num_threads)}, cost of a call\n{_aligned(rows)}")
        return "\n\n".join(lines)

    # ---- chart

    def plot(self, path: Path, group: str = "rows") -> None:
        """A bar chart: a group of bars a case, a panel a thread count. The name says the format.

        Raises:
            HptpError: matplotlib is not installed.
        """
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise HptpError(f"{path}: plots need matplotlib (pip install 'hptp[plot]')") from None
        cases, threads = self.cases(group), self.thread_counts()
        columns = [c for c in self.columns(group) if c.contestant != COPY]
        names = list(dict.fromkeys(column.contestant for column in columns))
        figure = Figure(figsize=(9 * len(threads), 1.5 + 0.9 * len(cases)), layout="constrained")
        FigureCanvasAgg(figure)
        for panel, num_threads in enumerate(threads, start=1):
            axes = figure.add_subplot(1, len(threads), panel)
            height = 0.8 / max(len(columns), 1)
            for place, column in enumerate(columns):
                shares = [self.share(case, column, num_threads) or 0.0 for case in cases]
                positions = [row + place * height for row in range(len(cases))]
                # A library keeps its colour, paler where it allocates.
                axes.barh(
                    positions,
                    shares,
                    height,
                    label=str(column),
                    color=f"C{names.index(column.contestant)}",
                    alpha=0.45 if column.allocates else 1.0,
                )
            axes.axvline(1.0, color="black", linewidth=0.8)
            axes.set_yticks([row + 0.4 for row in range(len(cases))], [case.id for case in cases])
            axes.invert_yaxis()
            axes.set_xlabel(f"share of the {COPY}, {_threads(num_threads)}")
        figure.axes[0].legend()
        figure.savefig(path)


def floor_and_crossover(seconds_by_bytes: dict[int, float]) -> tuple[float, float | None]:
    """The least time of a call, and the bytes at which it takes twice that.

    A call takes about floor + bytes / bandwidth, so there the two are equal. Between two sizes the
    time is taken to grow as a power of the size; None if no size is slow enough.

    >>> floor_and_crossover({4: 1.0, 400: 1.0, 1600: 4.0})
    (1.0, 800.0)
    """
    sizes = sorted(seconds_by_bytes)
    floor = min(seconds_by_bytes.values())
    above = next((n for n in reversed(sizes) if seconds_by_bytes[n] < 2 * floor), None)
    if above is None or above == sizes[-1]:
        return floor, None
    below, reached = above, sizes[sizes.index(above) + 1]
    t0, t1 = seconds_by_bytes[below], seconds_by_bytes[reached]
    exponent = math.log(2 * floor / t0) / math.log(t1 / t0)
    return floor, below * (reached / below) ** exponent


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their width; numbers to the right, the first column to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _mark(spread: float) -> str:
    return "!" if spread > UNTRUSTWORTHY_SPREAD else "~" if spread > WIDE_SPREAD else ""


def _perm_text(case: Case) -> str:
    return "(" + ",".join(map(str, case.perm)) + ")"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
