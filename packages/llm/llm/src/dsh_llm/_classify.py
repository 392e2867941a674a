"""What a provider's own words say, where its status does not."""

from __future__ import annotations

import re

_SIZE = r"(?:requests?|prompts?|inputs?|messages?)"
_CONTEXT_OVERFLOW = (
    r"context[\s_-]+(?:length|window)[\s_-]+(?:exceeded|overflow(?:ed)?|limit[\s_-]+exceeded)"
    r"|\bmax(?:imum)?\s+(?:(?:allowed|supported)\s+)?context\s+(?:length|window)\b"
    r"(?!\s+(?:setting\s+)?(?:must|should)\s+be\s+(?:an?\s+)?(?:positive|greater|above))"
    rf"|\b{_SIZE}\s+(?:(?:is|are|was|were)\s+)?too\s+(?:large|long)\s+for\s+"
    r"(?:(?:the\s+)?(?:model(?:'s)?\s+)?context|(?:this|the)\s+model)\b"
    rf"|\b{_SIZE}\b.{{0,40}}?\b(?:exceed(?:s|ed|ing)?|overflow(?:s|ed|ing)?|larger\s+than)\b"
    r".{0,40}?\bcontext\b"
)
_QUOTA = (
    r"insufficient[\s_-]+(?:quota|balance|credits?)"
    r"|(?:quota|usage[\s_-]+limit)[\s_-]+(?:(?:has|have|is|was)\s+(?:been\s+)?)?"
    r"(?:exceeded|exhausted|reached)"
    r"|exceeded\s+(?:(?:your|the)\s+)?(?:current\s+)?quota"
    r"|(?:balance|credits?)\s+(?:(?:has|have|is|are|was|were)\s+(?:been\s+)?)?"
    r"(?:exhausted|depleted)"
    r"|out\s+of\s+(?:credits?|budget)"
)


def is_context_overflow(text: str) -> bool:
    """Whether `text`, a provider's code, type and message, says that the window is too small."""
    return _says(_CONTEXT_OVERFLOW, text)


def is_quota(text: str) -> bool:
    """Whether `text` says that the account is out of quota; a rate limit is another thing."""
    return _says(_QUOTA, text)


def _says(pattern: str, text: str) -> bool:
    # Compiled when a request has failed, and kept by `re`: a boot need not pay for it.
    return re.search(pattern, text, re.IGNORECASE | re.DOTALL) is not None
