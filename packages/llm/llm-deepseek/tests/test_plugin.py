from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
from dsh_cordis import ConfigError, Context
from dsh_launch_environment import LAUNCH_ENVIRONMENT, LaunchEnvironment
from dsh_llm import LLM, LlmRuntime, NormalRetry, Stop
from dsh_llm_deepseek import DeepSeekConfig, DeepSeekProvider, ModelEntry, resolve_profile
from dsh_llm_mock_server import Reply

pytestmark = pytest.mark.anyio


async def test_connections_are_kept_between_requests(mount: Any) -> None:
    connections: list[object] = []
    frame = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    body = frame + b"data: [DONE]\n\n"
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while request := await reader.readuntil(b"\r\n\r\n"):
                length = int(request.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        model = await mount(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for _ in range(3):
            assert (await model.ask())[-1].reason == Stop()
        await model.handle.dispose()
    assert len(connections) == 1


async def test_unloading_removes_the_route_and_closes_the_connections(
    serve_model: Any, mount: Any
) -> None:
    server = await serve_model([Reply.text("ok"), Reply.text("half").stall()])
    model = await mount(server)
    options = await model.options()
    await model.ask()
    stream = model.llm.stream(options)
    await anext(stream)
    await model.handle.dispose()
    assert model.llm.list_providers() == ()
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].reason.failure.code == "TRANSPORT"


async def test_a_prepared_call_of_an_unloaded_provider_fails_in_band(
    serve_model: Any, mount: Any
) -> None:
    server = await serve_model([])
    model = await mount(server)
    options = await model.options()
    call = await model.llm.prepare_call(options.config)
    await model.handle.dispose()
    chunks = [chunk async for chunk in call.stream(options)]
    assert chunks[-1].reason.failure.code == "TRANSPORT"


async def test_the_launch_environment_is_asked_before_the_process(
    serve_model: Any, mount: Any
) -> None:
    server = await serve_model([Reply.text("ok")])
    environment = {"DEEPSEEK_API_KEY": "sk-launch", "DEEPSEEK_BASE_URL": server.base_url + "/"}
    async with Context() as root:
        root.provide(LAUNCH_ENVIRONMENT, LaunchEnvironment(environment))
        await root.plugin(LlmRuntime)
        await (await mount(None, on=root)).ask()
    assert server.requests[0].headers["authorization"] == "Bearer sk-launch"
    assert server.requests[0].path == "/chat/completions"


async def test_loopback_never_goes_through_a_proxy(
    serve_model: Any, mount: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    model = await mount(await serve_model([Reply.text("ok")]))
    assert (await model.ask())[-1].reason == Stop()


async def test_other_hosts_go_through_the_proxy_of_the_environment(
    serve_model: Any, mount: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await serve_model([Reply.text("ok")])
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, proxy.base_url)
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    model = await mount("http://model.example.invalid/v1")
    assert (await model.ask())[-1].reason == Stop()
    assert proxy.requests[0].headers["host"] == "model.example.invalid"


async def test_an_answer_that_is_compressed_anyway_is_read(serve_model: Any, mount: Any) -> None:
    frame = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    packed = gzip.compress(frame + b"data: [DONE]\n\n")
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    model = await mount(await serve_model([Reply.status(200, headers, packed)]))
    assert (await model.ask())[-1].reason == Stop()


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_importing_the_plugin_imports_no_http_client() -> None:
    code = (
        "import sys, dsh_llm_deepseek as d; print('httpx' in sys.modules, 'anyio' in sys.modules)"
    )
    assert run(code) == "False False"


def test_the_http_client_comes_without_its_command_line() -> None:
    code = (
        "import sys, types\n"
        # Stands for click: whoever imports the command line would run into it.
        "sys.modules['click'] = None\n"
        "from dsh_llm_deepseek._transport import import_httpx\n"
        "httpx = import_httpx()\n"
        "print(httpx.__name__, 'httpx._main' in sys.modules, import_httpx() is httpx)\n"
    )
    assert run(code) == "httpx False True"


def test_a_module_that_is_not_there_is_looked_for_again_after_unloading() -> None:
    code = (
        "import sys, asyncio\n"
        "from dsh_llm_deepseek._transport import AbsentModule\n"
        "absent, present = AbsentModule('no_such_module'), AbsentModule('json')\n"
        "again = AbsentModule('no_such_module')\n"
        "marked = sys.modules.get('no_such_module', 1)\n"
        "again.dispose()\n"
        "absent.dispose()\n"
        "present.dispose()\n"
        "import json\n"
        "print(marked, 'no_such_module' in sys.modules)\n"
    )
    assert run(code) == "None False"


def test_a_plain_url_reads_no_certificates() -> None:
    code = (
        "import ssl\n"
        "from dsh_llm_deepseek._transport import Transport, import_httpx\n"
        "from dsh_llm_deepseek import DeepSeekConfig, resolve_profile\n"
        "read = []\n"
        "original = ssl.SSLContext.load_verify_locations\n"
        "def spy(self, *args, **kwargs):\n"
        "    read.append(1)\n"
        "    return original(self, *args, **kwargs)\n"
        "ssl.SSLContext.load_verify_locations = spy\n"
        "for url in ('http://127.0.0.1:1', 'https://api.example.invalid'):\n"
        "    Transport(resolve_profile(DeepSeekConfig(base_url=url), None))._connect()\n"
        "    print(len(read))\n"
    )
    plain, tls = run(code).split()
    assert plain == "0"
    assert tls != "0"


def profile(**config: Any) -> Any:
    return resolve_profile(DeepSeekConfig(**config), None)


def test_unlisted_models_have_the_defaults_and_listed_ones_their_own() -> None:
    made = profile(models=(ModelEntry(id="small", context_window=1000, max_tokens=50),))
    small, other = made.model_info("small"), made.model_info("other")
    assert (small.context_window, small.default_max_tokens) == (1000, 50)
    assert (other.context_window, other.default_max_tokens) == (1_000_000, 256_000)
    assert other.input_modalities == ("text",)


def test_efforts_are_off_alone_where_thinking_is_disabled() -> None:
    disabled = profile(thinking="disabled").model_info("m").reasoning
    assert ([effort.id for effort in disabled.efforts], disabled.default_effort) == (["off"], "off")
    enabled = profile().model_info("m").reasoning
    assert [effort.id for effort in enabled.efforts] == ["off", "low", "high", "max"]
    assert enabled.default_effort == "high"


@pytest.mark.parametrize(
    "config",
    [
        {"thinking": "disabled", "reasoning_effort": "high"},
        {"models": (ModelEntry(id="m"), ModelEntry(id="m"))},
        {"base_url": "ftp://x"},
        {"base_url": "api.example.com"},
        {"base_url": "http://"},
        {"base_url": "https://user:secret@host"},
        {"base_url": "https://host/?key=secret"},
        {"base_url": "http://[::1"},
    ],
)
def test_a_contradictory_configuration_is_refused_without_its_values(config: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        profile(**config)
    assert "secret" not in str(caught.value)


def test_loopback_is_recognised_in_all_its_spellings() -> None:
    for url in ("http://localhost:1", "http://127.0.0.9", "http://[::1]:8", "http://a.localhost"):
        assert profile(base_url=url).is_loopback
    for url in ("http://10.0.0.1", "https://api.deepseek.com", "http://localhost.example.com"):
        assert not profile(base_url=url).is_loopback


async def test_rows_take_camel_case_and_refuse_unknown_keys(root: Context) -> None:
    retry = {"mode": "normal", "maxRetries": 1, "backoff": {"initialDelayMs": 1}}
    await root.plugin(DeepSeekProvider, {"baseURL": "http://127.0.0.1:9", "retryPolicy": retry})
    expected = NormalRetry(max_retries=1, initial_delay_ms=1)
    assert root[LLM].provider_retry_policy("deepseek-official") == expected
    with pytest.raises(ConfigError, match="retryPolicy"):
        await root.plugin(DeepSeekProvider, {"retriesPolicy": {}})


def test_this_machine_is_recognised_in_the_spellings_that_systems_understand() -> None:
    for host in ("localhost.", "127.1", "2130706433", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]"):
        assert profile(base_url=f"http://{host}:1").is_loopback, host
    for host in ("10.1", "[::ffff:10.0.0.1]", "127.example.com", "1270.0.0.1"):
        assert not profile(base_url=f"http://{host}:1").is_loopback, host


@pytest.mark.parametrize("url", ["http://\x01", "http://a b", "http://a\nb", "http://a/\u2028b"])
def test_a_base_url_with_characters_that_no_url_has_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="baseURL must be"):
        profile(base_url=url)


def test_white_space_around_a_base_url_is_no_part_of_it() -> None:
    assert profile(base_url=" http://127.0.0.1:9/v1/\n").base_url == "http://127.0.0.1:9/v1"


async def test_a_host_that_only_the_client_refuses_is_explained(mount: Any) -> None:
    model = await mount("http://xn--a:1")
    assert (await model.failure()).code == "TRANSPORT_SETUP"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "socks5://user:s3cret@127.0.0.1:9"),
        ("HTTP_PROXY", "http://user:s3cret@127.0.0.1:no"),
        ("NO_PROXY", "[::1]"),
        ("SSL_CERT_FILE", "/nothing/here.pem"),
        ("SSL_CERT_FILE", __file__),
        ("SSLKEYLOGFILE", "/nothing/here"),
    ],
)
async def test_settings_of_the_environment_that_cannot_be_used_are_named(
    mount: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for other in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(other, raising=False)
        monkeypatch.delenv(other.lower(), raising=False)
    monkeypatch.setenv(name, value)
    model = await mount("https://model.example.invalid")
    failure = await model.failure()
    assert failure.code == "TRANSPORT_SETUP"
    assert name in failure.message
    assert "s3cret" not in failure.message
