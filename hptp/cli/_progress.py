"""A progress bar on a terminal: share, bytes, speed and time left, on one line of stderr."""

from __future__ import annotations

import sys
import time

WIDTH = 30
REDRAW_SECONDS = 0.1


class Progress:
    """Call it with the bytes done and in total; it draws at most ten times a second."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._start = time.perf_counter()
        self._drawn = 0.0
        self.seconds = 0.0

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        now = time.perf_counter()
        self.seconds = now - self._start
        finished = done_bytes >= total_bytes
        if not self._shown or (now - self._drawn < REDRAW_SECONDS and not finished):
            return
        self._drawn = now
        share = done_bytes / total_bytes if total_bytes else 1.0
        filled = int(share * WIDTH)
        left = self.seconds / share - self.seconds if share else 0.0
        print(
            f"\r[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%}  "
            f"{done_bytes / 1e9:.2f} of {total_bytes / 1e9:.2f} GB  "
            f"{done_bytes / 1e9 / max(self.seconds, 1e-9):.2f} GB/s  {left:.0f} s left ",
            end="\n" if finished else "",
            file=sys.stderr,
            flush=True,
        )
