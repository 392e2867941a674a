"""Validation of configuration."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pydantic
import pytest
from dsh_cordis import ConfigError, NoConfig, validate_config
from msgspec import Meta


class Retry(msgspec.Struct, frozen=True, rename="camel"):
    max_attempts: Annotated[int, Meta(ge=1)] = 3


class Exact(msgspec.Struct, frozen=True, tag="exact", tag_field="kind"):
    at_ms: int


class Range(msgspec.Struct, frozen=True, tag="range", tag_field="kind"):
    from_ms: int


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    timeout_ms: Annotated[int, Meta(gt=0)] = 1000
    mode: Literal["fast", "slow"] = "fast"
    api_key: Annotated[str, Meta(extra={"secret": True}, min_length=10)] | None = None
    retry: Retry = Retry()
    routes: dict[str, Retry] = {}
    steps: tuple[Retry, ...] = ()
    window: Exact | Range | None = None
    pair: tuple[Retry, int] | None = None
    free: dict[str, object] = {}


def check(raw: object) -> Config:
    return validate_config(Config, raw, where="dsh-thing")


def message(raw: object) -> str:
    with pytest.raises(ConfigError) as caught:
        check(raw)
    assert caught.value.code == "INVALID_CONFIG"
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_no_configuration_yields_all_defaults():
    assert check(None) == check({}) == Config()


def test_plugin_without_configuration_refuses_any_key():
    assert validate_config(NoConfig, {}, where="dsh-thing") == NoConfig()
    with pytest.raises(ConfigError, match='unknown key "x": it takes no configuration'):
        validate_config(NoConfig, {"x": 1}, where="dsh-thing")


def test_instance_is_returned_as_it_is():
    config = Config()
    assert check(config) is config


@pytest.mark.parametrize("key", ["timeoutMs", "timeout_ms"])
def test_keys_are_accepted_in_both_spellings(key: str):
    assert check({key: 5}).timeout_ms == 5


def test_both_spellings_are_accepted_at_every_depth():
    config = check(
        {
            "retry": {"max_attempts": 1},
            "routes": {"a_b": {"max_attempts": 2}},
            "steps": [{"maxAttempts": 3}, {"max_attempts": 4}],
            "window": {"kind": "range", "fromMs": 5},
            "pair": [{"max_attempts": 6}, 7],
            "free": {"left_alone": {"any_thing": 1}},
        }
    )
    assert config.retry.max_attempts == 1
    assert config.routes["a_b"].max_attempts == 2
    assert [step.max_attempts for step in config.steps] == [3, 4]
    assert config.window == Range(from_ms=5)
    assert config.pair == (Retry(max_attempts=6), 7)
    assert config.free == {"left_alone": {"any_thing": 1}}


def test_the_same_key_in_two_spellings_is_refused():
    assert "timeoutMs is given twice" in message({"timeoutMs": 1, "timeout_ms": 2})


def test_unknown_key_names_the_nearest_known_one():
    assert message({"timeoutMillis": 1}) == (
        'invalid config of dsh-thing: unknown key "timeoutMillis", did you mean "timeoutMs"?'
    )


def test_unknown_nested_key_is_named_with_its_path():
    assert 'unknown key "retry.maxAttempt", did you mean "maxAttempts"?' in message(
        {"retry": {"maxAttempt": 1}}
    )


def test_wrong_type_names_path_and_both_types():
    assert message({"timeoutMs": "5"}) == (
        "invalid config of dsh-thing: Expected `int`, got `str` (at timeoutMs)"
    )
    assert message({"steps": [{"maxAttempts": 0}]}).endswith("(at steps.0.maxAttempts)")


@pytest.mark.parametrize("raw", [[], "text", 3])
def test_anything_but_a_mapping_is_refused(raw: object):
    assert "expected a mapping" in message(raw)


@pytest.mark.parametrize("secret", ["short", 12345678])
def test_value_of_a_secret_is_never_shown(secret: object):
    text = message({"apiKey": secret})
    assert str(secret) not in text
    assert "apiKey" in text


def test_value_of_a_secret_is_not_shown_whatever_the_spelling_of_its_key():
    class Spelled(msgspec.Struct):
        api_key: Annotated[Literal["ab"], Meta(extra={"secret": True})] = "ab"
        pin: Annotated[Literal["cd"], Meta(extra={"secret": True})] = msgspec.field(
            name="PIN_code", default="cd"
        )

    for key in ("apiKey", "api_key", "PIN_code", "pin"):
        with pytest.raises(ConfigError) as caught:
            validate_config(Spelled, {key: "xyz"}, where="dsh-thing")
        assert "xyz" not in str(caught.value)


def test_nearest_key_is_named_as_a_file_declares_it():
    class Endpoint(msgspec.Struct):
        base_url: str = msgspec.field(name="baseURL", default="")
        wait_ms: int = 0

    with pytest.raises(ConfigError, match='did you mean "baseURL"'):
        validate_config(Endpoint, {"base_uri": "x"}, where="dsh-thing")
    with pytest.raises(ConfigError, match='did you mean "waitMs"'):
        validate_config(Endpoint, {"waitM": 1}, where="dsh-thing")


def test_secret_quoted_by_a_validator_is_masked():
    class Checked(msgspec.Struct):
        token: Annotated[str, Meta(extra={"secret": True})]

        def __post_init__(self) -> None:
            raise ValueError(f"token {self.token} is revoked")

    with pytest.raises(ConfigError) as caught:
        validate_config(Checked, {"token": "sk-123456"}, where="x")
    assert "sk-123456" not in str(caught.value)


def test_plugin_without_keys_says_that_it_takes_none():
    class Empty(msgspec.Struct):
        pass

    with pytest.raises(ConfigError, match="it takes no configuration"):
        validate_config(Empty, {"a": 1}, where="x")


def test_pydantic_models_are_accepted_alike():
    inner_model = pydantic.create_model("Inner", max_size=(int, 1))
    Model = pydantic.create_model(
        "Model",
        base_url=(str, pydantic.Field(default="x", alias="baseURL")),
        api_key=(pydantic.SecretStr, pydantic.SecretStr("")),
        inner=(inner_model, inner_model()),
    )
    model = validate_config(Model, {"baseURL": "y", "inner": {"maxSize": 2}}, where="x")
    assert (model.base_url, model.inner.max_size) == ("y", 2)
    assert validate_config(Model, {"base_url": "z"}, where="x").base_url == "z"
    with pytest.raises(ConfigError, match=r"\(at inner.max_size\)"):
        validate_config(Model, {"inner": {"maxSize": "many"}}, where="x")
    with pytest.raises(ConfigError) as caught:
        validate_config(Model, {"apiKey": ["sk-hidden"]}, where="x")
    assert "sk-hidden" not in str(caught.value)
    with pytest.raises(ConfigError, match='did you mean "inner"'):
        validate_config(Model, {"iner": {}}, where="x")
