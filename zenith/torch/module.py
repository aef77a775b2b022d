"""``from_torch``: a PyTorch module as a compiled program, tensors in and out without a copy."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import torch
from torch._guards import active_fake_mode
from torch.nn.modules import module as _nn
from torch.nn.parameter import is_lazy

from zenith.api.compilable import Compilable
from zenith.api.specialize import Request, Specializer
from zenith.api.tolerance import within
from zenith.backends.weights import WeightTable
from zenith.errors import ArgumentError, PerformanceWarning, UnsupportedError, ValueTypeError, ZenithError, user_line
from zenith.ir.numerics import EXACT, Numerics
from zenith.torch.attributes import HOOKS
from zenith.torch.caches import register_caches
from zenith.torch.calls import TENSORS
from zenith.torch.functional import Captured, Functional, Params, load, parameters_of
from zenith.torch.likeness import ModuleLike
from zenith.torch.programs import ModulePrograms
from zenith.torch.training import Training

if TYPE_CHECKING:
    from zenith.quantization.quantized import Quantized

_is_compiling = torch.compiler.is_compiling
_GLOBAL_HOOKS = [getattr(_nn, f"_global{kind}") for kind in HOOKS]


class CompiledModule(Compilable[..., Any], ModuleLike):
    """What :func:`from_torch` returns: a ``torch.nn.Module`` with the weights, submodules and names of ``module``.

    Call it like the module. Safe to use from several threads. ``cache_info()`` and ``explain()`` report the programs
    without gradients in the 32 modes (``train()``, ``eval()``, values of attributes) that were used last, ``show()``
    the latest in the module's own; those of ``autograd.forward`` and ``autograd.backward`` report training steps.
    """

    FRONT = "torch"

    def __init__(
        self,
        module: torch.nn.Module,
        backend: str | None,
        dynamic_shapes: object,
        max_compilations: int | None = None,
        release_weights: bool = False,
        numerics: Numerics = EXACT,
    ) -> None:
        ModuleLike.__init__(self, module)
        own = vars(self)
        outer = [*(own[kind] for kind in HOOKS), *_GLOBAL_HOOKS, self._patches]
        programs = ModulePrograms(module, backend, dynamic_shapes, max_compilations, release_weights, numerics, outer)
        own.update(_programs=programs, _signature=programs.signature, __name__=programs.name)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """The module's result for these arguments: the same structure, tensors that share memory with nothing.

        When gradients are recorded, and a weight or an argument requires one, the result leads back to them. Hooks on
        this object run around it. An enclosing model that ``torch.compile`` compiles gets the module itself.
        """
        if _is_compiling() and _in_recording():
            return self._call_impl(*args, **kwargs)
        return self._programs.call(args, kwargs, self)

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The result of a call, without the hooks on this object."""
        if _is_compiling() and _in_recording():
            self._refuse_constants()
            return self.module(*args, **kwargs)  # a part of what TorchDynamo or torch.export records
        return self._programs.call(args, kwargs)

    def _refuse_constants(self) -> None:
        """UnsupportedError in an export of a model without this one as a submodule: its weights would be constants."""
        weights = chain(self.module.parameters(), self.module.buffers())
        if not torch.compiler.is_dynamo_compiling() and any(type(weight) in TENSORS for weight in weights):
            raise UnsupportedError(
                f"{self.__name__} is no part of the model that is exported, which would take its weights for constants",
                where=user_line(), fix="make it an attribute of that model's",
            )  # fmt: skip

    @property
    def _specializer(self) -> Specializer:  # type: ignore[override]  # another in each mode
        return self._programs.specializer

    def _specializers(self) -> Sequence[Specializer]:
        return self._programs.specializers()

    @property
    def autograd(self) -> Training:
        """The programs of training, in the mode in which the module is."""
        self._follow_changes()
        return self._programs.mode.training

    def functional(self) -> tuple[Functional, Params]:
        """The module as a function of its parameters, and copies of these by name.

        ``fn(params, *args, **kwargs)`` gives the module's result in its mode of that moment, with the buffers that it
        has now; arguments may be arrays of any kind, traced ones too. What it draws comes from PyTorch's generator.
        Raises UnsupportedError where the module would write to its buffers.

        >>> import zenith
        >>> fn, params = from_torch(torch.nn.Linear(3, 1), (torch.zeros(4, 3),)).functional()
        >>> gradient = zenith.grad(lambda params, x: fn(params, x).sum())(params, torch.ones(5, 3))
        >>> gradient["weight"], gradient["bias"]
        (tensor([[5., 5., 5.]]), tensor([5.]))
        """
        params = self._own_parameters()
        return Functional(self._programs, list(params)), params

    def forward_only(self) -> tuple[Functional, Params]:
        """The same for results alone, without derivatives: what was exported for these serves."""
        params = self._own_parameters()
        return Functional(self._programs, list(params), differentiable=False), params

    def _own_parameters(self) -> Params:
        self._programs.refuse_released("{} has no parameters to give: its programs have released the module's weights")
        return parameters_of(self.module)

    def captured(self) -> Captured:
        """The module as a part of other functions' programs, which read its weights where they are."""
        return Captured(self._programs)

    def release_weights(self, table: WeightTable | None = None) -> None:
        """Give up weights whose memory programs no longer need, as the option of this name says.

        ``table`` is that of the programs, if it is another than the module's.
        """
        self._programs.release(table)

    def load_params(self, params: Mapping[str, object]) -> None:
        """Write parameters, of the names that :meth:`functional` gives, into the module.

        Raises ArgumentError for other names, ShapeError and DTypeError for arrays that are not as the module's; then
        nothing is written.
        """
        load(self.__name__, self.module, params)

    def refresh(self) -> None:
        """Look at all weights again: by hand only after writes that nobody can see, such as of another process."""
        self._programs.refresh()

    def _begin(self) -> None:
        self._follow_changes()
        self._programs.weights.check_gradients()

    def _follow_changes(self) -> None:
        self._programs.follow_changes()

    def _captured(self) -> object:
        return self._programs.mode

    def _written(self) -> type:
        return type(self.module)

    def _flatten(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Hashable, Request]:
        return self._programs.flatten(args, kwargs)

    def __repr__(self) -> str:
        return f"<zenith.from_torch of {self.__name__}>"

    def __reduce__(self) -> Any:
        if self._programs.released:
            raise ZenithError(
                f"{self.__name__} cannot be copied or pickled: its programs have released the module's weights",
                fix="save() it and load the file there, or keep the weights: release_weights=False",
            )
        return CompiledModule, (self.module, *self._programs.options), self._own_state()


