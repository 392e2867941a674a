"""Reading the `.env` files that may add to the launching environment."""

from __future__ import annotations

import logging
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ._dotenv import parse_dotenv
from ._environment import EnvironmentFile, LaunchEnvironment
from ._errors import LaunchEnvironmentError

_log = logging.getLogger("dsh.launch_environment")

_FORBIDDEN_PREFIXES: Final = ("DSH_", "XDG_", "DYLD_", "BASH_FUNC_")
_FORBIDDEN: Final = frozenset(
    """
    PATH HOME USERPROFILE SHELL ENV BASH_ENV SHELLOPTS BASHOPTS LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
    NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED
    PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONUSERBASE PYTHONEXECUTABLE PYTHONBREAKPOINT
    PERL5OPT PERL5LIB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS
    GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_ASKPASS SSH_ASKPASS
    GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT EDITOR VISUAL PAGER BROWSER
    DEEPSEEK_BASE_URL DEEPSEEK_SEARCH_BASE_URL
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    """.split()
)
"""Names that decide which code runs, where requests go or whom they trust, in upper case."""


def load_layered_environment(
    program: str, cwd: Path, home: Path, environ: Mapping[str, str]
) -> LaunchEnvironment:
    """`environ` over `<cwd>/.env` over `<home>/.env`; files fill only names that are unset.

    Both files are checked before either applies: raises `LaunchEnvironmentError` with code
    `FORBIDDEN_VARIABLE` if one sets a name that only the launching environment may set. An absent
    file is skipped silently; an unreadable one and a malformed line are reported in one line each
    as `<program>: …`, without any value, and skipped. Where `home` is `cwd` the file counts as the
    project's.
    """
    project = _read(program, cwd / ".env")
    user = None if _same_place(cwd, home) else _read(program, home / ".env")
    for file in (project, user):
        if file is not None:
            _refuse_forbidden(program, file)
    return LaunchEnvironment(environ, project=project, user=user)


def _same_place(cwd: Path, home: Path) -> bool:
    try:
        return cwd.samefile(home)
    except OSError:
        # One of them is not there or cannot be reached, so it holds no file either.
        return cwd == home


def _read(program: str, path: Path) -> EnvironmentFile | None:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            # `.env` is also a common name of a virtual environment.
            return None
        if not stat.S_ISREG(kind):
            # A pipe that nobody writes to would hold the boot for ever.
            _log.warning("%s: failed to load .env: %s is not a regular file", program, path)
            return None
        text = path.read_text("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        _log.warning("%s: failed to load .env: %s: %s", program, path, reason)
        return None
    except UnicodeDecodeError:
        _log.warning("%s: failed to load .env: %s is not UTF-8 text", program, path)
        return None
    variables, bad_lines = parse_dotenv(text)
    for line in bad_lines:
        _log.warning("%s: %s line %d is not NAME=value and was skipped", program, path, line)
    return EnvironmentFile(path, variables)


def _refuse_forbidden(program: str, file: EnvironmentFile) -> None:
    for name in file.variables:
        folded = name.upper()
        if folded in _FORBIDDEN or folded.startswith(_FORBIDDEN_PREFIXES):
            raise LaunchEnvironmentError(
                f'{program}: {file.path} sets "{name}", which only the launching environment may '
                f"set; remove that line and export {name} before you start {program} if you want it"
            )
