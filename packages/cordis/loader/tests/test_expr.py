from __future__ import annotations

import pytest
from dsh_cordis_loader import Expr, LoaderError, LoaderOptions
from hypothesis import given
from hypothesis import strategies as st

NAMES: dict[str, object] = {"env": {"PORT": "80", "EMPTY": ""}, "platform": "linux", "cwd": "/w"}
FUNCTIONS = {
    "coalesce": lambda *values: next((v for v in values if v is not None), None),
    "dsh_home": lambda *parts: "/".join(("/h", *parts)),
    "env.get": lambda name, default=None: NAMES["env"].get(name, default),
    "int": int,
    "json": lambda text: {"parsed": text},
}


def value_of(text: str) -> object:
    return Expr(text).evaluate(NAMES, FUNCTIONS)


def refusal(text: str) -> str:
    with pytest.raises(LoaderError) as caught:
        value_of(text)
    assert caught.value.code == "INVALID_EXPRESSION"
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-4", -4),
        ("'a' + \"b\"", "ab"),
        ("None", None),
        ("env.PORT", "80"),
        ("env['PORT']", "80"),
        ("env.MISSING", None),
        ("env.MISSING.deeper['x']", None),
        ("env.get('MISSING', 'd')", "d"),
        ("coalesce(env.get('MISSING'), env.PORT)", "80"),
        ("env.MISSING or 'x'", "x"),
        ("env.EMPTY and 'x'", ""),
        ("not env.EMPTY", True),
        ("platform == 'linux' and cwd != '/'", True),
        ("1 < 2 <= 2 < 3", True),
        ("1 < 2 < 2", False),
        ("'PORT' in env", True),
        ("'X' not in ['Y']", True),
        ("env.MISSING is None", True),
        ("'a' if platform == 'win32' else 'b'", "b"),
        ("[1, *['a', 'b'], *env.MISSING, 2]", [1, "a", "b", 2]),
        ("{'a': env.PORT, 'b': [None]}", {"a": "80", "b": [None]}),
        ("['x', 'y'][1]", "y"),
        ("['x'][7]", None),
        ("dsh_home('sessions')", "/h/sessions"),
        ("int(env.PORT) + 1", 81),
        ("json('{}').parsed", "{}"),
    ],
)
def test_the_grammar_covers(text: str, value: object):
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("'a' * 99999999", "operator Mult"),
        ("'%s' % 1", "operator Mod"),
        ("2 ** 9", "operator Pow"),
        ("f'{cwd}'", "an f-string"),
        ("[x for x in cwd]", "a comprehension"),
        ("{x for x in cwd}", "a comprehension"),
        ("lambda: 1", "a lambda"),
        ("(a := 1)", "an assignment"),
        ("(1, 2)", "Tuple"),
        ("{1, 2}", "Set"),
        ("b'x'", "bytes literal"),
        ("...", "literal"),
        ("1j", "complex literal"),
        ("-env.PORT", "USub"),
        ("~1", "Invert"),
        ("cwd[0:1]", "[...] takes a constant"),
        ("cwd[cwd]", "[...] takes a constant"),
        ("{cwd: 1}", "must be a text literal"),
        ("{**env}", "must be a text literal"),
        ("*cwd", "not an expression"),
        ("int(*cwd)", "* outside of a list"),
        ("int(x=1)", "named arguments"),
        ("env.get(default='a')", "named arguments"),
        ("_x", "begins with _"),
        ("env.__class__", "begins with _"),
        ("open('/etc/passwd')", "call of open"),
        ("cwd.upper()", "call of cwd.upper"),
        ("env.get('A').upper()", "call of (...).upper"),
        ("__import__('os')", "call of __import__"),
        ("(lambda: 1)()", "call of (...)"),
        ("await x", "Await"),
        ("yield", "not an expression"),
        ("1 if", "not an expression"),
        ("a; b", "not an expression"),
        ("(" * 300, "not an expression"),
        ("not " * 210 + "1", "parts"),
        ("1" * 2001, "2001 characters"),
        ("\x00", "not an expression"),
    ],
)
def test_everything_else_is_refused(text: str, reason: str):
    assert reason in refusal(text)


def test_an_unknown_name_lists_the_known_ones():
    assert refusal("platfrom") == "unknown name 'platfrom'; known: cwd, env, platform"


def test_an_unknown_function_lists_the_known_ones():
    assert "the functions are coalesce, dsh_home, env.get, int, json" in refusal("str(1)")


def test_a_failing_operation_says_how_it_failed():
    assert "TypeError" in refusal("1 + 'a'")
    assert "ValueError" in refusal("int('x')")
    assert "has no field" in refusal("cwd.length")


def test_a_live_object_is_no_result():
    with pytest.raises(LoaderError, match="not data"):
        Expr("thing").evaluate({"thing": object()}, {})


def test_the_result_is_a_copy_of_what_was_published():
    published = {"items": ["a"]}
    result = Expr("x").evaluate({"x": published}, {})
    assert result == published
    assert result is not published
    assert result["items"] is not published["items"]  # pyright: ignore[reportIndexIssue]


def test_expressions_are_equal_by_text():
    assert Expr("a") == Expr("a")
    assert hash(Expr("a")) == hash(Expr("a"))
    assert Expr("a") != Expr("b")
    assert Expr("a") != "a"


@given(st.text(max_size=60))
def test_no_text_escapes_the_grammar(text: str):
    try:
        result = Expr(text).evaluate(NAMES, FUNCTIONS)
    except LoaderError:
        return
    assert result is None or isinstance(result, (bool, int, float, str, list, dict))


def test_the_values_of_variables_are_not_shown() -> None:
    assert "hunter2" not in repr(LoaderOptions(environment={"DB": "hunter2"}))