class Options(TypedDict, total=False):
    """Those of :func:`from_torch` that do not change what it returns."""

    backend: str | None
    max_compilations: int | None
    release_weights: bool
    repeatable: bool
    tf32: bool
    error_budget: float
    precision: str


@overload
def from_torch(
    module: torch.nn.Module, args: tuple[object, ...] | None = None, kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None, *, tolerance: None = None, calibration: None = None, **options: Unpack[Options],
) -> CompiledModule: ...  # fmt: skip
@overload
def from_torch(
    module: torch.nn.Module, args: tuple[object, ...] | None = None, kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None, *, tolerance: float, calibration: Iterable[object], **options: Unpack[Options],
) -> Quantized[..., Any]: ...  # fmt: skip
def from_torch(
    module: torch.nn.Module,
    args: tuple[object, ...] | None = None,
    kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None,
    *,
    backend: str | None = None,
    max_compilations: int | None = None,
    release_weights: bool = False,
    repeatable: bool = True,
    tf32: bool = False,
    error_budget: float = 0.0,
    precision: str = "exact",
    tolerance: float | None = None,
    calibration: Iterable[object] | None = None,
) -> Compilable[..., Any]:
    """Compile a PyTorch module, for inference and for training.

    Parameters
    ----------
    module: its Python code runs only under ``torch.export``, here and once for another mode. Its parameters and buffers
        may change later; tensors that are plain attributes, and hooks, are taken as they are then.
    args, kwargs: example arguments; without any, the first call's are. Their values do not matter, their sizes hardly:
        every size is free that the module does not fix by itself. Sizes 0 and 1, which torch.export treats as special,
        are exported when they are met. Python numbers next to tensors may become inputs with their second value
        (without ``dynamic_shapes``).
    dynamic_shapes: as for ``torch.export.export``, instead of leaving every size free.
    backend: where to compute. None takes the device of the module and the tensors; ``"cpu"`` and ``"cuda"`` insist on
        it, and nothing is moved silently; ``"lanes"`` runs the CPU's kernels as NumPy code, ``"reference"`` interprets
        the graph.
    max_compilations: how many programs may ever be compiled, as for :func:`zenith.jit`; None is no limit.
    release_weights: after the first call give up the memory of weights that the program has in another form, such as
        packed; the module gets tensors on the device ``meta`` instead. A call that finds the module's weights
        changed afterwards raises ZenithError, and so does a call of another kind whose program needs them otherwise.
    repeatable: whether equal calls give equal bits; False allows a GPU to add in any order, as for
        :func:`zenith.jit`.
    tf32: whether a GPU may round the operands of float32 matrix products to TF32, as for :func:`zenith.jit`.
    error_budget: the relative error that convolutions may have where that makes them faster, as for :func:`zenith.jit`.
    precision: ``"bf16"`` or ``"fp16"`` rounds the operands of float32 products and convolutions, as for
        :func:`zenith.jit`.
    tolerance, calibration: the error that outputs may have, and batches of arguments to measure it with, as for
        :func:`zenith.jit`. What is returned then is for inference with the weights that the module has now: a
        :class:`~zenith.quantization.quantized.Quantized`, as from :func:`zenith.quantize`.

    Returns
    -------
    A :class:`CompiledModule`, called like the module, with results of the same structure. It shares the module's
    weights; when some change (training, ``load_state_dict``), the next call packs these again. A call uses the
    packed ones with which it began; what it reads from the module itself, such as biases, must not be written to
    while it runs, as in PyTorch. Where PyTorch records gradients, ``backward()`` leads them to the module's parameters
    and to arguments; the module's mode (``train()``, ``eval()``) is followed.

    Raises
    ------
    UnsupportedError: the module uses operators that Zenith does not know (it lists them all), is called under autocast
        for its device, or is to be trained and has a derivative of its own (``torch.autograd.Function``). What cannot
        be exported is refused here where there are examples, else by the first call.
    ValueTypeError: it is no module, or the examples are no tuple and no dict.
    ArgumentError: it is lazy, and no call has given its weights their sizes yet.

    >>> layer = torch.nn.Linear(3, 2)
    >>> fast = from_torch(layer, (torch.zeros(4, 3),))
    >>> with torch.no_grad():
    ...     fast(torch.zeros(7, 3)).shape, from_torch(layer)(torch.zeros(7, 3)).shape
    (torch.Size([7, 2]), torch.Size([7, 2]))
    """
    _check_types(module, args, kwargs)
    register_caches()
    numerics = Numerics(repeatable, tf32, error_budget, precision)
    compiled = CompiledModule(module, backend, dynamic_shapes, max_compilations, release_weights, numerics)
    if args is not None or kwargs is not None:
        compiled._programs.prepare(tuple(args or ()), dict(kwargs or {}))
    if any(weight.is_inference() for weight in compiled._programs.weights.tensors.values()):
        warnings.warn(
            f"{compiled.__name__} has weights that were made in torch.inference_mode(): PyTorch does not count writes "
            "to them, so that every call prepares them again. Make or load the module outside of it",
            PerformanceWarning, stacklevel=2,
        )  # fmt: skip
    return within(compiled, tolerance, calibration)


