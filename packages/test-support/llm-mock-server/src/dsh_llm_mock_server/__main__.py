"""`python -m dsh_llm_mock_server`: the server as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import IO, Final

import msgspec

from ._records import MockServerError, Refusal, Request, Script
from ._reply import Reply
from ._script import replies_from_json
from ._server import MockServer

_DEFAULT_TEXT: Final = "This is the mock model server."


def main(argv: list[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m dsh_llm_mock_server",
        description="A scripted chat-completions server. Prints its base URL as one JSON line.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--script", type=Path, help="JSON file with replies, each a list of steps")
    parser.add_argument("--log", type=Path, help="append every request as a JSON line")
    parser.add_argument("--require-key", help="refuse any other bearer token")
    parser.add_argument(
        "--lenient", action="store_true", help="accept what a strict server refuses"
    )
    options = parser.parse_args(argv)
    try:
        script = (
            _default if options.script is None else replies_from_json(options.script.read_bytes())
        )
        asyncio.run(_serve(script, options))
    except (MockServerError, OSError) as error:
        sys.stderr.write(f"dsh_llm_mock_server: {error}\n")
        return 1
    return 0


def _default(_request: Request) -> Reply:
    return Reply.text(_DEFAULT_TEXT)


async def _serve(script: Script, options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    log: IO[bytes] | None = None if options.log is None else options.log.open("ab", buffering=0)
    try:
        async with MockServer(
            script,
            strict=not options.lenient,
            require_key=options.require_key,
            host=options.host,
            port=options.port,
            on_record=None if log is None else lambda record: _append(log, record),
        ) as server:
            sys.stdout.write(msgspec.json.encode({"baseURL": server.base_url}).decode() + "\n")
            sys.stdout.flush()
            await stop.wait()
    finally:
        if log is not None:
            log.close()


def _append(log: IO[bytes], record: Request | Refusal) -> None:
    if isinstance(record, Refusal):
        line: dict[str, object] = {
            "refused": record.status,
            "message": record.message,
            "path": record.path,
            "time": record.time,
        }
    else:
        hidden = {"authorization": "<hidden>"} if "authorization" in record.headers else {}
        line = {
            "number": record.number,
            "path": record.path,
            "headers": {**record.headers, **hidden},
            "body": record.body,
            "time": record.time,
        }
    log.write(msgspec.json.encode(line) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
