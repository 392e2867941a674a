"""Fixtures of the kernel's tests."""

from __future__ import annotations

import asyncio

import pytest
from dsh_cordis import Context, ServiceKey

FOO = ServiceKey[str]("foo")


class Probe:
    """A plugin that records what happens to it."""

    def __init__(self, *, inject=(), config=None) -> None:
        self.log: list[object] = []
        self.inject = inject
        self.Config = config
        self.gate: asyncio.Event | None = None
        self.fail: Exception | None = None

    async def apply(self, ctx: Context, config: object):
        self.log.append(("run", ctx.get(FOO) if self.inject else config))
        if self.gate is not None:
            await self.gate.wait()
        if self.fail is not None:
            raise self.fail
        return lambda: self.log.append("undo")


@pytest.fixture
async def root():
    async with Context() as ctx:
        yield ctx


@pytest.fixture
def new_probe():
    """Makes plugins that record what happens to them."""
    return Probe
