"""The floor: a bare httpx tool loop without any framework, on the same orders."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


async def run(client: httpx.AsyncClient, prompt: str) -> str:
    """One task to its answer."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": prompt},
    ]
    while True:
        text, calls = await ask(client, messages)
        if not calls:
            return text
        wire = [{"id": call["id"], "type": "function", "function": named(call)} for call in calls]
        messages.append({"role": "assistant", "content": None, "tool_calls": wire})
        for call in calls:
            output = await bash(json.loads(call["arguments"])["command"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


def named(call: dict[str, str]) -> dict[str, str]:
    """The function part of a call."""
    return {"name": call["name"], "arguments": call["arguments"]}


async def ask(client: httpx.AsyncClient, messages: list[Any]) -> tuple[str, list[dict[str, str]]]:
    """One streamed request."""
    body = {"model": "mock", "messages": messages, "tools": [BASH], "stream": True}
    text: list[str] = []
    calls: dict[int, dict[str, str]] = {}
    url = os.environ["DEEPSEEK_BASE_URL"] + "/chat/completions"
    async with client.stream("POST", url, json=body) as response:
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            delta = json.loads(line[6:])["choices"][0]["delta"]
            if delta.get("content"):
                text.append(delta["content"])
            for part in delta.get("tool_calls") or []:
                call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                if part.get("id"):
                    call["id"] = part["id"]
                    call["name"] = part["function"]["name"]
                call["arguments"] += part["function"].get("arguments", "")
    return "".join(text), list(calls.values())


async def bash(command: str) -> str:
    """Run a command, give its output."""
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, _err = await process.communicate()
    return out.decode()


async def main() -> None:
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=300, limits=limits) as client:
        await asyncio.gather(*(run(client, sys.argv[1]) for _ in range(count)))


if __name__ == "__main__":
    asyncio.run(main())
