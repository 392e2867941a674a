"""Every distribution says the same about itself and the truth about what it needs."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(.*)")
_IMPORT_NAMES = {
    "pyyaml": "yaml",
    "importlib-metadata": "importlib_metadata",
    "ruamel-yaml": "ruamel",
}
_CLASSIFIERS = {
    "Intended Audience :: Developers",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3.11",
    "Typing :: Typed",
}


def requirements(member: Any) -> dict[str, str]:
    """Name to version part of every dependency."""
    found = [_REQUIREMENT.fullmatch(line) for line in member.project["dependencies"]]
    return {match[1]: match[2] for match in found if match}


def extras(member: Any) -> set[str]:
    optional = member.project.get("optional-dependencies", {})
    found = [_REQUIREMENT.fullmatch(line) for lines in optional.values() for line in lines]
    return {match[1] for match in found if match}


def imported(modules: list[Any]) -> set[str]:
    """Top-level names of every absolute import."""
    names: set[str] = set()
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.split(".")[0])
    return names


def test_there_is_one_version_everywhere(members: list[Any], workspace: dict[str, Any]) -> None:
    versions = {member.name: member.project["version"] for member in members}
    assert set(versions.values()) == {workspace["project"]["version"]}, versions


def test_siblings_are_pinned_in_lockstep(member: Any) -> None:
    pins = {name: pin for name, pin in requirements(member).items() if name.startswith("dsh-")}
    assert set(pins.values()) <= {f"=={member.project['version']}"}, pins


def test_every_member_does_something(members: list[Any]) -> None:
    assert [member.name for member in members if member.is_empty] == []


def test_the_workspace_knows_every_member(members: list[Any], workspace: dict[str, Any]) -> None:
    names = {member.name for member in members}
    assert set(workspace["tool"]["uv"]["sources"]) == names


def test_the_layers_name_every_member(members: list[Any], workspace: dict[str, Any]) -> None:
    config = workspace["tool"]["importlinter"]
    packages = {member.package for member in members}
    assert set(config["root_packages"]) == packages
    layered = re.findall(r"\w+", " ".join(config["contracts"][0]["layers"]))
    assert sorted(layered) == sorted(packages)
    assert not [contract for contract in config["contracts"] if "ignore_imports" in contract]


def test_the_type_checker_finds_every_member(
    members: list[Any], workspace: dict[str, Any], root: Path
) -> None:
    # A pattern that matches nothing is no error there, so the paths are plain directories.
    included = [root / path for path in workspace["tool"]["basedpyright"]["include"]]
    for member in members:
        assert [path for path in included if member.source.is_relative_to(path)], member.name


def test_a_member_describes_itself_completely(member: Any) -> None:
    project = member.project
    assert project["requires-python"] == ">=3.11"
    assert project["license"] == "MIT"
    assert project["readme"] == "README.md"
    assert project["description"]
    assert set(project["classifiers"]) >= _CLASSIFIERS
    assert "urls" not in project
    assert member.pyproject["build-system"]["build-backend"] == "hatchling.build"
    assert member.readme.startswith(f"# {member.name}\n")
    assert (member.source / "py.typed").is_file()
    assert list(member.directory.glob("tests/**/test_*.py")), "a member without tests"
    assert not list(member.directory.glob("tests/**/__init__.py")), "tests are no packages"


def test_every_third_party_import_is_declared(member: Any) -> None:
    declared = set(requirements(member)) | extras(member)
    allowed = {_IMPORT_NAMES.get(name, name.replace("-", "_")) for name in declared}
    known = allowed | set(sys.stdlib_module_names) | {member.package}
    for module in member.modules:
        # Who imports fixtures has pytest; nobody else needs it.
        fixtures = {"pytest"} if module.path.name == "testing.py" else set[str]()
        assert imported([module]) <= known | fixtures, module.path


def test_its_tests_declare_what_they_import(member: Any) -> None:
    # What a dependency brings along is no promise: each wheel is tested with this alone.
    group = [_REQUIREMENT.fullmatch(line) for line in member.pyproject["dependency-groups"]["test"]]
    declared = {match[1]: match[2] for match in group if match}
    pins = {pin for name, pin in declared.items() if name.startswith("dsh-")}
    assert pins <= {f"=={member.project['version']}"}
    names = {*declared, *requirements(member)}
    allowed = {_IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}
    beside = {module.path.stem for module in member.tests}
    known = allowed | beside | set(sys.stdlib_module_names) | {member.package}
    marked = [module for module in member.tests if "mark.anyio" in module.text]
    used = imported(member.tests) | ({"anyio"} if marked else set())
    assert used - known == set()


def test_every_dependency_is_used(member: Any) -> None:
    # A bundle's rows and a profile's list name distributions, the demo starts what it shows as a
    # process; everything else imports them.
    started = {"dsh_cli", "dsh_profile_headless"} if member.name == "dsh-demo" else set[str]()
    used = imported(member.modules) | started
    data = [path for path in member.source.rglob("*") if path.suffix in {".yml", ".toml"}]
    named = set(re.findall(r"dsh-[a-z0-9-]+", "\n".join(path.read_text() for path in data)))
    unused = [
        name
        for name in requirements(member)
        if _IMPORT_NAMES.get(name, name.replace("-", "_")) not in used and name not in named
    ]
    assert unused == []


def test_entry_points_lead_to_what_they_name(member: Any) -> None:
    groups = member.project.get("entry-points", {})
    for group, points in groups.items():
        for name, target in points.items():
            module, _, attribute = target.partition(":")
            assert module.split(".")[0] == member.package, f"{group}: {name}"
            found: Any = importlib.import_module(module)
            for part in attribute.split(".") if attribute else ():
                found = getattr(found, part)
            if group == "dsh.session_events":
                assert found.name == name
    rows = groups.get("dsh.plugins", {})
    assert [name for name in rows if name.split("/")[0] != member.name] == []


def copy_pyprojects(members: list[Any], root: Path, target: Path) -> list[Path]:
    copies = []
    for source in [root, *(member.directory for member in members)]:
        copy = target / source.relative_to(root) / "pyproject.toml"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((source / "pyproject.toml").read_bytes())
        copies.append(copy)
    return copies


@pytest.fixture(scope="module")
def noxfile(root: Path) -> Any:
    spec = importlib.util.spec_from_file_location("dsh_noxfile", root / "noxfile.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_new_version_changes_versions_and_pins_and_nothing_else(
    members: list[Any], root: Path, workspace: dict[str, Any], noxfile: Any, tmp_path: Path
) -> None:
    copies = copy_pyprojects(members, root, tmp_path)
    before = [copy.read_text() for copy in copies]
    assert noxfile.set_version(tmp_path, "97.98.99rc1") == len(copies)
    after = [copy.read_text() for copy in copies]
    assert all('\nversion = "97.98.99rc1"\n' in text for text in after)
    assert not [
        pin for text in after for pin in re.findall(r'"dsh-[^"]*==(?!97\.98\.99rc1")', text)
    ]
    noxfile.set_version(tmp_path, workspace["project"]["version"])
    assert [copy.read_text() for copy in copies] == before


@pytest.mark.parametrize("text", ["", "1.2", "v1.2.3", '1.2.3"', "1.2.3 "])
def test_what_is_no_version_is_refused(noxfile: Any, text: str) -> None:
    assert noxfile.VERSION.fullmatch("1.2.3")
    assert not noxfile.VERSION.fullmatch(text)
