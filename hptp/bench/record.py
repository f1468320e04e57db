"""One measured call with everything its number depends on, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hptp.bench.cases import Case
from hptp.bench.timer import Measurement
from hptp.errors import HptpError

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """A contestant's measurement of a case.

    Args:
        contestant, version: who.
        allocates: the call made its own output.
        num_threads: that the process was given.
        kernel, isa: what hptp's plan chose; empty of the others.
        huge_pages: the share of source and destination in huge pages, where the system tells.
        cold: the first call.
        warm: the repeated call.
        refusal: why there is no measurement.
    """

    case: Case
    contestant: str
    version: str
    allocates: bool
    num_threads: int
    kernel: str = ""
    isa: str = ""
    huge_pages: tuple[float | None, float | None] = (None, None)
    cold: Measurement | None = None
    warm: Measurement | None = None
    refusal: str = ""

    @property
    def key(self) -> tuple[str, str, str, bool, int]:
        """What repeats have in common."""
        case = self.case
        return case.id, str(case.shape), self.contestant, self.allocates, self.num_threads

    @property
    def seconds(self) -> float | None:
        """The median of the repeated call."""
        return self.warm.median if self.warm else None

    @property
    def gb_per_s(self) -> float | None:
        """10^9 bytes read and written a second."""
        return self.case.moved_bytes / self.seconds / 1e9 if self.seconds else None

    def merged(self, repeat: Record) -> Record:
        """This record with the blocks of a repeat added; a measurement beats a refusal."""
        if self.warm is None or repeat.warm is None:
            return self if self.warm else repeat
        return replace(self, warm=self.warm.merged(repeat.warm))

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "case": self.case.to_json(),
            "moved_bytes": self.case.moved_bytes,
            "huge_pages": list(self.huge_pages),
            "cold": self.cold and self.cold.to_json(),
            "warm": self.warm and self.warm.to_json(),
        }

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Record:
        fields = {key: value for key, value in entry.items() if key != "moved_bytes"}
        for key in ("cold", "warm"):
            fields[key] = fields[key] and Measurement.from_json(fields[key])
        fields["huge_pages"] = tuple(fields["huge_pages"])
        return cls(**{**fields, "case": Case.from_json(entry["case"])})


@dataclass(frozen=True)
class Results:
    """The records of one machine, which is described by `machine.describe()`."""

    machine: dict[str, Any]
    records: tuple[Record, ...]

    def save(self, path: Path) -> None:
        head = {"hptp_bench": FORMAT, "machine": self.machine}
        # One record a line: such files can be searched and compared by ordinary tools.
        lines = ",\n".join(json.dumps(record.to_json()) for record in self.records)
        text = json.dumps(head, indent=1).removesuffix("\n}")
        path.write_text(f'{text},\n "records": [\n{lines}\n]}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Results:
        """
        Raises:
            HptpError: the file is not one that `save` wrote.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = content["hptp_bench"]
            if found != FORMAT:
                raise HptpError(f"{path} has format {found}; this version reads {FORMAT}")
            records = tuple(Record.from_json(entry) for entry in content["records"])
        except (ValueError, KeyError, TypeError) as error:
            raise HptpError(f"{path} is not a file of results: {error!r}") from error
        return cls(content["machine"], records)


def merge(records: Iterable[Record]) -> list[Record]:
    """Repeats of the same measurement as one record each, in order of first appearance."""
    merged: dict[tuple[str, str, str, bool, int], Record] = {}
    for record in records:
        known = merged.get(record.key)
        merged[record.key] = known.merged(record) if known else record
    return list(merged.values())
