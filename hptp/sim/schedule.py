"""Who runs when: processes that wait for conditions, in an order that is the same every time.

A process is a generator that yields the condition it waits for, or a worker: ordinary code that
cannot yield, so it has a thread of its own and hands control over while it waits. Only one of
them ever runs, and those that can are served in turn, except that the first process goes before
all others: the host's sequence issues operations as early as the hardware could.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator

from hptp.errors import DeviceError


class Deadlock(DeviceError):
    """Nothing can run any more; the message says who waits for what."""


class Condition:
    """Something processes wait for. Its string says what, for the report of a deadlock."""

    def __init__(self, description: str) -> None:
        self._description = description
        self.waiting: list[Process] = []

    def notify(self) -> None:
        """Let those who wait look again."""
        for process in self.waiting:
            process.ready()
        self.waiting.clear()

    def __str__(self) -> str:
        return self._description


Steps = Generator[Condition, None, None]


class Lock(Condition):
    """A counting lock, as the tiles have them."""

    def __init__(self, description: str, value: int) -> None:
        super().__init__(description)
        self.value = value

    def acquire(self, count: int) -> Steps:
        while self.value < count:
            yield self
        self.value -= count

    def release(self, count: int) -> None:
        self.value += count
        self.notify()


class Process:
    """Something that runs until it waits."""

    def __init__(self, name: str, scheduler: Scheduler) -> None:
        self.name = name
        self.waits_for: Condition | None = None
        self.done = False
        self._scheduler = scheduler

    def ready(self) -> None:
        self._scheduler.enqueue(self)

    def step(self) -> Condition | None:
        """Run until there is something to wait for; None: the process is over."""
        raise NotImplementedError

    def stop(self) -> None:
        """Give up what the process holds."""


class GeneratorProcess(Process):
    """A process whose code yields what it waits for."""

    def __init__(self, name: str, scheduler: Scheduler, steps: Steps) -> None:
        super().__init__(name, scheduler)
        self._steps = steps

    def step(self) -> Condition | None:
        return next(self._steps, None)

    def stop(self) -> None:
        self._steps.close()


class _Stopped(BaseException):
    """Unwinds a worker that is no longer needed."""


class ThreadProcess(Process):
    """A process whose code cannot yield: it calls `wait` from inside."""

    def __init__(self, name: str, scheduler: Scheduler, code: Callable[[], None]) -> None:
        super().__init__(name, scheduler)
        self._code = code
        self._resume = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._condition: Condition | None = None
        self._error: BaseException | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def step(self) -> Condition | None:
        if not self._thread.ident:
            self._thread.start()
        self._resume.release()
        self._paused.acquire()
        if self._error is not None:
            raise self._error
        return self._condition

    def wait(self, condition: Condition) -> None:
        """Called by the code: let others run until the condition is notified."""
        self._condition = condition
        self._paused.release()
        self._resume.acquire()
        if self._stopping:
            raise _Stopped

    def stop(self) -> None:
        if self._thread.ident and self._condition is not None and self._error is None:
            self._stopping = True
            self._resume.release()
            self._thread.join()

    def _main(self) -> None:
        self._resume.acquire()
        try:
            self._code()
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        self._condition = None
        self._paused.release()


class Scheduler:
    """Runs processes until the first one is over and nothing else can move."""

    def __init__(self) -> None:
        self._processes: list[Process] = []
        self._ready: deque[Process] = deque()
        self._first_is_ready = False

    def add(self, process: Process) -> None:
        """The first process added is the one that goes before all others."""
        self._processes.append(process)
        self.enqueue(process)

    def enqueue(self, process: Process) -> None:
        if process is self._processes[0]:
            self._first_is_ready = True
        else:
            self._ready.append(process)

    def run(self) -> None:
        """Run to the end.

        Raises:
            Deadlock: the first process waits for something nobody will do.
        """
        first = self._processes[0]
        try:
            while self._first_is_ready or self._ready:
                if self._first_is_ready:
                    self._first_is_ready = False
                    process = first
                else:
                    process = self._ready.popleft()
                process.waits_for = process.step()
                if process.waits_for is None:
                    process.done = True
                else:
                    process.waits_for.waiting.append(process)
            if not first.done:
                raise Deadlock(self._report())
        finally:
            for process in self._processes:
                process.stop()

    def _report(self) -> str:
        waiting = [p for p in self._processes if not p.done]
        lines = [f"  {process.name} waits for {process.waits_for}" for process in waiting]
        return "\n".join(["deadlock: nothing can run any more", *lines])
