"""Methods: what an instance gives for a jitted function of its class: the bound methods of compiled functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from zenith.api.pickling import Reduced

if TYPE_CHECKING:
    from pathlib import Path

    from zenith.api.inspection import CacheInfo, Explanation
    from zenith.api.jit import Jitted
    from zenith.api.profile import Profile
    from zenith.api.stages import Lowered
    from zenith.ir.graph import Graph
    from zenith.ir.numerics import Numerics

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class _OfFunction:
    """The docstring of a method's function, and of the class ``JittedMethod`` where that is asked."""

    def __init__(self, own: str | None) -> None:
        self._own = own

    def __get__(self, instance: JittedMethod[..., Any] | None, owner: type) -> str | None:
        return self._own if instance is None else instance._jitted.__doc__


class JittedMethod(Generic[P, R]):
    """A jitted method of one instance, which it keeps alive; has everything that :class:`Jitted` has."""

    __slots__ = ("_jitted", "instance")
    if not TYPE_CHECKING:
        __doc__ = _OfFunction(__doc__)

    # What ``__getattr__`` finds in the compiled function.
    __name__: str
    graph: Graph
    numerics: Numerics
    cache_clear: Callable[[], None]
    cache_info: Callable[[], CacheInfo]
    eject: Callable[[str | Path], None]
    explain: Callable[[], Explanation]
    lower: Callable[..., Lowered[P, R]]
    profile: Callable[P, Profile]
    save: Callable[[str | Path], None]
    show: Callable[..., str]

    def __init__(self, instance: object, jitted: Jitted[P, R]) -> None:
        self.instance, self._jitted = instance, jitted

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._jitted(*args, **kwargs)

    @property
    def jitted(self) -> Jitted[P, R]:
        """The compiled function, of the arguments after the instance."""
        return self._jitted

    @property
    def __wrapped__(self) -> MethodType:
        """The function as it was written, bound to the instance: ``inspect.signature`` reads its parameters."""
        of_some: MethodType = inspect.unwrap(self._jitted.function, stop=lambda f: isinstance(f, MethodType))
        return MethodType(of_some.__func__, self.instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)

    def __reduce__(self) -> Reduced:
        return getattr, (self.instance, self._jitted.__name__)


class MethodOfStaticInstance(JittedMethod[P, R]):
    """A jitted method whose instance is a static argument: the function of the class, with the instance in front."""

    __slots__ = ()

    @property
    def jitted(self) -> Jitted[P, R]:
        """A compiled function of the arguments after the instance, which has no programs yet."""
        return cast("Jitted[P, R]", self._jitted.bound_to(self.instance))

    @property
    def __wrapped__(self) -> MethodType:
        """The function as it was written, bound to the instance."""
        return MethodType(self._jitted.function, self.instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._jitted(self.instance, *args, **kwargs)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._jitted, name)
        return functools.partial(found, self.instance) if name in ("lower", "profile") else found
