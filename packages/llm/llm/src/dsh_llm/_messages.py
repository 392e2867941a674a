"""Messages: immutable from creation, with an identity that survives inbox, log and request."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Literal, NewType

import msgspec
from dsh_lossless_json import FrozenJson, OpenUnion
from msgspec import UNSET, UnsetType

from ._blocks import ContentBlock, TextBlock, ToolResultBlock

MessageId = NewType("MessageId", str)


class MessageSource(OpenUnion, tag_field="kind"):
    """Who wrote a message. An open union on `kind`."""

    __slots__ = ()


@MessageSource.variant
class UserSource(msgspec.Struct, MessageSource, frozen=True, tag_field="kind", tag="user"):
    """A person, or whoever stands in for one."""


class PromptSection(msgspec.Struct, frozen=True):
    """A named piece of prompt text."""

    name: str
    text: str


@MessageSource.variant
class PluginSource(
    msgspec.Struct, MessageSource, frozen=True, rename="camel", tag_field="kind", tag="plugin"
):
    """A plugin. `form` names the meaning of the message, not how it is shown."""

    plugin: str
    form: str | UnsetType = UNSET
    """`instructions`, `catalog`, `snapshot`, `notice`, `relay` or `recall`; others are opaque."""
    summary: str | UnsetType = UNSET
    """One line for people, at most 120 characters; required by `notice`."""
    sections: tuple[PromptSection, ...] | UnsetType = UNSET
    """What the message was made of; required by `snapshot`."""


@MessageSource.variant
class ModelSource(
    msgspec.Struct, MessageSource, frozen=True, rename="camel", tag_field="kind", tag="model"
):
    """A model. `replay_state` is the adapter's own data for sending the message back to it."""

    provider: str
    model: str
    replay_state: FrozenJson | UnsetType = UNSET


@MessageSource.variant
class ToolSource(
    msgspec.Struct, MessageSource, frozen=True, rename="camel", tag_field="kind", tag="tool"
):
    """The tool that answered call `call_id`."""

    call_id: str


class Message(msgspec.Struct, frozen=True, rename="camel", kw_only=True, weakref=True):
    """One message of a conversation. Tool results are user messages of one `tool-result` block."""

    id: MessageId
    role: Literal["system", "user", "assistant"]
    content: tuple[ContentBlock, ...]
    source: MessageSource


def new_message_id() -> MessageId:
    """A fresh random id."""
    return MessageId(str(uuid.uuid4()))


def create_user_message(
    content: str | Iterable[ContentBlock], *, source: MessageSource | None = None
) -> Message:
    """A user message; text becomes one text block. `source` defaults to the user."""
    blocks = (TextBlock(content),) if isinstance(content, str) else tuple(content)
    return Message(id=new_message_id(), role="user", content=blocks, source=source or UserSource())


def create_assistant_message(content: Iterable[ContentBlock], *, source: ModelSource) -> Message:
    """A message of the model named by `source`."""
    return Message(id=new_message_id(), role="assistant", content=tuple(content), source=source)


def create_tool_result_message(
    call_id: str, content: Iterable[ContentBlock], *, is_error: bool
) -> Message:
    """The answer to call `call_id`: a user message whose block and source carry that id."""
    block = ToolResultBlock(call_id, tuple(content), is_error)
    return Message(id=new_message_id(), role="user", content=(block,), source=ToolSource(call_id))


SUMMARY_CHARACTERS = 120


def bounded_summary(text: str) -> str:
    """`text` cut to 120 characters, the last an ellipsis if anything was cut."""
    if len(text) <= SUMMARY_CHARACTERS:
        return text
    return text[: SUMMARY_CHARACTERS - 1] + "…"
