# SPDX-License-Identifier: Apache-2.0
"""The words of a command line in, the values of its parameters out.

Typer has Pydantic make them, which takes as long to load as a fifth of the whole program. What is
plainly a value is taken as it is; all else, and whatever is to be said of it, stays Typer's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from typer.core import TyperCommand, TyperGroup

from iostrata.errors import UsageError
from iostrata.foreign import shown

DIGITS: Final = re.compile("[0-9]{1,18}")
DECIMAL: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
PLACES: Final = {"FILE", "DIR", "NEWDIR"}
"""What an option takes is called so if it is the name of a file or a directory."""
VERSUS: Final = "\0"
"""What stands for ``--`` where that is an argument itself: no path has it."""


class Command(TyperCommand):
    """A command that makes its plain values, and overlooks none of the words it is given."""

    def get_params(self, ctx: Any) -> list[Any]:
        return taken_over(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            words, _, order = self.make_parser(ctx).parse_args(args=list(args))
            check_words(words, [one.name for one in order], self.get_params(ctx))
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """The same of several commands' own options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return taken_over(super().get_params(ctx))


def check_words(words: Mapping[str, Any], order: Sequence[str], parameters: Sequence[Any]) -> None:
    """Errors: UsageError, where an option's value is empty, as of ``--comm=$NAME``; where there are
    two of which it takes one; and where what follows it is the next one instead of a file's name.

    ``words``: what each parameter was given, by its name; ``order``: the names, as they came.
    """
    starts = {text[:2] for one in parameters for text in one.opts if text.startswith("-")}
    for one in parameters:
        given, option = words.get(one.name), one.opts[0]
        if one.param_type_name != "option" or given is None or one.is_flag:
            continue
        if "" in (given if one.multiple else [given]):
            raise UsageError(
                f"{option} takes a {one.metavar or 'value'}, and it is empty",
                f"leave {option} out, or say which",
            )
        if order.count(one.name) > 1 and not one.multiple:
            raise UsageError(f"{option} is given twice, and takes one {one.metavar or 'value'}")
        if one.metavar in PLACES:
            _check_place(shown(given.replace(VERSUS, "--")), starts, one)


def _check_place(name: str, starts: set[str], one: Any) -> None:
    if name[:2] not in starts:
        return
    option = one.opts[0]
    better = "-, for standard output" if "standard output" in one.help else one.metavar
    raise UsageError(
        f"{option} takes a {one.metavar}, and {name} looks like an option",
        f"{option} {better}, or {option} ./{name}, if that is its name",
    )


class Unsure(Exception):
    """It may be a value, or a mistake: that is for Typer to say."""


class Coercion:
    """What a parameter makes of its words; ``typers``: makes what Typer would use."""

    def __init__(self, typers: Callable[[], Any]) -> None:
        self._typers = typers

    def itself(self) -> Coercion:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return value_of(value, param)
        except Unsure:
            return self._typers().coerce(value, param=param, ctx=ctx)


def taken_over(parameters: list[Any]) -> list[Any]:
    """Of a Typer that keeps elsewhere what makes values, they stay its own."""
    for parameter in parameters:
        typers = getattr(type(parameter), "get_runtime_param", None)
        if typers and hasattr(parameter, "type_descriptor"):
            parameter.get_runtime_param = Coercion(partial(typers, parameter)).itself
    return parameters


def value_of(value: Any, parameter: Any) -> Any:
    """``value``: a word, the words of a list, a default, or None. Errors: Unsure."""
    several = parameter.multiple or parameter.nargs == -1
    if value is None:
        return () if several else None
    kind, info = parameter.type_descriptor.annotation, parameter.type_descriptor.parameter_info
    if get_origin(kind) is not list:
        return _one(value, kind, info)
    if not isinstance(value, (list, tuple)):
        raise Unsure
    (item,) = get_args(kind)
    return [_one(word, item, info) for word in value]


def _one(value: Any, kind: Any, info: Any) -> Any:
    if not isinstance(kind, type) or (isinstance(value, str) and not _is_text(value)):
        raise Unsure
    if issubclass(kind, Path) and isinstance(value, (str, Path)):
        if os.access(value, os.F_OK) and not os.access(value, os.R_OK):
            raise Unsure
        return kind(value)
    if issubclass(kind, Enum) and isinstance(value, str):
        if value not in {one.value for one in kind}:
            raise Unsure
        return kind(value)
    if kind is int and isinstance(value, str) and DIGITS.fullmatch(value):
        value = int(value)
    if kind is float and (type(value) is int or _is_decimal(value)):
        value = float(value)
    if type(value) is not kind or (kind in (int, float) and not _is_within(value, info)):
        raise Unsure
    return value


def _is_text(value: str) -> bool:
    """Not any bytes, as a path may have."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_decimal(value: Any) -> bool:
    return isinstance(value, str) and DECIMAL.fullmatch(value) is not None


def _is_within(value: float, info: Any) -> bool:
    least, most = info.min, info.max
    return (least is None or least <= value) and (most is None or value <= most)
