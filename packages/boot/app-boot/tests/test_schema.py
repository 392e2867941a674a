"""The schema of patch files accepts what boots and refuses what would not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dsh_app_boot import config_schema
from dsh_cordis_include import apply_patches, parse_patches
from dsh_cordis_loader import Expr, read_yaml
from jsonschema import Draft202012Validator

PLUGINS = """
from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pydantic
from msgspec import Meta


class Inner(msgspec.Struct, tag="inner", tag_field="kind"):
    some_part: int = 0


class Other(msgspec.Struct, tag="other", tag_field="kind"):
    rest: str = ""


class Sized(msgspec.Struct):
    '''How large.'''

    max_bytes: Annotated[int, Meta(gt=0, description="Upper bound.")] = 10
    mode: Literal["fast", "slow"] = "fast"
    token: Annotated[str, Meta(extra={"secret": True})] = "hidden-default"
    parts: tuple[Inner | Other, ...] = ()
    free: dict[str, int] = {}
    ratio: float | None = None


class Required(msgspec.Struct, rename="camel"):
    base_url: str


class Nested(pydantic.BaseModel):
    depth_limit: int = pydantic.Field(1, ge=1)


class Form(pydantic.BaseModel):
    api_key: pydantic.SecretStr = pydantic.SecretStr("hidden-default")
    other_key: str = pydantic.Field("hidden-default", json_schema_extra={"secret": True})
    nested: Nested = Nested()


def plugin(kind):
    def apply(ctx, config):
        pass

    apply.Config = kind
    return apply


sized, required, form = plugin(Sized), plugin(Required), plugin(Form)


def raw(ctx, config):
    pass
"""
POINTS = {
    "dsh.plugins/sized": "some_plugins.plugins:sized",
    "dsh.plugins/required": "some_plugins.plugins:required",
    "dsh.plugins/form": "some_plugins.plugins:form",
    "dsh.plugins/raw": "some_plugins.plugins:raw",
    "dsh.plugins/broken": "some_plugins.broken:anything",
    "dsh.plugins/leaving": "some_plugins.leaving:anything",
}
ROWS = """
- insert:
    - {id: a, name: sized}
    - {id: b, name: broken}
    - {id: c, name: ./beside.py}
    - {id: g, name: cordis:group, group: true, config: [{id: inner, name: form}]}
