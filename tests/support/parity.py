"""Brings JSON Schemas of different descent into one form, tells them apart, and breaks them."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Schema = dict[str, Any]

SAID = ("title", "description", "default", "discriminator", "examples", "$schema", "$id", "$defs")
"""What says nothing about which values are accepted."""
SAFE = 2**53 - 1
ONE = ("items", "additionalProperties", "not", "if", "then", "else", "propertyNames", "contains")
MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "patternProperties")


def normal(schema: Schema) -> Schema:
    """The schema with its references inlined, without what makes no difference, sorted."""
    return _normal(schema, schema.get("$defs", {}))


def _normal(schema: Any, definitions: Schema) -> Any:
    if not isinstance(schema, dict):
        return schema
    while "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = {**definitions[name], **{k: v for k, v in schema.items() if k != "$ref"}}
    plain = {k: _inner(k, v, definitions) for k, v in schema.items() if k not in SAID}
    return dict(sorted(_simple(plain).items()))


def _inner(key: str, value: Any, definitions: Schema) -> Any:
    if key in ONE:
        return _normal(value, definitions)
    if key in MANY:
        return sorted((_normal(branch, definitions) for branch in value), key=json.dumps)
    if key in NAMED:
        return {name: _normal(value[name], definitions) for name in sorted(value)}
    return sorted(value, key=json.dumps) if key in ("required", "enum") else value


def _simple(schema: Schema) -> Schema:
    """One spelling where JSON Schema has several."""
    if schema.get("additionalProperties") in (True, {}):
        del schema["additionalProperties"]
    if schema.get("propertyNames") == {"type": "string"}:
        del schema["propertyNames"]
    for key in ("properties", "required"):
        if not schema.get(key, True):
            del schema[key]
    if len(schema.get("enum", ())) == 1:
        schema["const"] = schema.pop("enum")[0]
    if "const" in schema:
        schema.pop("type", None)
    for key, bound in (("minimum", -SAFE), ("maximum", SAFE)):
        if schema.get(key) == bound:
            del schema[key]
    if isinstance(schema.get("type"), list):
        schema["anyOf"] = [{"type": name} for name in schema.pop("type")]
    if "anyOf" in schema:
        schema["anyOf"] = sorted(_flat(schema["anyOf"]), key=json.dumps)
    return schema


def _flat(branches: list[Schema]) -> Iterator[Schema]:
    for branch in branches:
        if set(branch) == {"anyOf"}:
            yield from _flat(branch["anyOf"])
        else:
            yield branch


def branches(contract: Schema, kind_key: str) -> dict[str, Schema]:
    """The normalised branches of a contract by the kind they are for; "*" is every other kind."""
    definitions = contract.get("$defs", {})
    return {
        branch["properties"][kind_key].get("const", "*"): branch
        for branch in (_normal(branch, definitions) for branch in shapes(contract))
    }


def shapes(contract: Schema) -> list[Schema]:
    """The branches of a contract, as they stand; one that has none is its own."""
    return contract.get("oneOf", [contract])


def differences(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Every place where two normalised schemas differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            difference
            for key in sorted({*ours, *theirs})
            for difference in differences(
                ours.get(key, "absent"), theirs.get(key, "absent"), f"{at}/{key}"
            )
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
        return [d for n, pair in enumerate(pairs) for d in differences(*pair, f"{at}/{n}")]
    return [] if json.dumps(ours) == json.dumps(theirs) else [f"{at}: {ours!r} is not {theirs!r}"]


def drift(ours: dict[str, Schema], upstream: dict[str, Schema], layer: Schema) -> list[str]:
    """Where the frames of a dialect leave the upstream's (K29).

    The required sets are the same but for the keys that a layer above the upstream adds by kind;
    what upstream declares is declared alike; what it does not declare is optional.
    """
    found = differences(sorted(ours), sorted(upstream), "kinds")
    for kind in upstream.keys() & ours.keys():
        needed = sorted({*upstream[kind]["required"], *layer.get(kind, ())})
        found += differences(ours[kind]["required"], needed, f"{kind}/required")
        declared = upstream[kind]["properties"]
        same = {name: ours[kind]["properties"].get(name, "absent") for name in declared}
        found += differences(same, declared, f"{kind}/properties")
        found += differences(_rest(ours[kind]), _rest(upstream[kind]), kind)
        found += [
            f"{kind}: {key} of the layer is upstream's own"
            for key in layer.get(kind, ())
            if key in declared
        ]
    return found


def _rest(frame: Schema) -> Schema:
    return {k: v for k, v in frame.items() if k not in ("required", "properties")}


def mutants(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Every schema that differs from this one in a single rule, with what was done to it."""
    for path, node in list(_nodes(schema, ())):
        for name, mutate in MUTATIONS.items():
            for change in mutate(node):
                yield f"{name} at /{'/'.join(map(str, path))}", _changed(schema, path, change)


def _nodes(schema: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Schema]]:
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key, value in schema.items():
        if key in ONE:
            yield from _nodes(value, (*path, key))
        elif key in MANY:
            for number, branch in enumerate(value):
                yield from _nodes(branch, (*path, key, number))
        elif key in NAMED:
            for name, inner in value.items():
                yield from _nodes(inner, (*path, key, name))


def _changed(schema: Schema, path: tuple[Any, ...], change: Schema) -> Schema:
    changed = deepcopy(schema)
    node = changed
    for part in path:
        node = node[part]
    node.clear()
    node.update(deepcopy(change))
    return changed


def _drop_required(node: Schema) -> Iterator[Schema]:
    for name in node.get("required", ()):
        yield {**node, "required": [key for key in node["required"] if key != name]}


def _drop_property(node: Schema) -> Iterator[Schema]:
    properties = node.get("properties", {})
    for name in properties:
        if properties[name]:  # a property of any value says nothing
            yield {**node, "properties": {k: v for k, v in properties.items() if k != name}}


def _change_values(node: Schema) -> Iterator[Schema]:
    if len(node.get("enum", ())) > 1:
        yield {**node, "enum": node["enum"][:-1]}
        yield {**node, "enum": [*node["enum"], "mutant"]}
    if "const" in node:
        yield {**node, "const": "mutant"}


def _loosen_pattern(node: Schema) -> Iterator[Schema]:
    if "pattern" in node:
        yield {**node, "pattern": node["pattern"].removesuffix("$")}
    if "format" in node:
        yield {key: value for key, value in node.items() if key != "format"}


def _move_bound(node: Schema) -> Iterator[Schema]:
    bounds = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
    for key in bounds:
        if key in node and abs(node[key]) != SAFE:
            yield {**node, key: node[key] + 1}
            yield {k: v for k, v in node.items() if k != key}


def _change_type(node: Schema) -> Iterator[Schema]:
    if "type" in node and "const" not in node:
        yield {**node, "type": "null" if node["type"] != "null" else "array"}
        yield {**node, "type": [node["type"], "null"]}


def _open_or_close(node: Schema) -> Iterator[Schema]:
    if node.get("type") == "object":
        closed = node.get("additionalProperties") is False
        yield {**node, "additionalProperties": closed}


MUTATIONS: dict[str, Callable[[Schema], Iterator[Schema]]] = {
    "a required key dropped": _drop_required,
    "a property dropped": _drop_property,
    "a closed set changed": _change_values,
    "a pattern loosened": _loosen_pattern,
    "a bound moved": _move_bound,
    "a type changed": _change_type,
    "an object opened or closed": _open_or_close,
}
