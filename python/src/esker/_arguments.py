"""Arguments of functions as settings of a run."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, time
from enum import Enum
from itertools import islice
from numbers import Number
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = ["settings_of", "signature_of"]

SETTINGS_MAX = 100
"""Maximum number of settings of a call; others are only counted."""

_ELEMENTS_MAX = 20
_FIELDS_MAX = 50
_DEPTH_MAX = 3
_REPR_MAX = 1000
# The recorder cuts a text at 16 KiB once it has removed secrets; a text that is cut here first is longer than that.
_TEXT_MAX = 1 << 16

_KEY = re.compile(r"[\w.-]{1,100}")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Returns the parameters of a function, or ``None`` if Python does not know them."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def settings_of(signature: inspect.Signature | None, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, str]:
    """Returns the arguments of a call, defaults included, as texts by name; none if the call does not fit the signature.

    The fields of a mapping or a dataclass are settings of their own (``options.level``), so that the names of secrets are
    recognized in it.
    """
    try:
        bound = signature.bind(*args, **named) if signature is not None else None
    except TypeError:
        bound = None
    if bound is None or signature is None:
        return {}
    bound.apply_defaults()
    out: dict[str, str] = {}
    left_out = 0
    for name, text in _settings(signature, bound.arguments):
        if len(out) < SETTINGS_MAX:
            out.setdefault(name, text)
        else:
            left_out += 1
    return out | ({"arguments_left_out": str(left_out)} if left_out else {})


def _settings(signature: inspect.Signature, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for at, (name, value) in enumerate(arguments.items()):
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            for key, one in value.items():
                yield from _parts(key, one, 0)
        elif at == 0 and name in ("self", "cls"):
            continue
        elif kind is not inspect.Parameter.VAR_POSITIONAL or value:
            yield from _parts(name, value, 0)


def _fields(value: Any) -> Mapping[str, Any] | None:
    """Returns the fields of a value that has names for its parts."""
    if isinstance(value, (Namespace, SimpleNamespace)):
        return vars(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if not isinstance(value, Mapping) or len(value) > _FIELDS_MAX or _array(value) is not None:
        return None
    return value if all(isinstance(key, str) and _KEY.fullmatch(key) for key in value) else None


def _parts(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    try:
        fields = _fields(value) if depth < _DEPTH_MAX else None
    except Exception:
        fields = None
    if fields:
        for key, one in fields.items():
            yield from _parts(f"{name}.{key}", one, depth + 1)
    else:
        yield name, text_of(value)


def text_of(value: Any) -> str:
    """Describes a value: small ones whole, arrays and frames by type, shape and kind of values."""
    if isinstance(value, str):
        return value[:_TEXT_MAX]
    try:
        return _described(value, 0)
    except Exception:
        return _type(value)


def _type(value: Any) -> str:
    kind = value if isinstance(value, type) else type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _described(value: Any, depth: int) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        return repr(value[:_TEXT_MAX])
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{_type(value)}, {memoryview(value).nbytes} bytes"
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type):
        return _type(value)
    if inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__}"
    # A dataset of xarray is a mapping, too.
    array = _array(value)
    if array is not None:
        return array
    return _collection(value, depth) if isinstance(value, (list, tuple, AbstractSet, Mapping)) else _plain(value)


def _collection(value: Any, depth: int) -> str:
    opening, closing = "()" if isinstance(value, tuple) else "[]" if isinstance(value, list) else "{}"
    if depth >= _DEPTH_MAX:
        return f"{opening}…{closing}"
    if isinstance(value, Mapping):
        pairs = islice(value.items(), _ELEMENTS_MAX)
        shown = [f"{_described(key, depth + 1)}: {_described(one, depth + 1)}" for key, one in pairs]
    else:
        # The order of a set differs from process to process.
        elements = islice(value, _ELEMENTS_MAX) if not isinstance(value, AbstractSet) or len(value) > 1000 else value
        shown = [_described(one, depth + 1) for one in elements]
        shown = sorted(shown)[:_ELEMENTS_MAX] if isinstance(value, AbstractSet) else shown
    if len(value) > len(shown):
        shown.append(f"… {len(value)} values")
    return opening + ", ".join(shown) + closing


def _array(value: Any) -> str | None:
    """Describes arrays, tensors and frames of any library by the attributes that all of them have."""
    sizes, shape, dtype = (getattr(value, name, None) for name in ("sizes", "shape", "dtype"))
    if isinstance(sizes, Mapping):
        text = f"{_type(value)}, sizes {dict(sizes)}"
        return text if dtype is None else f"{text}, dtype {dtype}"
    if not isinstance(shape, tuple):
        return None
    if shape == () and hasattr(value, "item"):
        return _described(value.item(), 0)
    text = f"{_type(value)}, shape ({', '.join(str(n) if isinstance(n, int) else '?' for n in shape)})"
    if dtype is not None:
        return f"{text}, dtype {dtype}"
    schema: Any = getattr(value, "schema", None)
    names, kinds = (schema.names, schema.types) if hasattr(schema, "types") else (value.columns, getattr(value, "dtypes", ()))
    columns = [f"{name} {kind}" for name, kind in islice(zip(names, kinds, strict=False), _ELEMENTS_MAX)]
    more = [f"… {len(names)} columns"] if len(names) > len(columns) else []
    return f"{text}, dtypes {', '.join([*columns, *more])}" if columns else text


def _plain(value: Any) -> str:
    """Returns the text that a class has for its values, if it is short and tells more than the type."""
    method: Any = type(value).__repr__
    if method is object.__repr__:
        return _type(value)
    text = _ADDRESS.sub("", repr(value))
    return text if len(text) <= _REPR_MAX else _type(value)
