"""Settings and fixtures every test shares."""

from __future__ import annotations

from types import ModuleType

import hypothesis
import pytest

# One fixed sequence of examples: a failure on one machine is a failure on all, and no run is
# luckier than another. Deadlines would time the machine, not the code.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def torch() -> ModuleType:
    """PyTorch, where it is installed."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")  # type: ignore[no-any-return]