def _check_types(module: object, args: object, kwargs: object) -> None:
    """ValueTypeError for what is no module, and for a lone tensor, whose rows would be taken for arguments."""
    if not isinstance(module, torch.nn.Module):
        fix = 'torch.compile(f, backend="zenith") takes functions of tensors, zenith.jit(f) those of NumPy\'s arrays'
        if isinstance(module, type) and issubclass(module, torch.nn.Module):
            fix = f"make one: {module.__name__}(...)"
        raise ValueTypeError(f"from_torch takes a torch.nn.Module, not a {type(module).__name__}", where=user_line(),
                             fix=fix)  # fmt: skip
    if any(map(is_lazy, chain(module.parameters(), module.buffers()))):
        raise ArgumentError(f"weights of {type(module).__name__} have no sizes before its first call",
                            where=user_line(), fix="call the module once itself, then from_torch")  # fmt: skip
    if not isinstance(args, (tuple, list, type(None))) or not isinstance(kwargs, (Mapping, type(None))):
        raise ValueTypeError(
            "from_torch takes example arguments in a tuple and a dict, but "
            f"args is a {type(args).__name__} and kwargs a {type(kwargs).__name__}",
            where=user_line(), fix="write from_torch(module, (x,)), or from_torch(module, (), {'x': x}) for keywords",
        )  # fmt: skip


def _in_recording() -> bool:
    """Whether this thread, and not just another one, compiles or exports an enclosing model."""
    return torch.compiler.is_dynamo_compiling() or active_fake_mode() is not None