"""


def text_of_expressions(value: object) -> Any:
    """What an editor shows a schema."""
    if isinstance(value, Expr):
        return value.text
    if isinstance(value, dict):
        return {key: text_of_expressions(item) for key, item in value.items()}
    return [text_of_expressions(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def schema(site, tmp_path: Path) -> dict[str, Any]:
    files = {
        "plugins.py": PLUGINS,
        "broken.py": "import no_such_library\n",
        "leaving.py": "raise SystemExit(3)\n",
    }
    site.install("some-plugins", files, POINTS)
    (tmp_path / "beside.py").write_text(
        "import msgspec\n\n\nclass Config(msgspec.Struct):\n    limit: int = 1\n\n\n"
        "def apply(ctx, config):\n    pass\n"
    )
    patches = parse_patches(read_yaml(ROWS, where="rows"), where="rows", base=str(tmp_path))
    rows = apply_patches((), patches, warn=lambda layer, message: None)
    made = config_schema(rows, site.entry_points)
    Draft202012Validator.check_schema(made)
    return made


def fits(schema: dict[str, Any], text: str) -> bool:
    value = text_of_expressions(read_yaml(text, where="patch"))
    return Draft202012Validator(schema).is_valid(value)


GOOD = """
[]
- {id: a, config: {maxBytes: 5, mode: slow, parts: [{kind: inner, somePart: 2}, {kind: other}]}}
- {id: a, config: {free: {any_name: 3}, ratio: 1}}
- {id: a, config: null, disabled: null}
- {id: a, name: sized, disabled: true, inject: [one_service]}
- {id: a, isolate: {shell: true, fs: shared}, intercept: {loader: {await: true}}}
- {id: a, isolate: {shell: null}, intercept: {loader: null}}
- {id: of-another-profile, config: {anything: [1]}}
- {id: b, config: {anything: 1}}
- {insert: [{name: leaving, config: {anything: 1}}]}
- {insert: [{name: raw, config: [1, 2]}, {name: raw, config: text}, {name: raw}]}
- {insert: [{id: x, name: required, config: {baseUrl: 'http://localhost'}}]}
- {insert: [{id: x, name: ./beside.py, config: {limit: 2}}, {name: some.module:plugin}]}
- {id: g, insert: [{name: form, config: {nested: {depthLimit: 2}}}]}
- {insert: [{name: cordis:group, config: [{name: sized}]}]}
- {insert: [{name: cordis:include, config: {path: rows.yml, patches: [{id: x, config: 1}]}}]}
"""
EXPRESSIONS = """
- {id: a, config: !expr "json(env.SETTINGS)"}
- {id: a, config: {maxBytes: !expr "int(env.SIZE)", mode: !expr env.MODE}}
- {id: a, config: {parts: [!expr "json(env.PART)"], token: !expr env.TOKEN}}
- {id: a, disabled: !expr "platform == 'win32'"}
- {id: inner, config: {nested: {depthLimit: !expr "coalesce(env.get('DEPTH'), 3)"}}}
"""
BAD = """
{id: a}
- text
- {disabled: true}
- {id: ''}
- {id: a, disable: true}
- {id: a, disabled: sometimes}
- {id: a, inject: [notSnake]}
- {id: a, inject: one_service}
- {id: a, isolate: {shell: false}}
- {id: a, isolate: {shell: ' '}}
- {id: a, intercept: {loader: true}}
- {id: a, config: {maxBytes: 0}}
- {id: a, config: {maxBytes: many}}
- {id: a, config: {maxByte: 5}}
- {id: a, config: {mode: medium}}
- {id: a, config: {parts: [{kind: third}]}}
- {id: a, config: {parts: [{kind: inner, somePar: 2}]}}
- {id: a, config: [1]}
- {id: c, config: {limits: 2}}
- {id: inner, config: {nested: {depthLimit: 0}}}
- {id: inner, config: {nested: {depth: 1}}}
- {insert: {name: sized}}
- {insert: [{id: x}]}
- {insert: [{name: size}]}
- {insert: [{name: required}]}
- {insert: [{name: required, config: {}}]}
- {insert: [{name: ./beside.py, config: {limits: 2}}]}
- {insert: [{name: sized}], disabled: true}
- {insert: [{name: cordis:group, config: {a: 1}}]}
- {insert: [{name: cordis:group, config: [{name: sized, config: {maxByte: 5}}]}]}
- {insert: [{name: cordis:include, config: {paths: rows.yml}}]}
"""


@pytest.mark.parametrize("text", [*GOOD.strip().splitlines(), *EXPRESSIONS.strip().splitlines()])
def test_what_boots_fits_the_schema(schema, text: str):
    assert fits(schema, text)


@pytest.mark.parametrize("text", BAD.strip().splitlines())
def test_what_would_not_boot_does_not_fit(schema, text: str):
    assert not fits(schema, text)


def test_fields_keep_descriptions_bounds_and_defaults(schema):
    fields = schema["$defs"]["config-sized"]["$defs"]["Sized"]["properties"]
    size = fields["maxBytes"]
    assert (size["description"], size["default"]) == ("Upper bound.", 10)
    assert {"type": "integer", "exclusiveMinimum": 0} in size["anyOf"]


def test_a_secret_is_only_written_and_its_default_is_not_shown(schema):
    sized = schema["$defs"]["config-sized"]["$defs"]["Sized"]["properties"]
    (form,) = [one for one in schema["$defs"]["config-form"]["anyOf"] if "properties" in one]
    secrets = [sized["token"], form["properties"]["apiKey"], form["properties"]["otherKey"]]
    assert [one["writeOnly"] for one in secrets] == [True, True, True]
    assert "hidden-default" not in str(schema)


@pytest.mark.parametrize(
    ("name", "reason"), [("broken", "no_such_library"), ("leaving", "SystemExit")]
)
def test_a_plugin_that_cannot_be_imported_is_open_with_a_note(schema, name: str, reason: str):
    found = schema["$defs"][f"config-{name}"]
    assert reason in found["description"]
    assert set(found) == {"description", "$comment"}


def test_known_ids_and_names_are_offered(schema):
    row, change = (schema["$defs"][name]["properties"] for name in ("row", "change"))
    assert {"sized", "broken", "cordis:group"} <= set(row["name"]["anyOf"][0]["enum"])
    assert change["id"]["anyOf"][0]["enum"] == ["a", "b", "c", "g", "inner"]
