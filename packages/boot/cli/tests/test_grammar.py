from __future__ import annotations

import pytest
from dsh_cli._grammar import Invocation, UsageError, parse

COMMANDS = {"demo", "plugin", "help"}


def read(line: str) -> Invocation:
    return parse(line.split(), commands=COMMANDS)


def test_launcher_flags_end_at_the_first_token_that_is_none():
    assert read("--profile tui --patch a --resume b --patch c") == Invocation(
        profile="tui", patches=("a",), args=("--resume", "b", "--patch", "c")
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("web", Invocation(profile="web")),
        (
            "web --patch a --dump-config",
            Invocation(profile="web", patches=("a",), dump="--dump-config"),
        ),
        ("--dump-config web", Invocation(profile="web", dump="--dump-config")),
        ("--patch=a web --patch=b", Invocation(profile="web", patches=("a", "b"))),
        ("--dump-default-config web", Invocation(profile="web", dump="--dump-default-config")),
        ("web -h", Invocation(profile="web", args=("-h",))),
        ("--profile web --help", Invocation(profile="web", args=("--help",))),
        ("web -V", Invocation(profile="web", args=("-V",))),
        ("web do it --patch x", Invocation(profile="web", args=("do", "it", "--patch", "x"))),
        ("--profile web demo", Invocation(profile="web", args=("demo",))),
        ("web -- --patch x", Invocation(profile="web", args=("--patch", "x"))),
        ("web -- -- x", Invocation(profile="web", args=("--", "x"))),
        ("web a -- b", Invocation(profile="web", args=("a", "--", "b"))),
        ("web -", Invocation(profile="web", args=("-",))),
        (
            "--profile mine --from-default-profile web x",
            Invocation(profile="mine", template="web", args=("x",)),
        ),
        ("mine --from-default-profile web", Invocation(profile="mine", template="web")),
        ("-h", Invocation(help=True)),
        ("--patch a --help", Invocation(help=True)),
        ("-V", Invocation(version=True)),
        ("demo --slow web", Invocation(command="demo", args=("--slow", "web"))),
        (
            "plugin --profile x add .",
            Invocation(command="plugin", args=tuple("--profile x add .".split())),
        ),
    ],
)
def test_a_line_is_read_as(line: str, expected: Invocation):
    assert read(line) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "--profile <name> is required"),
        ("--", "--profile <name> is required"),
        ("-- web", "--profile <name> is required"),
        ("--dump-config", "--profile <name> is required"),
        ("--profile", "--profile needs a value"),
        ("--profile --dump-config", "--profile needs a value"),
        ("--profile=", "--profile needs a value, got an empty one"),
        ("web --patch", "--patch needs a value"),
        ("web --patch=", "--patch needs a value, got an empty one"),
        ("web --profile x", "--profile 'x' comes after 'web'"),
        ("--profile a --profile b", "--profile 'b' comes after 'a'"),
        ("-p web", "unknown option '-p'"),
        ("--config x", "unknown option '--config'"),
        ("web --dump-config --dump-default-config", "exclude each other"),
        ("web --dump-config x", "--dump-config takes no application arguments, got 'x'"),
        ("web --dump-default-config --patch a", "so it takes no --patch"),
        ("--patch a demo", "launcher flags do not go before the command 'demo'"),
        ("--dump-config plugin", "launcher flags do not go before the command 'plugin'"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused(line: str, reason: str):
    with pytest.raises(UsageError) as caught:
        read(line)
    assert reason in str(caught.value)
