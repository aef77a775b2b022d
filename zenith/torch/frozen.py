"""What an export freezes of a module's Python: attributes that its code read, and side effects that no graph has.

``torch.export`` runs the code once. Attributes that it read are constants of the graph then; a call asks whether they
still are what they were (:class:`zenith.torch.attributes.Attributes`), as it asks for ``train()`` and ``eval()``, and
computes with programs of their present values. What the code wrote to attributes, drew from generators that are not
PyTorch's, or handed to a hook would be done once instead of in each call: it is refused by name, and undone
(:func:`observed`).
"""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from torch import nn
from torch.compiler import is_dynamo_compiling

from zenith.errors import UnsupportedError
from zenith.torch.like_numbers import symbols_like_numbers

Reads = Mapping[nn.Module, frozenset[str]]

FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_MISSING = object()
_OWN = frozenset(vars(nn.Module())) | {
    "forward", "_flat_weights", "_flat_weight_refs", "_is_hf_initialized", "_output_capturing_hooks_installed",
}  # fmt: skip
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
_LIBRARIES = ("torch.", "transformers.")
_CONTAINERS = (list, dict, set)
_EAGERLY = 'use torch.compile(module, backend="zenith"), which follows Python'


@contextmanager
def observed(module: nn.Module, twin: nn.Module) -> Iterator[Callable[[], Reads]]:
    """Within this block ``twin``, which has ``module``'s submodules, can be exported; the result gives what was read.

    Its forward raises UnsupportedError for what cannot be followed. Attributes and generators are as before at the end:
    torch.export itself puts copies of containers into modules.
    """
    names = {id(m): name for name, m in module.named_modules()} | {id(twin): ""}
    modules = {id(m): m for m in (twin, *module.modules())}
    before, states, reads = _all_copies(modules), _global_states(), dict[int, set[str]]()
    own = vars(twin)["forward"]

    def forward(*tensors: object) -> object:
        if is_dynamo_compiling():  # the strict mode, which records again what was observed
            return own(*tensors)
        at_first, drawn = _all_copies(modules), _global_states()
        with _recording_reads(reads), _refusing_recorded_bodies(), symbols_like_numbers():
            result = own(*tensors)
        written = (f"{names[key]}.{name}" for key, m in modules.items() for name in _written(m, at_first[key]))
        _refuse_writes(list(dict.fromkeys(name.lstrip(".") for name in written)))
        _refuse_draws(drawn)
        return result

    def found() -> Reads:
        seen: dict[nn.Module, frozenset[str]] = {}
        for key in reads.keys() & modules.keys():
            owner = module if modules[key] is twin else modules[key]
            seen[owner] = seen.get(owner, frozenset()) | ((reads[key] & before[key].keys()) - _OWN)
        return {m: read for m, read in seen.items() if read}

    vars(twin)["forward"] = forward
    try:
        with _hooks_with_results(module):
            yield found
    finally:
        for key, m in modules.items():
            _restore(m, before[key])
        if _global_states() != states:
            _set_global_states(states)


@contextmanager
def _refusing_recorded_bodies() -> Iterator[None]:
    """Within this block raise for what TorchDynamo records by itself: there attributes cannot be noted."""
    try:
        yield
    except Exception as error:
        if "__getattribute__" not in str(error):
            raise
        raise UnsupportedError(
            "the module's forward calls an operator on functions, such as torch.cond, which programs do not compute",
            fix=_EAGERLY,
        ) from error


def _refuse_writes(written: Sequence[str]) -> None:
    if written:
        raise UnsupportedError(
            f"the module's forward writes to its attributes {', '.join(written)}, which a program would not do",
            fix="call the module once before, if only its first call does that; return the value, have it in a buffer, "
            f"or {_EAGERLY}",
        )


def _refuse_draws(states: tuple[object, ...]) -> None:
    drawn = [name for name, now, then in zip(_SOURCES, _global_states(), states, strict=True) if now != then]
    if drawn:
        raise UnsupportedError(
            f"the module's forward draws random numbers from {' and '.join(drawn)}, which would be constants of a "
            "program",
            fix=f"draw them by torch.rand and its like, pass them as arguments, or {_EAGERLY}",
        )


# --- attributes that are written -------------------------------------------------------------------------------------


def _all_copies(modules: Mapping[int, nn.Module]) -> dict[int, dict[str, tuple[object, object]]]:
    return {key: _copies(m) for key, m in modules.items()}


def _copies(module: nn.Module) -> dict[str, tuple[object, object]]:
    """Each attribute's value, and a copy of its contents."""
    return {name: (value, _content(value)) for name, value in vars(module).items() if name not in _OWN}


