"""What is built says what the pyproject says and holds what the source folder holds."""

from __future__ import annotations

import tarfile
import zipfile
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(1800)


def contents(artifact: Path) -> dict[str, bytes]:
    """Every file by its path in the archive; an sdist's without its one top folder."""
    if artifact.suffix == ".whl":
        with zipfile.ZipFile(artifact) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(artifact) as sdist:
        files = {item.name: sdist.extractfile(item) for item in sdist if item.isfile()}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file}


def metadata(member: Any, artifact: Path) -> Message:
    name = "PKG-INFO" if artifact.suffix == ".gz" else f"{member.stem}.dist-info/METADATA"
    return Parser().parsestr(contents(artifact)[name].decode())


def source(member: Any) -> dict[str, bytes]:
    """The files of `src` by their path in it, without what running them leaves."""
    root = member.directory / "src"
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def without_spaces(requirements: list[str]) -> list[str]:
    return sorted(line.replace(" ", "") for line in requirements)


@pytest.fixture(params=["wheel", "sdist", "rebuilt"])
def artifact(request: pytest.FixtureRequest, member: Any, artifacts: Any) -> Path:
    return getattr(artifacts, request.param)(member)


def test_metadata_is_what_the_pyproject_says(member: Any, artifact: Path) -> None:
    project, found = member.project, metadata(member, artifact)
    assert found["Name"] == member.name
    assert found["Version"] == project["version"]
    assert found["Summary"] == project["description"]
    assert found["License-Expression"] == "MIT"
    assert found["Requires-Python"] == ">=3.11"
    assert sorted(found.get_all("Classifier", [])) == sorted(project["classifiers"])
    assert found.get_payload().startswith(f"# {member.name}\n")  # the README


def test_siblings_are_required_in_this_very_version(member: Any, artifact: Path) -> None:
    required = metadata(member, artifact).get_all("Requires-Dist", [])
    optional = [line for line in required if "extra ==" in line]
    always = without_spaces([line for line in required if line not in optional])
    assert always == without_spaces(member.project["dependencies"])
    siblings = [line for line in required if line.startswith("dsh-")]
    version = member.project["version"]
    assert [line for line in siblings if f"=={version}" not in line.split(";")[0]] == []


def test_a_wheel_holds_the_source_folder_and_nothing_else(member: Any, artifacts: Any) -> None:
    found = contents(artifacts.wheel(member))
    shipped = {name: data for name, data in found.items() if ".dist-info/" not in name}
    assert shipped == source(member)
    assert f"{member.package}/py.typed" in shipped
    assert {name.split("/")[0] for name in shipped} == {member.package}


def test_a_wheel_holds_code_and_known_payloads_only(member: Any, artifacts: Any) -> None:
    payload = {
        "packages": set[str](),
        "bundles": {"cordis.patch.yml"},
        "profiles": {"template/cordis.patch.yml", "template/pyproject.toml"},
    }[member.group]
    found = {
        name.partition("/")[2]
        for name in contents(artifacts.wheel(member))
        if ".dist-info/" not in name and not name.endswith((".py", "/py.typed"))
    }
    assert found == payload


def test_a_wheel_registers_its_entry_points(member: Any, artifacts: Any) -> None:
    declared = dict(member.project.get("entry-points", {}))
    if scripts := member.project.get("scripts"):
        declared["console_scripts"] = scripts
    parser = ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment] - names keep their case
    found = contents(artifacts.wheel(member)).get(f"{member.stem}.dist-info/entry_points.txt", b"")
    parser.read_string(found.decode())
    assert {group: dict(parser[group]) for group in parser.sections()} == declared


def test_an_sdist_builds_the_same_wheel(member: Any, artifacts: Any) -> None:
    assert contents(artifacts.rebuilt(member)) == contents(artifacts.wheel(member))


def test_an_sdist_holds_its_folder_and_nothing_else(member: Any, artifacts: Any) -> None:
    tops = {name.split("/")[0] for name in contents(artifacts.sdist(member))}
    assert tops <= {"PKG-INFO", "README.md", "pyproject.toml", "src", "tests", ".gitignore"}
    assert {"README.md", "pyproject.toml", "src", "tests"} <= tops
