# SPDX-License-Identifier: Apache-2.0
"""TSDL: the text of a CTF metadata file to its blocks.

The subset that iostrata's recorder writes, in whatever layout of lines: type
aliases, structs of integers and byte arrays, and blocks of entries. What it
does not understand is a ValueError (a missing end, an IndexError; an unknown
type, a KeyError): the caller knows which file it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """``format``: a NumPy type; ``align_bits``: where it may begin."""

    format: str
    align_bits: int


@dataclass(frozen=True)
class Struct:
    fields: tuple[tuple[str, Field], ...]
    align_bits: int


Node = Field | Struct | str | int
SKIPPED = r"\s | /\*.*?\*/ | //[^\n]*"
KINDS = {
    "word": r"[A-Za-z_][A-Za-z0-9_.]*",
    "mark": r":= | [{}\[\]();=,<>:]",
    "number": r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)",
    "string": r'"(?:[^"\\]|\\.)*"',
}
# One group, so that all tokens come as plain texts, in one call: a file has thousands.
TOKEN = re.compile(
    rf"(?: {SKIPPED} | ({' | '.join(KINDS.values())} | .) ) \s*", re.VERBOSE | re.DOTALL
)
KIND = re.compile(
    " | ".join(f"(?P<{kind}>{of})" for kind, of in KINDS.items()), re.VERBOSE | re.DOTALL
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [token for token in TOKEN.findall(text) if token]
        # The same few again and again.
        found = {token: KIND.fullmatch(token) for token in set(self._tokens)}
        self._kinds = {token: str(kind.lastgroup) for token, kind in found.items() if kind}
        if len(self._kinds) < len(found):
            raise unexpected(text)
        self._at = 0
        self._aliases: dict[str, Node] = {}
        self._integers: dict[tuple[str, ...], Field] = {}

    def blocks(self) -> list[tuple[str, dict[str, Node]]]:
        """Every top-level block with its entries, in order."""
        found: list[tuple[str, dict[str, Node]]] = []
        while self._at < len(self._tokens):
            name = self._word()
            if name == "typealias":
                self._alias()
            elif name == "struct":
                self._struct()
            else:
                found.append((name, self._entries()))
            self._take(";")
        return found

    def _alias(self) -> None:
        kind = self._type()
        self._take(":=")
        self._aliases[self._name()] = kind

    def _entries(self) -> dict[str, Node]:
        """``{ key = value; key := type; }``"""
        entries: dict[str, Node] = {}
        self._take("{")
        while not self._have("}"):
            key = self._word()
            if key == "typealias":
                self._alias()
            elif self._have(":="):
                entries[key] = self._type()
            else:
                self._take("=")
                entries[key] = self._value()
            self._take(";")
        return entries

    def _type(self) -> Node:
        name = self._name()
        if name == "integer":
            return self._integer()
        if name == "struct" or name.startswith("struct "):
            return self._struct(name)
        return self._aliases[name]

    def _integer(self) -> Field:
        """The recorder spells each field's type out: the few that there are, are parsed once."""
        end = self._tokens.index("}", self._at) + 1
        text = tuple(self._tokens[self._at : end])
        if text in self._integers:
            self._at = end
            return self._integers[text]
        found = integer(self._entries())
        if self._at == end:
            self._integers[text] = found
        return found

    def _struct(self, name: str = "struct") -> Struct:
        """``struct [NAME] [{ fields }] [align(BITS)]``; a name alone refers back."""
        if name == "struct" and self._is_word():
            name = f"struct {self._word()}"
        if not self._have("{"):
            known = self._aliases[name]
            if not isinstance(known, Struct):
                raise ValueError(f"{name} is no struct")
            return known
        fields = []
        while not self._have("}"):
            kind = self._field_type()
            field = self._word()
            if self._have("["):
                kind = array(kind, int(self._take_kind("number"), 0))
                self._take("]")
            self._take(";")
            fields.append((field, kind))
        align_bits = max([1, *(kind.align_bits for _, kind in fields)])
        if self._have("align"):
            self._take("(")
            align_bits = max(align_bits, int(self._take_kind("number"), 0))
            self._take(")")
        found = Struct(tuple(fields), align_bits)
        if name != "struct":
            self._aliases[name] = found
        return found

    def _field_type(self) -> Field:
        words = [self._word()]
        if words[0] == "integer":
            return self._integer()
        while self._is_word(1):
            words.append(self._word())
        kind = self._aliases[" ".join(words)]
        if not isinstance(kind, Field):
            raise ValueError(f"a field of type {' '.join(words)}")
        return kind

    def _name(self) -> str:
        words = [self._word()]
        while self._at < len(self._tokens) and self._is_word():
            words.append(self._word())
        return " ".join(words)

    def _value(self) -> str | int:
        text = self._tokens[self._at]
        kind = self._kinds[text]
        self._at += 1
        if kind == "number":
            return int(text, 0)
        if kind == "string":
            return re.sub(
                r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text[1:-1], flags=re.DOTALL
            )
        if kind == "word":
            return text
        raise ValueError(f"unexpected {text!r}")

    def _word(self) -> str:
        return self._take_kind("word")

    def _take_kind(self, wanted: str) -> str:
        text = self._tokens[self._at]
        if self._kinds[text] != wanted:
            raise ValueError(f"a {wanted} was expected, not {text!r}")
        self._at += 1
        return text

    def _is_word(self, ahead: int = 0) -> bool:
        return self._kinds[self._tokens[self._at + ahead]] == "word"

    def _take(self, wanted: str) -> None:
        text = self._tokens[self._at]
        if text != wanted:
            raise ValueError(f"{wanted!r} was expected, not {text!r}")
        self._at += 1

    def _have(self, wanted: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] == wanted
        self._at += found
        return found


def unexpected(text: str) -> ValueError:
    """What to say of the first that is no token."""
    at = next(
        match.start(1)
        for match in TOKEN.finditer(text)
        if match[1] and not KIND.fullmatch(match[1])
    )
    line = text.count("\n", 0, at) + 1
    return ValueError(f"line {line}: unexpected {text[at]!r}")


def integer(entries: Mapping[str, Node]) -> Field:
    size_bits = number(entries, "size")
    if size_bits not in (8, 16, 32, 64):
        raise ValueError(f"an integer of {size_bits} bits")
    if entries.get("byte_order", "le") not in ("le", "native"):
        raise ValueError("an integer that is not little-endian")
    if "encoding" in entries and entries["encoding"] != "none":
        return Field("S1", number(entries, "align", 8))
    signed = str(entries.get("signed", "false")).lower() in ("true", "1")
    return Field(f"<{'i' if signed else 'u'}{size_bits // 8}", number(entries, "align", 8))


def array(element: Field, count: int) -> Field:
    if element.format == "S1":
        return Field(f"S{count}", element.align_bits)
    if element.format == "<u1":
        return Field(f"V{count}", element.align_bits)
    raise ValueError("an array of something else than bytes")


def number(entries: Mapping[str, Node], key: str, default: int | None = None) -> int:
    value = entries.get(key, default)
    if not isinstance(value, int):
        raise ValueError(f"{key} is no number")
    return value


def struct(entries: Mapping[str, Node], key: str) -> Struct:
    value = entries[key]
    if not isinstance(value, Struct):
        raise ValueError(f"{key} is no struct")
    return value
