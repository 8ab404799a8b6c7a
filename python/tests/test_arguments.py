"""Tests of arguments of functions as settings of a run."""

import argparse
import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import math
import types
from pathlib import Path
from typing import Any

import numpy
import pandas
import polars
import pyarrow
import pytest
import xarray

import esker
from esker import _arguments


def settings(db, name="step"):
    """Returns the settings of the only run of a name, by their names."""
    [run] = db.vertices("Execution", where=f"name = '{name}'")["id"]
    return dict(setting.split("=", 1) for setting in db[run].attributes.get("settings", []))


@pytest.fixture
def lab(own, workdir):
    return own


def test_arguments_and_defaults_are_settings(lab):
    @esker.run("step", db=lab)
    def step(source, k=3, *, scale: float = 0.5, flag=True, nothing=None):
        return source, k

    assert step(Path("raw.nc"), 4) == (Path("raw.nc"), 4)
    assert settings(lab) == {"source": "raw.nc", "k": "4", "scale": "0.5", "flag": "true", "nothing": "None"}
    assert step.__name__ == "step"


def test_further_arguments_have_their_own_names(lab):
    @esker.run("step", db=lab)
    def step(*paths, **options):
        return len(paths)

    assert step("a", "b", level=2, options=3) == 2
    assert settings(lab) == {"paths": "('a', 'b')", "level": "2", "options": "3"}


def test_methods_do_not_record_their_object(lab):
    class Model:
        @esker.run("step", db=lab)
        def step(self, k):
            return k

        @classmethod
        @esker.run("make", db=lab)
        def make(cls, k):
            return cls()

    assert Model.make(2).step(5) == 5
    assert (settings(lab), settings(lab, "make")) == ({"k": "5"}, {"k": "2"})


def test_params_take_precedence_and_arguments_can_be_left_out(lab):
    @esker.run("step", db=lab, params={"k": "fixed", "more": 1})
    def step(k, n):
        return k

    @esker.run("private", db=lab, arguments=False, params={"more": 1})
    def private(k):
        return k

    assert (step(1, 2), private(3)) == (1, 3)
    assert settings(lab) == {"k": "fixed", "more": "1", "n": "2"}
    assert settings(lab, "private") == {"more": "1"}


@dataclasses.dataclass
class Account:
    user: str
    password: str


def test_secrets_are_recorded_by_name_alone(lab):
    @esker.run("step", db=lab)
    def step(api_token, url, account, options, words, text):
        pass

    step(
        "hunter2",
        "https://ada:hunter2@host/x",
        Account("ada", "hunter2"),
        {"level": 2, "db": {"password": ["hunter2"], "port": 5}},
        [{"client_secret": "hunter2"}, "--password=hunter2"],
        "x" * ((1 << 14) - 30) + " --password hunter2 " + "x" * (1 << 17),
    )
    found = settings(lab)
    assert "hunter2" not in str(found)
    assert found["api_token"] == "[redacted]"
    assert found["url"] == "https://ada:[redacted]@host/x"
    assert (found["account.user"], found["account.password"]) == ("ada", "[redacted]")
    assert (found["options.level"], found["options.db.port"], found["options.db.password"]) == ("2", "5", "[redacted]")
    assert found["text"].endswith("[cut]") and len(found["text"]) < 17_000


class Color(enum.Enum):
    RED = 1


class Plain:
    pass


class Small:
    def __repr__(self):
        return "Small(3)"


class Large:
    def __repr__(self):
        return "x" * 10_000


class Broken:
    def __repr__(self):
        raise RuntimeError("broken")

    def __getattr__(self, name):
        raise RuntimeError(name)