def _content(value: Any) -> object:
    if isinstance(value, _GENERATORS):
        return pickle.dumps(value)
    kind = next((kind for kind in _CONTAINERS if isinstance(value, kind)), None)  # of an OrderedDict, dict
    return None if kind is None else kind(value)


def _written(module: nn.Module, before: Mapping[str, tuple[object, object]]) -> Iterator[str]:
    """The attributes that have other values or other contents now."""
    now = vars(module)
    for name in dict.fromkeys([*before, *now]):
        value, content = before.get(name, (_MISSING, None))
        found = now.get(name, _MISSING)
        if name in _OWN or _is_derived(module, name) or (found is value and _is_memo(name, value, content)):
            continue
        same = found is value or (type(found) is type(value) and type(value) in (int, float, str) and found == value)
        if not same or not _has(found, content):
            yield name


def _has(value: Any, content: Any) -> bool:
    """Whether a value has the contents that it had before."""
    if isinstance(value, _GENERATORS):
        return bool(pickle.dumps(value) == content)
    if isinstance(value, set):
        return bool(value == content)
    if not isinstance(value, _CONTAINERS):
        return True
    pairs = zip(_items(value), _items(content), strict=False)
    return len(value) == len(content) and all(a is b for a, b in pairs)


def _items(value: Any) -> Iterator[object]:
    return chain(value, value.values()) if isinstance(value, dict) else iter(value)


def _is_derived(module: nn.Module, name: str) -> bool:
    """Whether each call computes an attribute from a parameter, as :mod:`torch.nn.utils` prunes and normalises."""
    return any(f"{name}_{kind}" in module._parameters for kind in ("orig", "g"))


def _is_memo(name: str, value: object, before: Any) -> bool:
    """Whether an attribute is a dictionary that is called a cache, and has only grown."""
    same = isinstance(value, dict) and all(value.get(key, _MISSING) is known for key, known in before.items())
    return same and "cache" in name


def _restore(module: nn.Module, before: Mapping[str, tuple[Any, Any]]) -> None:
    now = vars(module)
    for name in [n for n in now if n not in before and n not in _OWN]:
        del now[name]
    for name, (value, content) in before.items():
        now[name] = value
        if isinstance(value, _GENERATORS) and pickle.dumps(value) != content:
            _set_state(value, pickle.loads(content))
        elif isinstance(value, _CONTAINERS) and not _has(value, content):
            value.clear()
            (value.extend if isinstance(value, list) else value.update)(content)


# --- random numbers --------------------------------------------------------------------------------------------------

_SOURCES = ("Python's random", "numpy.random")


def _global_states() -> tuple[object, ...]:
    return random.getstate(), pickle.dumps(np.random.get_state())


def _set_global_states(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(pickle.loads(states[1]))


def _set_state(generator: Any, then: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(then.getstate())
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(then.get_state())
    else:
        generator.bit_generator.state = then.bit_generator.state


# --- hooks -----------------------------------------------------------------------------------------------------------


@contextmanager
def _hooks_with_results(module: nn.Module) -> Iterator[None]:
    """Within this block a forward hook that gives nothing raises: it only has side effects in Python.

    Those of :mod:`torch.nn.utils` and transformers compute what the module's own forward reads.
    """
    changed = []
    for name, m in module.named_modules():
        for kind in FORWARD_HOOKS:
            hooks = vars(m).get(kind, {})
            for number, hook in hooks.items():
                if not str(getattr(hook, "__module__", "")).startswith(_LIBRARIES):
                    changed.append((hooks, number, hook))
                    hooks[number] = _giving(hook, f"{name or type(m).__name__}.{kind[1:]}")
    try:
        yield
    finally:
        for hooks, number, hook in changed:
            hooks[number] = hook


def _giving(hook: Callable[..., object], where: str) -> Callable[..., object]:
    thread = threading.get_ident()

    def call(*args: object, **kwargs: object) -> Any:
        found = hook(*args, **kwargs)
        if found is None and threading.get_ident() == thread:
            raise UnsupportedError(
                f"a hook in {where} returns nothing: a program would not do what it does",
                fix=f"remove it for from_torch, return what it looks at from the module, or {_EAGERLY}",
            )
        return found

    return call


# --- attributes that are read ----------------------------------------------------------------------------------------


@contextmanager
def _recording_reads(reads: dict[int, set[str]]) -> Iterator[None]:
    """Within this block the attributes that this thread asks modules for are noted."""
    thread = threading.get_ident()

    def noted(self: nn.Module, name: str) -> object:
        if not is_dynamo_compiling() and threading.get_ident() == thread:  # it records this function for torch.cond
            reads.setdefault(id(self), set()).add(name)
        return object.__getattribute__(self, name)

    nn.Module.__getattribute__ = noted  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del nn.Module.__getattribute__
