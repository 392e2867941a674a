"""Profiles, bundles, patch layers and the boot of a plugin tree."""

# More than a dozen names: the steps between a command line and a running tree, one by one.
from __future__ import annotations

from ._audit import audit
from ._boot import boot
from ._dump import dump_rows
from ._errors import BootError
from ._layers import (
    Composition,
    Layer,
    LayerProblem,
    SkippedPatch,
    bundle_hint,
    compose,
    unlisted_bundles,
)
from ._live import watch_layers
from ._logging import StderrHandler
from ._profiles import (
    RESERVED_NAMES,
    Profile,
    check_home_writable,
    create_profile,
    open_profile,
    shipped_profile,
    template_bundles,
)
from ._quarantine import QUARANTINE, Quarantine, Quarantined, failure_reason
from ._run import Application, run_application
from ._schema import config_schema
from ._shutdown import Shutdown, flush_output, leave
from ._sites import (
    CURRENT_SITE,
    SITES,
    SiteRecord,
    join_site,
    profile_site,
    python_tag,
    read_site_record,
    site_problem,
    sync_command,
    write_site_record,
)
from ._watchdog import ACTIVATION_TIMEOUT_MS, Watchdog, activation_timeout_ms

__all__ = (
    "ACTIVATION_TIMEOUT_MS",
    "CURRENT_SITE",
    "QUARANTINE",
    "RESERVED_NAMES",
    "SITES",
    "Application",
    "BootError",
    "Composition",
    "Layer",
    "LayerProblem",
    "Profile",
    "Quarantine",
    "Quarantined",
    "Shutdown",
    "SiteRecord",
    "SkippedPatch",
    "StderrHandler",
    "Watchdog",
    "activation_timeout_ms",
    "audit",
    "boot",
    "bundle_hint",
    "check_home_writable",
    "compose",
    "config_schema",
    "create_profile",
    "dump_rows",
    "failure_reason",
    "flush_output",
    "join_site",
    "leave",
    "open_profile",
    "profile_site",
    "python_tag",
    "read_site_record",
    "run_application",
    "shipped_profile",
    "site_problem",
    "sync_command",
    "template_bundles",
    "unlisted_bundles",
    "watch_layers",
    "write_site_record",
)
