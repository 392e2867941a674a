"""The model of the benchmarks: a scripted server whose replies the newest user message orders.

`@tools=N` steps of one bash call each, `@chunks=N` deltas in the final answer, `@delay=MS` before
each reply, `@cmd=COMMAND` with `_` for spaces. Prints its base URL, serves until it is ended.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

from dsh_llm_mock_server import MockServer, Reply, Request

DIRECTIVE = re.compile(r"@(\w+)=(\S+)")


def reply(request: Request) -> Reply:
    """What the newest message with directives asks for at this point of its turn."""
    messages = request.body["messages"]
    last = max(i for i, m in enumerate(messages) if m["role"] == "user" and "@" in m["content"])
    order = dict(DIRECTIVE.findall(messages[last]["content"]))
    done = sum(1 for m in messages[last:] if m["role"] == "assistant")
    answer: Reply = Reply.pause(float(order["delay"])) if "delay" in order else Reply()
    if done < int(order.get("tools", 0)):
        return answer.call("bash", arguments(request.body, order.get("cmd", "true")))
    chunks = int(order.get("chunks", 5))
    return answer.text("word " * chunks, chunk_size=5)


def arguments(body: dict[str, Any], command: str) -> dict[str, str]:
    """A value for each argument that the offered tool requires."""
    schema = body["tools"][0]["function"]["parameters"]
    for tool in body["tools"]:
        if tool["function"]["name"] == "bash":
            schema = tool["function"]["parameters"]
    required = dict.fromkeys(schema["required"], "bench")
    return {**required, "command": command.replace("_", " ")}


async def main() -> None:
    async with MockServer(reply, strict="--strict" in sys.argv) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
