"""Arrays that no adapter reads, such as those with labels: pandas aligns by them, and skips what is missing.

A program knows neither, so what is labelled is refused, with the array to pass and how its result is labelled again.
"""

from __future__ import annotations

from zenith.errors import ValueTypeError, user_line

# For a library's class, what a user writes for an array called {0}, beside passing its numbers.
_LABELLED = {
    "pandas.Series": "and label the result: pandas.Series(result, {0}.index)",
    "pandas.DataFrame": "and label the result: pandas.DataFrame(result, {0}.index, {0}.columns)",
    "pandas.Index": "and label the result: pandas.Index(result)",
    "polars.Series": "and label the result: polars.Series({0}.name, result)",
    "polars.DataFrame": "and label the result: polars.DataFrame(result, {0}.columns)",
    "xarray.DataArray": "or keep the labels: xarray.apply_ufunc(f, {0}) calls f with arrays",
}


def refusal(array: object, name: str) -> ValueTypeError | None:
    """The error for an array of a library that Zenith does not know, called ``name``; None for what is no array."""
    kind = type(array)
    if not (hasattr(array, "__dlpack__") or hasattr(array, "__array__")):
        return None
    known = [f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in kind.__mro__]
    for base in known:
        if base in _LABELLED:
            return ValueTypeError(
                f"{name} is a {base}, whose labels a program would lose, by which its library aligns",
                where=user_line(), fix=f"pass {name}.to_numpy(), {_LABELLED[base].format(name)}",
            )  # fmt: skip
    return ValueTypeError(f"{name} is a {kind.__name__}, an array of a library that Zenith does not know",
                          where=user_line(), fix=f"pass numpy.asarray({name})")  # fmt: skip
