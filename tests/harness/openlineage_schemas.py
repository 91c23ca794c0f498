"""Schemas of OpenLineage's events, from its client for Python.

The client's classes are generated from the published JSON schemas of one release of the
specification, and each names its schema. They are made into JSON schemas again, so that events are
checked as they were sent. The specification allows fields beside those that it names.
"""

from __future__ import annotations

import importlib
import pkgutil
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import attr
from jsonschema import Draft202012Validator, FormatChecker
from openlineage.client import generated
from openlineage.client.generated import base

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = {
    str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array",
}  # fmt: skip
_SET_BY_THE_CLIENT = {"producer", "schemaURL", "_producer", "_schemaURL"}
_INNER = {dict: "additionalProperties", list: "items"}
_FORMATS = {"runId": {"format": "uuid"}, "eventTime": {"format": "date-time"}}
_CHECKER = FormatChecker()
_CHECKER.checks("date-time", ValueError)(lambda text: bool(datetime.fromisoformat(str(text))))


def errors_of(event: dict[str, Any]) -> list[str]:
    """Return what is wrong with an event of a run: in its frame, and in each of its facets."""
    name = event["job"]["name"]
    found = _errors(base.RunEvent, event, name)
    for kind, where, facet in facets_of(event):
        schema = _classes().get(facet.get("_schemaURL", ""))
        if schema is None or not issubclass(schema, kind):
            found.append(f"{name} {where}: {facet.get('_schemaURL')} is no schema for this place")
        else:
            found += _errors(schema, facet, f"{name} {where}")
    return found


def facets_of(event: dict[str, Any]) -> Iterator[tuple[type, str, dict[str, Any]]]:
    """Return the facets of an event, with the class that each extends, and its name."""
    inputs, outputs = event["inputs"], event["outputs"]
    places: list[tuple[type, dict[str, Any], str]] = [
        (base.RunFacet, event["run"], "facets"),
        (base.JobFacet, event["job"], "facets"),
        *((base.DatasetFacet, one, "facets") for one in (*inputs, *outputs)),
        *((base.InputDatasetFacet, one, "inputFacets") for one in inputs),
        *((base.OutputDatasetFacet, one, "outputFacets") for one in outputs),
    ]
    for kind, holder, key in places:
        for name, facet in (holder.get(key) or {}).items():
            yield kind, name, facet


def _errors(kind: type, value: dict[str, Any], where: str) -> list[str]:
    validator = Draft202012Validator(_schema(kind), format_checker=_CHECKER)
    return [
        f"{where}.{'.'.join(map(str, one.absolute_path))}: {one.message}"
        for one in validator.iter_errors(value)
    ]


@cache
def _classes() -> dict[str, type]:
    """Classes of the client by the URL of their schema."""
    modules = [
        importlib.import_module(f"{generated.__name__}.{one.name}")
        for one in pkgutil.iter_modules(generated.__path__)
    ]
    classes: list[Any] = [
        one for module in modules for one in vars(module).values() if isinstance(one, type)
    ]
    return {one._get_schema(): one for one in classes if "_get_schema" in vars(one)}


@cache
def _schema(kind: type) -> dict[str, Any]:
    """Return the JSON schema of a class of the client, and of those that it refers to."""
    definitions: dict[str, Any] = {}
    return {**_form(kind, definitions), "$defs": definitions}


def _form(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; that of a class goes to the definitions, which may be cyclic."""
    if kind in (Any, object):
        return {}
    if kind is NoneType:
        return {"type": "null"}
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [_form(one, definitions) for one in arguments]}
    if origin in _PLAIN:
        inner = {_INNER[origin]: _form(arguments[-1], definitions)} if arguments else {}
        return {"type": _PLAIN[origin], **inner}
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        definitions[kind.__name__] |= _object(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints, fields = get_type_hints(kind), attr.fields(kind)
    properties = {
        one.name: {**_form(hints[one.name], definitions), **_FORMATS.get(one.name, {})}
        for one in fields
    }
    required = [
        one.name for one in fields if one.default is attr.NOTHING or one.name in _SET_BY_THE_CLIENT
    ]
    return {"type": "object", "properties": properties, "required": required}
