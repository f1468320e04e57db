"""The IRON interpreter: programs for the AMD NPU, executed on this machine.

`hptp.sim.iron` has the names programs are made of; a resolved program runs with

    run_program(program, args)          from its own runtime sequence
    run_words(words, program, args)     from the words of an instruction stream

    iron, program   what is said: fifos, workers, fills, drains
    lower           what is configured: tiles, buffers, channels, descriptors; within
    hardware        the limits of the silicon
    run             what happens, by
    dma             channels, queues, streams, and
    schedule        processes, locks, deadlocks
    kernels         the core functions, compiled for this machine
"""

from hptp.sim.hardware import HardwareLimit
from hptp.sim.run import run_program, run_words
from hptp.sim.schedule import Deadlock

__all__ = ["Deadlock", "HardwareLimit", "run_program", "run_words"]
