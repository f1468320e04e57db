"""What hptp raises. Every class is also the built-in error a caller would expect."""


class HptpError(Exception):
    """Base of every error hptp raises on purpose."""


class PermutationError(HptpError, ValueError):
    """`perm` is not a permutation of the axes."""


class OutputError(HptpError, ValueError):
    """`out` cannot hold the result."""


class UnsupportedArrayError(HptpError, TypeError):
    """The input is not an array hptp can move as opaque bytes."""


class DeviceError(HptpError, RuntimeError):
    """The device is unknown, absent, or failed."""


class PlanError(HptpError, ValueError):
    """The parameters break a limit of the device; the message names it with its numbers."""