def nested() -> list[Any]:
    out: list[Any] = []
    out.append(out)
    return out


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "1"),
        (1e-3, "0.001"),
        (math.inf, "inf"),
        (False, "false"),
        ("text", "text"),
        ("", ""),
        (b"\0\1", "bytes, 2 bytes"),
        (Path("/a/b"), "/a/b"),
        (10**5000, "int"),
        (decimal.Decimal("1.50"), "1.50"),
        (datetime.date(2026, 3, 1), "2026-03-01"),
        (datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc), "2026-03-01T00:00:00+00:00"),
        (datetime.timedelta(hours=1), "datetime.timedelta(seconds=3600)"),
        (Color.RED, "Color.RED"),
        ([1, "a", None, 0.5, True], "[1, 'a', None, 0.5, true]"),
        ((1,), "(1)"),
        ({"b", "a"}, "{'a', 'b'}"),
        ({}, "{}"),
        ({1: 2}, "{1: 2}"),
        (list(range(1000)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, … 1000 values]"),
        ([[[[1]]]], "[[[[…]]]]"),
        (nested(), "[[[[…]]]]"),
        (range(3), "range(0, 3)"),
        (math.sqrt, "math.sqrt"),
        (settings, "test_arguments.settings"),
        (Plain, "test_arguments.Plain"),
        (math, "math"),
        (Plain(), "test_arguments.Plain"),
        (Small(), "Small(3)"),
        (Large(), "test_arguments.Large"),
        (Broken(), "test_arguments.Broken"),
        (numpy.float32(0.5), "0.5"),
        (numpy.int64(7), "7"),
        (numpy.bool_(True), "true"),
        (numpy.array(3), "3"),
        (numpy.zeros((1000, 2), "f4"), "numpy.ndarray, shape (1000, 2), dtype float32"),
        (pandas.DataFrame({"a": [1], "b": [0.5]}), "pandas.DataFrame, shape (1, 2), dtypes a int64, b float64"),
        (pandas.Series([1, 2]), "pandas.Series, shape (2), dtype int64"),
        (pandas.Timestamp("2026-03-01"), "2026-03-01T00:00:00"),
        (polars.DataFrame({"a": [1], "b": ["x"]}), "polars.DataFrame, shape (1, 2), dtypes a Int64, b String"),
        (pyarrow.table({"a": [1]}), "pyarrow.Table, shape (1, 1), dtypes a int64"),
        (xarray.DataArray([1.0], dims="t"), "xarray.DataArray, sizes {'t': 1}, dtype float64"),
        (xarray.Dataset({"a": ("t", [1])}), "xarray.Dataset, sizes {'t': 1}"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_values_are_described(value, expected):
    text = _arguments.text_of(value)
    if isinstance(value, (pandas.DataFrame, pandas.Series, polars.DataFrame, pyarrow.Table, xarray.DataArray, xarray.Dataset)):
        # The libraries define these classes in modules below the package.
        kind = type(value)
        text = text.replace(f"{kind.__module__}.", f"{kind.__module__.partition('.')[0]}.", 1)
    assert text == expected


def test_a_frame_with_many_columns_is_summarized():
    frame = pandas.DataFrame(numpy.zeros((2, 300)), columns=[f"c{n}" for n in range(300)])
    text = _arguments.text_of(frame)
    assert text.endswith("c19 float64, … 300 columns") and "c20" not in text


@pytest.mark.parametrize("options", [argparse.Namespace(k=3, more={"n": 1}), types.SimpleNamespace(k=3, more={"n": 1}), {"k": 3, "more": {"n": 1}}])
def test_named_parts_are_settings_of_their_own(lab, options):
    @esker.run("step", db=lab)
    def step(options):
        pass

    step(options)
    assert settings(lab) == {"options.k": "3", "options.more.n": "1"}


def test_settings_have_a_limit(lab):
    @esker.run("step", db=lab)
    def step(**options):
        pass

    step(**{f"option{n:03}": n for n in range(250)})
    found = settings(lab)
    assert found.pop("arguments_left_out") == "150"
    assert len(found) == 100 and found["option099"] == "99"


def test_a_large_mapping_is_one_setting(lab):
    @esker.run("step", db=lab)
    def step(table):
        pass

    step({f"station{n}": n for n in range(1000)})
    assert settings(lab)["table"].endswith("'station19': 19, … 1000 values}")


def test_a_call_that_does_not_fit_fails_as_without_a_run(lab):
    @esker.run("step", db=lab)
    def step(k):
        pass

    with pytest.raises(TypeError, match=r"step\(\) takes 1 positional argument but 2 were given"):
        step(1, 2)
    [found] = lab.vertices("Execution", where="name = 'step'")
    assert found["exit"] == 1 and found["ended"].startswith("TypeError: ")


def test_functions_that_python_cannot_describe_are_recorded(lab):
    step = esker.run("step", db=lab)(functools.partial(max, 3))
    other = esker.run("other", db=lab)(max)
    assert (step(5), other(1, 2)) == (5, 2)
    assert "args" not in settings(lab)


def test_a_coroutine_is_one_run_until_it_ends(lab):
    @esker.run("step", db=lab)
    async def step(k):
        with esker.run("inner", db=lab):
            await asyncio.sleep(0)
        if k > 1:
            raise ValueError("too large")
        return k

    assert asyncio.run(step(1)) == 1
    with pytest.raises(ValueError):
        asyncio.run(step(2))
    runs = lab.vertices("Execution", where="name = 'step'", select=["exit", "settings"]).to_polars().sort("exit")
    assert runs["exit"].to_list() == [0, 1]
    [inner, _] = lab.vertices("Execution", where="name = 'inner'")["id"]
    [parent] = lab.travel().v(inner).e("belongs").v()
    assert parent in runs["id"].to_list()
