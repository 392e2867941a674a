"""Fixtures that every test of the workspace sees."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

# A member's own environment has hypothesis only if its tests declare it.
if find_spec("hypothesis"):
    from hypothesis import settings

    # How long one example takes says nothing on a busy machine. Built on the profile that
    # hypothesis chose itself: under CI it is a deterministic one.
    settings.register_profile("workspace", settings(deadline=None))
    settings.load_profile("workspace")


@pytest.fixture
def anyio_backend() -> str:
    """The kernel owns asyncio tasks, so asynchronous tests run on asyncio."""
    return "asyncio"
