"""Contenders that run the NumPy program: NumPy itself, JAX, and numexpr where the program is one expression."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.contender import Contender, Job, Program, needs_numpy_program
from benchmarks.contenders.steps import FunctionalStep, functional_step

if TYPE_CHECKING:
    from benchmarks.workloads import Arrays, Workload


_FLOAT = r"\d+\.\d+"


def numpy_program(workload: Workload) -> Program:
    """The workload's NumPy program with its weights captured."""
    import numpy as np

    assert workload.numpy is not None
    return workload.numpy(workload.weights(), np)


def jax_program(workload: Workload) -> Program:
    """The program on ``jax.numpy``; its weights are arguments, as in JAX's own libraries."""
    import jax.numpy as jnp

    build = workload.numpy
    assert build is not None
    return partial(lambda weights, *arguments: build(weights, jnp)(*arguments), jax_arrays(workload.weights()))


class Jax:
    """``jax.jit`` of a program whose first argument is bound; a call waits for the result if ``waits``."""

    def __init__(self, job: Job, waits: bool = True) -> None:
        import jax

        program: Any = job.program
        self._jitted: Any = jax.jit(program.func)
        (self._weights,) = program.args
        self._waits = waits

    def __call__(self, *arguments: Any) -> Any:
        result = self._jitted(self._weights, *arguments)
        return result.block_until_ready() if self._waits else result

    def facts(self) -> dict[str, Any]:
        """How many shapes were compiled."""
        return {"compilations": self._jitted._cache_size()}


class JaxStep(FunctionalStep):
    """``jax.jit`` of ``value_and_grad`` and a rule written by hand; weights and state are donated.

    ``waits`` says that each call waits for its results.
    """

    def __init__(self, workload: Workload, waits: bool = True) -> None:
        import jax
        import jax.numpy as jnp

        build, descent, weights = workload.numpy, workload.descent, jax_arrays(workload.weights())
        assert build is not None and descent is not None
        learns = descent.rule is not None

        def advance(weights: Any, gradient: Any, state: Any) -> tuple[Any, Any]:
            return descent.advance(weights, gradient, state, jnp)

        gradient = jax.value_and_grad(lambda weights, *batch: build(weights, jnp)(*batch))
        step = functional_step(gradient, advance if learns else None)
        self._jitted: Any = jax.jit(step, donate_argnums=(0, 1) if learns else ())
        state = descent.start(weights, jnp) if learns else ()
        super().__init__(self._jitted, weights, state, learns, jax.block_until_ready if waits else tuple)

    def facts(self) -> dict[str, Any]:
        """How many shapes were compiled."""
        return {"compilations": self._jitted._cache_size()}


def jax_arrays(arrays: Arrays) -> tuple[Any, ...]:
    """JAX's arrays, on its default device.

    One of 64-bit elements switches its 64-bit mode on: else it would halve them, and read half as much as its peers.
    """
    import jax
    import jax.numpy as jnp

    if any(array.dtype.itemsize == 8 for array in arrays):
        jax.config.update("jax_enable_x64", True)
    return tuple(map(jnp.asarray, arrays))


def _needs_expression(workload: Workload) -> str | None:
    return None if workload.expression else "the program is more than one elementwise expression"


def _numexpr(job: Job) -> Program:
    """Numbers in the text become float32 variables: numexpr would compute in float64 with a Python float."""
    import numexpr
    import numpy as np

    numbers = {f"number{i}": np.float32(text) for i, text in enumerate(re.findall(_FLOAT, job.expression))}
    names = iter(numbers)
    text = re.sub(_FLOAT, lambda match: next(names), job.expression)
    arguments = tuple(inspect.signature(job.program).parameters)

    def call(*arrays: Any) -> Any:
        return numexpr.evaluate(text, numbers | dict(zip(arguments, arrays, strict=True)))

    return call


NUMPY = Contender(
    "numpy",
    libraries=("numpy",),
    program=numpy_program,
    versions=("numpy",),
    loops=True,
    declines=needs_numpy_program,
)
JAX = Contender(
    "jax",
    libraries=("jax", "jax.numpy"),
    program=jax_program,
    convert=jax_arrays,
    compile=Jax,
    facts=lambda call: call.facts(),  # type: ignore[attr-defined]
    versions=("jax", "jaxlib"),
    step=JaxStep,
    loops=True,
    declines=needs_numpy_program,
)
NUMEXPR = Contender(
    "numexpr",
    libraries=("numexpr",),
    program=numpy_program,
    compile=_numexpr,
    versions=("numexpr",),
    declines=_needs_expression,
)
