"""``cached_property`` without a lock.

That of Python 3.11's functools computes under a lock, one for all objects of a class: threads wait for each other, and
a process that forks meanwhile has children that wait for ever. From 3.12 on it has none, as here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar, overload

Object = TypeVar("Object")
Found = TypeVar("Found")


class cached_property(Generic[Object, Found]):
    """A property that is computed when it is first read; of several threads that do so, all get the same object.

    >>> class Circle:
    ...     @cached_property
    ...     def area(self):
    ...         return print("computed") or 3
    >>> circle = Circle()
    >>> circle.area, circle.area
    computed
    (3, 3)
    """

    def __init__(self, function: Callable[[Object], Found]) -> None:
        self._function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: Object, owner: type | None = None) -> Found: ...

    def __get__(self, instance: Object | None, owner: type | None = None) -> Self | Found:
        if instance is None:
            return self
        values: dict[str, Found] = instance.__dict__
        found: Found = values[self._name] if self._name in values else self._function(instance)
        shared: Found = values.setdefault(self._name, found)
        return shared
