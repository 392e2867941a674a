"""The launcher's command line: what belongs to it, and what to the application."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

_VALUES: Final = ("--profile", "--patch", "--from-default-profile")
_DUMPS: Final = ("--dump-config", "--dump-default-config", "--dump-config-schema")
_SWITCHES: Final = (*_DUMPS, "--strict", "--safe")
FLAGS: Final = (*_VALUES, *_SWITCHES)
"""What may stand before and right after a profile's name."""
_HELP: Final = ("-h", "--help")
_VERSION: Final = ("-V", "--version")


class UsageError(Exception):
    """The command line makes no sense; the message says why."""


class Invocation(NamedTuple):
    """One understood command line: exactly one of help, version, command and profile is set."""

    help: bool = False
    version: bool = False
    command: str | None = None
    profile: str | None = None
    template: str | None = None
    """Create the profile from this template first."""
    patches: tuple[str, ...] = ()
    dump: str | None = None
    """Which of the dumps is asked for, as its flag."""
    strict: bool = False
    """Nothing of the user's may fail."""
    safe: bool = False
    """Nothing of the user's is started."""
    args: tuple[str, ...] = ()
    """The application's or the command's, verbatim."""


def parse(argv: Sequence[str], *, commands: Collection[str]) -> Invocation:
    """Read `[flags] NAME [flags] [application arguments]`. Raises UsageError.

    Launcher flags end at the first word that is none, or at one `--`, which is consumed.
    `commands` are the words that name a command instead of a profile.
    """
    reader = _Reader(argv)
    while reader.more:
        word = reader.peek()
        if word == "--":
            reader.take()
            break
        if reader.flag():
            continue
        if reader.profile is not None:
            break
        if word in _HELP:
            return Invocation(help=True)
        if word in _VERSION:
            return Invocation(version=True)
        if word.startswith("-"):
            raise UsageError(f"unknown option {word!r}{_near(word)} before a profile is named")
        if word in commands:
            return _command(reader)
        reader.profile = reader.take()
    return _profile(reader)


class _Reader:
    """Consumes tokens and remembers the launcher's flags among them."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)
        self._at = 0
        self.profile: str | None = None
        self.template: str | None = None
        self.patches: list[str] = []
        self.switches: set[str] = set()

    @property
    def more(self) -> bool:
        return self._at < len(self._argv)

    def peek(self) -> str:
        return self._argv[self._at]

    def take(self) -> str:
        word = self._argv[self._at]
        self._at += 1
        return word

    def rest(self) -> tuple[str, ...]:
        return self._argv[self._at :]

    def flag(self) -> bool:
        """Consume one launcher flag with its value; False if the next word is none."""
        name, equals, inline = self.peek().partition("=")
        if name in _SWITCHES and not equals:
            self.switches.add(self.take())
            return True
        if name not in _VALUES:
            return False
        self.take()
        self._store(name, inline if equals else self._value(name))
        return True

    def _value(self, name: str) -> str:
        if not self.more or self.peek().startswith("-"):
            raise UsageError(f"{name} needs a value")
        return self.take()

    def _store(self, name: str, value: str) -> None:
        if not value.strip():
            raise UsageError(f"{name} needs a value, got an empty one")
        if name == "--patch":
            self.patches.append(value)
            return
        held = self.profile if name == "--profile" else self.template
        if held is not None:
            raise UsageError(f"{name} {value!r} comes after {held!r}; give one")
        if name == "--profile":
            self.profile = value
        else:
            self.template = value


def _command(reader: _Reader) -> Invocation:
    name = reader.take()
    if reader.patches or reader.switches or reader.template is not None:
        raise UsageError(f"launcher flags do not go before the command {name!r}")
    return Invocation(command=name, args=reader.rest())


def _profile(reader: _Reader) -> Invocation:
    if reader.profile is None:
        raise UsageError("--profile <name> is required")
    args, dumps = reader.rest(), [flag for flag in _DUMPS if flag in reader.switches]
    if len(dumps) > 1:
        raise UsageError(f"{dumps[0]} and {dumps[1]} exclude each other")
    if dumps and args:
        raise UsageError(f"{dumps[0]} takes no application arguments, got {args[0]!r}")
    for flag in ("--dump-default-config", "--safe"):
        if flag in reader.switches and reader.patches:
            raise UsageError(f"{flag} is about the bundles alone, so it takes no --patch")
    return Invocation(
        profile=reader.profile,
        template=reader.template,
        patches=tuple(reader.patches),
        dump=dumps[0] if dumps else None,
        strict="--strict" in reader.switches,
        safe="--safe" in reader.switches,
        args=args,
    )


def _near(word: str) -> str:
    import difflib  # only a mistake pays for it

    flags = (*FLAGS, *_HELP, *_VERSION)
    near = difflib.get_close_matches(word.partition("=")[0], flags, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
