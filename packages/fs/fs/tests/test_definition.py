from __future__ import annotations

import pytest
from dsh_cordis import Context, CordisError
from dsh_fs import FS, FileSystem, FsError

pytestmark = pytest.mark.anyio


def test_the_service_is_abstract():
    with pytest.raises(TypeError):
        FileSystem(None)  # type: ignore[abstract]


def test_errors_carry_their_code():
    error = FsError("cannot read 'f': it is gone", code="FS_NOT_FOUND")
    assert isinstance(error, CordisError)
    assert error.code == "FS_NOT_FOUND"


async def test_two_providers_of_one_world_are_refused():
    async with Context() as ctx:
        ctx.provide(FS, object())  # type: ignore[arg-type]
        with pytest.raises(CordisError):
            ctx.provide(FS, object())  # type: ignore[arg-type]
