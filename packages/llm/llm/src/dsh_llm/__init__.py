"""Model vocabulary, stream protocol and adapter registry."""

from __future__ import annotations

from ._adapter import Adapter
from ._assembler import BlockAssembler
from ._blocks import (
    ContentBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    text_of,
)
from ._chunks import (
    Aborted,
    BlockEnd,
    BlockStart,
    Failed,
    Finish,
    FinishReason,
    MaxTokens,
    ReasoningDelta,
    ReplayState,
    Stop,
    StreamChunk,
    TextDelta,
    ToolCallDelta,
    ToolCalls,
    Usage,
    UsageChunk,
)
from ._classify import is_context_overflow, is_quota
from ._credentials import KeyProblem, assert_usable_api_key, normalize_api_key
from ._events import LLM, LLM_ADAPTERS_UPDATED, LLM_STREAM, AdaptersUpdated
from ._failures import LlmError, LlmFailure
from ._messages import (
    Message,
    MessageId,
    MessageSource,
    ModelSource,
    PluginSource,
    PromptSection,
    ToolSource,
    UserSource,
    bounded_summary,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
    new_message_id,
)
from ._models import Effort, ModelInfo, ProviderInfo, ReasoningInfo
from ._normalize import error_chain, failure_of, terminal_chunk
from ._request import (
    AdapterDefaults,
    GenerateOptions,
    LlmCallConfig,
    SessionId,
    ToolSchema,
)
from ._retry import AlwaysRetry, Backoff, NormalRetry, RetryConfig, RetryPolicy
from ._runtime import AdapterRegistration, LlmRuntime, PreparedCall

# More than a dozen names: this package is the vocabulary that all others speak.
__all__ = (
    "LLM",
    "LLM_ADAPTERS_UPDATED",
    "LLM_STREAM",
    "Aborted",
    "Adapter",
    "AdapterDefaults",
    "AdapterRegistration",
    "AdaptersUpdated",
    "AlwaysRetry",
    "Backoff",
    "BlockAssembler",
    "BlockEnd",
    "BlockStart",
    "ContentBlock",
    "Effort",
    "Failed",
    "Finish",
    "FinishReason",
    "GenerateOptions",
    "KeyProblem",
    "LlmCallConfig",
    "LlmError",
    "LlmFailure",
    "LlmRuntime",
    "MaxTokens",
    "Message",
    "MessageId",
    "MessageSource",
    "ModelInfo",
    "ModelSource",
    "NormalRetry",
    "PluginSource",
    "PreparedCall",
    "PromptSection",
    "ProviderInfo",
    "ReasoningBlock",
    "ReasoningDelta",
    "ReasoningInfo",
    "ReplayState",
    "RetryConfig",
    "RetryPolicy",
    "SessionId",
    "Stop",
    "StreamChunk",
    "TextBlock",
    "TextDelta",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolCalls",
    "ToolResultBlock",
    "ToolSchema",
    "ToolSource",
    "Usage",
    "UsageChunk",
    "UserSource",
    "assert_usable_api_key",
    "bounded_summary",
    "create_assistant_message",
    "create_tool_result_message",
    "create_user_message",
    "error_chain",
    "failure_of",
    "is_context_overflow",
    "is_quota",
    "new_message_id",
    "normalize_api_key",
    "terminal_chunk",
    "text_of",
)
