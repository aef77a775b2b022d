"""Key and value caches of Hugging Face's decoders: results of modules, and no arguments.

A decoder writes to the cache that it is given. A program computes new tensors and writes to no argument, so it would
silently leave the caller's cache as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from torch.utils import _pytree as pytree

from zenith.api.signature import Signature
from zenith.errors import UnsupportedError, user_line
from zenith.torch.calls import path_of

_MODULE = "transformers.cache_utils"
Keyed = tuple[list[tuple[pytree.KeyEntry, object]], object]  # the children with their keys, and the context


def register_caches() -> None:
    """Register the classes of caches with torch's pytrees, where transformers was imported.

    Transformers' own registration computes when it makes a cache of tensors: it concatenates each with an empty one.
    """
    known = sys.modules.get(_MODULE)
    for name, flatten, unflatten in (
        ("DynamicCache", _tensors_of, _cache_of),
        ("EncoderDecoderCache", _halves_of, _cache_of_halves),
    ):
        if known is not None and getattr(known, name) not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(
                getattr(known, name), flatten, unflatten, serialized_type_name=f"{_MODULE}.{name}",
                flatten_with_keys_fn=partial(_with_keys, flatten),
            )  # fmt: skip


def refuse_caches(signature: Signature, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """UnsupportedError for a cache among the arguments of a call."""
    known = sys.modules.get(_MODULE)
    if known is None:
        return
    leaves = pytree.tree_leaves_with_path((args, kwargs), is_leaf=lambda value: isinstance(value, known.Cache))
    for path, leaf in leaves:
        if isinstance(leaf, known.Cache):
            raise UnsupportedError(
                f"{path_of(signature, path)} is a {type(leaf).__name__}, to which the module writes, and a program "
                "writes to no argument", where=user_line(),
                fix='use torch.compile(module, backend="zenith"), which writes to it',
            )  # fmt: skip


def _with_keys(flatten: Callable[[Any], tuple[list[object], object]], cache: object) -> Keyed:
    children, context = flatten(cache)
    return [(pytree.SequenceKey(i), child) for i, child in enumerate(children)], context


def _tensors_of(cache: Any) -> tuple[list[object], list[bool]]:
    """Keys and values of each layer that has some; which layers have."""
    for layer in cache.layers:
        if type(layer) is not sys.modules[_MODULE].DynamicLayer:
            raise TypeError(f"a DynamicCache with a {type(layer).__name__} has more to it than tensors")
    full = [layer.keys is not None for layer in cache.layers]
    return [t for layer in cache.layers if layer.keys is not None for t in (layer.keys, layer.values)], full


def _cache_of(tensors: Iterable[object], full: list[bool]) -> object:
    classes: Any = sys.modules[_MODULE]
    cache, left = classes.DynamicCache(), iter(tensors)
    for has_some in full:
        layer = classes.DynamicLayer()
        if has_some:
            layer.keys, layer.values, layer.is_initialized = next(left), next(left), True
            layer.dtype, layer.device = (getattr(layer.keys, name, None) for name in ("dtype", "device"))
        cache.layers.append(layer)
    return cache


def _halves_of(cache: Any) -> tuple[list[object], list[tuple[object, object]]]:
    return [cache.self_attention_cache, cache.cross_attention_cache], [*cache.is_updated.items()]


def _cache_of_halves(halves: Iterable[object], updated: list[tuple[object, object]]) -> object:
    kind: Any = sys.modules[_MODULE].EncoderDecoderCache
    cache = kind.__new__(kind)  # its __init__ asks how long the halves are
    cache.self_attention_cache, cache.cross_attention_cache = halves
    cache.is_updated = dict(updated)
    return cache
