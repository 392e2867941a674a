"""The row: what is shown, and whose place the handler takes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from dsh_cordis import Context, Disposer, Service
from msgspec import Meta

from ._errors import ConsoleLoggerError

ROOT: Final = "dsh"
PLAIN_HANDLER: Final = "dsh.stderr"
"""The name of the launcher's handler."""
CONSOLE_HANDLER: Final = "dsh.console"

Level: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]


class ConsoleLoggerConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is shown and how."""

    level: Annotated[Level, Meta(description="The least severe records that are shown.")] = "info"
    levels: Annotated[
        dict[str, Level],
        Meta(
            description="Other levels for single loggers and what is below them, by full name such"
            " as `dsh.tools`."
        ),
    ] = {}
    show_time: Annotated[
        bool, Meta(description="Whether lines begin with the local time, to the millisecond.")
    ] = True
    width: Annotated[
        Annotated[int, Meta(ge=40)] | None,
        Meta(
            description="Where lines are folded. None: the terminal's width; elsewhere only"
            " tracebacks are folded.",
            extra={"unit": "columns"},
        ),
    ] = None
    colours: Annotated[
        Literal["auto", "always", "never"],
        Meta(description="`auto`: on a terminal, unless `NO_COLOR` is set to something."),
    ] = "auto"

    def __post_init__(self) -> None:
        for name in self.levels:
            if not name.startswith(f"{ROOT}."):
                raise ValueError(
                    f"levels: {name!r} is no logger below {ROOT!r}, such as 'dsh.tools'"
                )


class ConsoleLogger(Service):
    """Shows the records of the harness on stderr while it is mounted.

    It takes the place of the launcher's plain handler and gives it back.
    """

    Config = ConsoleLoggerConfig
    name = "dsh-cordis-logger-console"

    def __init__(self, ctx: Context, config: ConsoleLoggerConfig) -> None:
        super().__init__(ctx, config)
        self._config = config

    def start(self) -> Iterator[Disposer]:
        # Only who mounts it pays for rich.
        from ._handler import ConsoleHandler

        logger = logging.getLogger(ROOT)
        if any(handler.name == CONSOLE_HANDLER for handler in logger.handlers):
            raise ConsoleLoggerError(
                "another row shows the log already: mount one of them", code="CONSOLE_MOUNTED"
            )
        config = self._config
        handler = ConsoleHandler(
            show_time=config.show_time, width=config.width, colours=config.colours
        )
        handler.set_name(CONSOLE_HANDLER)
        yield _set_level(logger, config.level)
        for name, level in config.levels.items():
            yield _set_level(logging.getLogger(name), level)
        yield _take_place(logger, handler)


def _set_level(logger: logging.Logger, level: Level) -> Disposer:
    before = logger.level
    logger.setLevel(level.upper())
    return lambda: logger.setLevel(before)


def _take_place(logger: logging.Logger, handler: logging.Handler) -> Disposer:
    plain = [one for one in logger.handlers if one.name == PLAIN_HANDLER]
    # The new one first: what another thread logs meanwhile is rather there twice than lost.
    logger.addHandler(handler)
    for one in plain:
        logger.removeHandler(one)

    def give_back() -> None:
        for one in plain:
            logger.addHandler(one)
        logger.removeHandler(handler)
        handler.close()

    return give_back
