from __future__ import annotations

from pathlib import Path

import pytest
from dsh_cordis_include import IncludeError, read_patch_file, read_rows_file


def code_of(read: object, *args: object, **kwargs: object) -> tuple[str, str]:
    with pytest.raises(IncludeError) as caught:
        read(*args, **kwargs)  # pyright: ignore[reportCallIssue]
    return caught.value.code, str(caught.value)


def test_an_absent_optional_patch_file_is_no_patch(tmp_path: Path):
    assert read_patch_file(tmp_path / "none.yml", required=False) == ()


def test_an_absent_required_patch_file_is_an_error(tmp_path: Path):
    file = tmp_path / "none.yml"
    code, text = code_of(read_patch_file, file)
    assert code == "CONFIG_NOT_FOUND"
    assert text == f"failed to read patches {file}: No such file or directory"


def test_an_empty_patch_file_fails_and_an_empty_list_does_not(tmp_path: Path):
    file = tmp_path / "p.yml"
    for text in ("", "# nothing\n"):
        file.write_text(text)
        assert "write [] for none" in code_of(read_patch_file, file, required=False)[1]
    file.write_text("[]")
    assert read_patch_file(file) == ()


def test_an_unreadable_patch_file_is_an_error_even_if_optional(tmp_path: Path):
    code, text = code_of(read_patch_file, tmp_path, required=False)
    assert code == "CONFIG_UNREADABLE"
    assert text.startswith(f"failed to read patches {tmp_path}: ")


def test_bad_yaml_is_named_with_file_and_line(tmp_path: Path):
    file = tmp_path / "p.yml"
    file.write_text("- id: a\n  id: b\n")
    code, text = code_of(read_patch_file, file)
    assert code == "CONFIG_UNPARSABLE"
    assert text == f"failed to parse patches {file}:2:3: duplicate key 'id'"


def test_patches_know_their_layer_and_directory(tmp_path: Path):
    file = tmp_path / "p.yml"
    file.write_text("[{insert: [{id: a, name: ./a.py}]}, {id: b, disabled: true}]")
    first, second = read_patch_file(file)
    assert first.layer == second.layer == str(file)
    assert first.insert is not None
    assert first.insert[0].name == str(tmp_path / "a.py")
    assert read_patch_file(file, layer="dsh-base")[0].layer == "dsh-base"


def test_rows_are_read_from_yaml_and_json(tmp_path: Path):
    for name in ("r.yml", "r.yaml", "r.json"):
        (tmp_path / name).write_text('[{"id": "a", "name": "./x.py"}]')
        (row,) = read_rows_file(tmp_path / name)
        assert row.name == str(tmp_path / "x.py")


def test_a_rows_file_that_cannot_be_used_is_named(tmp_path: Path):
    toml, missing, bad = tmp_path / "r.toml", tmp_path / "none.yml", tmp_path / "bad.yml"
    assert code_of(read_rows_file, toml)[1].startswith('extension ".toml" not supported')
    assert code_of(read_rows_file, missing)[1] == f"config file not found: {missing}"
    bad.write_text("a: 'x")
    assert code_of(read_rows_file, bad)[1].startswith(f"failed to parse config file {bad}:1")
    bad.write_text("a: 1")
    assert code_of(read_rows_file, bad)[1].startswith(f"failed to validate config file {bad}")
    folder = tmp_path / "dir.yml"
    folder.mkdir()
    assert code_of(read_rows_file, folder)[0] == "CONFIG_UNREADABLE"
