from __future__ import annotations

import dsh_fs_observation_policy as policy
import pytest
from dsh_cordis import Context
from dsh_fs import (
    FS_EDIT_INTENT,
    FS_OBSERVED,
    FS_WRITE_INTENT,
    CreateIfAbsent,
    FileIntent,
    FileKey,
    FileObserved,
    FileTarget,
    FileVersion,
    FsError,
    ReplaceIfVersion,
)

pytestmark = pytest.mark.anyio
TARGET = FileTarget(FileKey("/f"), "f")
VERSION = FileVersion("v1")


class Owner:
    """Stands for a session: identity and weak references are all that counts."""


async def nothing():
    return None


async def write_intent(ctx, owner):
    return await ctx.waterfall(FS_WRITE_INTENT, FileIntent(TARGET, owner), inner=nothing)


async def edit_intent(ctx, owner):
    return await ctx.waterfall(FS_EDIT_INTENT, FileIntent(TARGET, owner), inner=nothing)


@pytest.fixture
async def ctx(anyio_backend):
    async with Context() as root:
        await root.plugin(policy)
        yield root


async def test_an_unseen_file_can_only_be_created(ctx):
    assert await write_intent(ctx, Owner()) == CreateIfAbsent()
    with pytest.raises(FsError) as refused:
        await edit_intent(ctx, Owner())
    assert refused.value.code == "FS_NOT_OBSERVED"


async def test_a_seen_file_can_be_changed_as_it_was_seen(ctx):
    owner = Owner()
    ctx.emit(FS_OBSERVED, FileObserved(TARGET, owner, VERSION))
    assert await write_intent(ctx, owner) == ReplaceIfVersion(VERSION)
    assert await edit_intent(ctx, owner) == ReplaceIfVersion(VERSION)


async def test_a_file_seen_absent_can_be_created_but_not_edited(ctx):
    owner = Owner()
    ctx.emit(FS_OBSERVED, FileObserved(TARGET, owner, None))
    assert await write_intent(ctx, owner) == CreateIfAbsent()
    with pytest.raises(FsError) as refused:
        await edit_intent(ctx, owner)
    assert refused.value.code == "FS_NOT_FOUND"


async def test_what_one_owner_saw_gives_another_nothing(ctx):
    first, second = Owner(), Owner()
    ctx.emit(FS_OBSERVED, FileObserved(TARGET, first, VERSION))
    assert await write_intent(ctx, second) == CreateIfAbsent()


async def test_without_an_owner_nothing_is_remembered(ctx):
    ctx.emit(FS_OBSERVED, FileObserved(TARGET, None, VERSION))
    assert await write_intent(ctx, None) == CreateIfAbsent()


async def test_unloading_removes_the_policy_and_forgets():
    async with Context() as root:
        owner = Owner()
        fiber = await root.plugin(policy)
        root.emit(FS_OBSERVED, FileObserved(TARGET, owner, VERSION))
        await fiber.dispose()
        assert await write_intent(root, owner) is None
        await root.plugin(policy)
        assert await write_intent(root, owner) == CreateIfAbsent()
