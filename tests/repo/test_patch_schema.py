"""Every patch file that is shipped or shown fits the schema that an editor gets."""

from __future__ import annotations

from typing import Any

import pytest
from dsh_app_boot import compose, config_schema, open_profile
from dsh_cordis_include import apply_patches, read_patch_file
from dsh_cordis_loader import Expr, read_yaml, scan_entry_points
from jsonschema import Draft202012Validator


def text_of_expressions(value: object) -> Any:
    if isinstance(value, Expr):
        return value.text
    if isinstance(value, dict):
        return {key: text_of_expressions(item) for key, item in value.items()}
    return [text_of_expressions(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Any:
    points = scan_entry_points()
    home = tmp_path_factory.mktemp("home")
    profile = open_profile("headless", home=home, entry_points=points)
    return compose(profile, home=home, entry_points=points).rows


def test_every_patch_file_fits_the_schema_of_a_profile_with_it(root, rows) -> None:
    found = [
        path
        for folder in ("bundles", "profiles", "examples")
        for path in sorted((root / folder).rglob("*.yml"))
        if not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    assert len(found) >= 4
    problems = []
    for path in found:
        with_it = apply_patches(rows, read_patch_file(path), warn=lambda layer, message: None)
        if path.is_relative_to(root / "bundles"):
            with_it = rows
        check = Draft202012Validator(config_schema(with_it, scan_entry_points()))
        value = text_of_expressions(read_yaml(path.read_bytes(), where=str(path)))
        problems += [f"{path}: {one.json_path} {one.message}" for one in check.iter_errors(value)]
    assert problems == []


def test_every_installed_plugin_of_the_product_can_be_checked(rows) -> None:
    schema = config_schema(rows, scan_entry_points())
    assert [text for one in schema["$defs"].values() if (text := one.get("$comment"))] == []
