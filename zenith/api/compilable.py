"""Compilable functions and modules: they can be lowered, profiled, and saved with all of their programs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from zenith.api.inspection import Inspectable
from zenith.api.programs import Specialization
from zenith.api.recompilation import CLEARED
from zenith.api.signature import Signature
from zenith.api.specialize import Request
from zenith.api.stages import Lowered
from zenith.ir.numerics import Numerics

if TYPE_CHECKING:
    from zenith.api.profile import Profile


P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Compilable(Inspectable, Generic[P, R]):
    """A function or module that is traced and compiled when a call needs it, of its parameters P and its result R.

    ``FRONT`` names the front end that calls and results belong to.
    """

    FRONT: str
    _signature: Signature

    @property
    def numerics(self) -> Numerics:
        """The deviations from exact and repeatable arithmetic that kernels may make."""
        return self._specializer.numerics

    @property
    def reference(self) -> Compilable[P, R]:
        """The program that says how exact this one is: itself, where its graph approximates nothing."""
        return self

    def cache_clear(self) -> None:
        """Forget all compiled programs, and with them the snapshots of captured arrays."""
        for specializer in self._specializers():
            specializer.clear(CLEARED)

    def lower(self, *args: object, **kwargs: object) -> Lowered[P, R]:
        """Trace, optimise and plan for these arguments, and compile nothing yet: see :mod:`zenith.api.stages`.

        Arguments are as in a call; an array may be replaced by a :class:`~zenith.api.abstract.ShapeDtypeStruct`, so
        that nothing is allocated. Its named sizes are free, and equal for equal names; so are its numbers unless the
        program fixes them.
        """
        key, request = self._flatten(args, kwargs)
        return Lowered(self.__name__, self._specializer, self, key, request)

    def profile(self, *args: P.args, **kwargs: P.kwargs) -> Profile:
        """Time each launch of a call with these arguments: see :mod:`zenith.api.profile`.

        Compiles when it must, runs some dozens of calls, and once in a process measures the machine. Raises
        UnsupportedError when the function is not compiled to machine code.

        >>> import numpy as np, zenith
        >>> report = zenith.jit(lambda x: np.exp(x) + 1).profile(np.ones(10_000, np.float32))
        >>> [launch.operations for launch in report.launches], report.launches[0].seconds > 0
        ([150000], True)
        """
        from zenith.api.profile import profile

        self(*args, **kwargs)  # compiles, and follows changed weights
        key, request = self._flatten(args, kwargs)
        return profile(self.__name__, self._specializer.obtain(key, request), request)

    def save(self, path: str | Path) -> None:
        """Write all programs compiled so far to a file, which :func:`zenith.load` makes callable in another process.

        A path without a suffix, or of a folder, makes a folder: texts, weights as safetensors under their names, object
        code, and no programs of a GPU. Those in a file are for GPUs of the same architecture, with the number that it
        has here.

        The file holds graphs, machine code, and captured arrays and weights as they are now, in the form in which
        programs read them; of the function's source, the lines that errors and listings quote. It replaces a file that
        was saved at ``path``, atomically, and in a folder what an earlier save wrote there. Links are followed.

        Raises ZenithError when nothing was compiled yet, or when files that Zenith did not write are in the way,
        UnsupportedError when programs call back into Python, are not compiled, need weights of a GPU that were
        released, or take or return what a file cannot describe, OSError when it cannot be written.

        >>> import numpy as np, tempfile, zenith
        >>> double = zenith.jit(lambda x: x * 2)
        >>> double(np.ones(3, np.float32))
        array([2., 2., 2.], dtype=float32)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     double.save(folder + "/double.zenith")
        ...     zenith.load(folder + "/double.zenith")(np.ones(2, np.float32))
        array([2., 2.], dtype=float32)
        """
        from zenith.api.saving import save

        self._follow_changes()
        save(Path(path), self.FRONT, self.__name__, self._signature, self._specializer)

    def eject(self, path: str | Path) -> None:
        """Write the compiled program as one readable Python file, which needs NumPy and Numba and no Zenith.

        It defines a function of this one's name, which takes NumPy arrays and gives the same bits. Before its
        kernels comes what a call does: checks, sizes, memory, launches in order; after them, what their names mean to
        compiled code. Weights and captured arrays go to a file next to it, with the suffix ``.npz``.

        Raises ZenithError when there is not exactly one compiled program (``fn.lower(*args).compile().eject(path)``
        takes one of several), or when files that ``eject`` did not write have these names, UnsupportedError for what a
        file cannot hold: programs of a GPU, programs that call Python, bfloat16 arguments; OSError when it cannot be
        written.

        >>> import numpy as np, pathlib, tempfile, zenith
        >>> double = zenith.jit(lambda x: x * 2)
        >>> double(np.ones(3, np.float32))
        array([2., 2., 2.], dtype=float32)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     double.eject(folder + "/double.py")
        ...     "import zenith" in pathlib.Path(folder, "double.py").read_text()
        False
        """
        from zenith.api.ejecting import only_program

        self._follow_changes()
        self._eject(Path(path), *only_program(self.__name__, self._specializer))

    def _eject(self, path: Path, key: Hashable, program: Specialization) -> None:
        """Write one of the programs."""
        from zenith.api.ejecting import eject

        eject(path, self.__name__, self._signature, key, program, self._written())

    def _written(self) -> Callable[..., object]:
        """The function or class that the user wrote."""
        raise NotImplementedError

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the program for these arguments, which is compiled first where there is none."""
        raise NotImplementedError

    def _flatten(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Hashable, Request]:
        """The key of a call and what is needed to compile for it."""
        raise NotImplementedError

    def _begin(self) -> None:
        """What a call does before anything else: nothing, unless weights may have changed."""

    def _follow_changes(self) -> None:
        """Make the programs compute with the current values of weights."""

    def _captured(self) -> object:
        """The identity that programs are bound to: a new object when none of them may run any more."""
        return None
