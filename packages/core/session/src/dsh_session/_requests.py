"""The request header in its one canonical form."""

from __future__ import annotations

import msgspec
from dsh_llm import AdapterDefaults
from msgspec import UNSET

from ._vocabulary import EpochHeader


def canonical_header(header: EpochHeader) -> EpochHeader:
    """`header` without the parts that are there but empty: system, tools, markers."""
    return msgspec.structs.replace(
        header,
        system=header.system or UNSET,
        tools=header.tools or UNSET,
        adapter_defaults=UNSET
        if header.adapter_defaults in (UNSET, AdapterDefaults())
        else header.adapter_defaults,
    )


def header_equals(one: EpochHeader, other: EpochHeader) -> bool:
    """Whether both describe the same request, with the tools in the same order."""
    return canonical_header(one) == canonical_header(other)
