"""The builder's methods: each registered primitive. Made by docs/make_builder_stub.py (`make docs`)."""

from collections.abc import Sequence

from zenith.ir.dims import DimLike
from zenith.ir.external import External
from zenith.ir.graph import Graph, Value
from zenith.ir.types import ArrayType, DType

Number = complex  # also bool, int and float; in the class, `complex` is a primitive
Operand = Value | Number

class Methods:
    """One method for each primitive. A number among array operands becomes a literal of their type and shape."""

    def abs(self, x: Operand, /) -> Value:
        """Absolute value; the derivative at 0 is 0."""

    def add(self, x: Operand, y: Operand, /) -> Value:
        """Sum."""

    def adjugate(self, x: Operand, /) -> Value:
        """The matrix whose elements are, but for their signs, a square matrix's determinants without the element's
        column and row.
        """

    def arccos(self, x: Operand, /) -> Value:
        """Inverse cosine."""

    def arccosh(self, x: Operand, /) -> Value:
        """Inverse hyperbolic cosine."""

    def arcsin(self, x: Operand, /) -> Value:
        """Inverse sine."""

    def arcsinh(self, x: Operand, /) -> Value:
        """Inverse hyperbolic sine."""

    def arctan(self, x: Operand, /) -> Value:
        """Inverse tangent."""

    def arctan2(self, x: Operand, y: Operand, /) -> Value:
        """Angle of the point (y, x)."""

    def arctanh(self, x: Operand, /) -> Value:
        """Inverse hyperbolic tangent."""

    def argmax(self, x: Operand, /, *, axis: int) -> Value:
        """The position of the first maximum (of the first nan, if any) along an axis, as int64."""

    def as_parts(self, x: Operand, /) -> Value:
        """Complex numbers as pairs of real ones, along a new last axis; the same memory."""

    def attention(self, *args: Operand, scale: Number, causal: bool, mask: str, empty: Number) -> tuple[Value, Value]:
        """The values of the keys that each query sees, averaged by the softmax of their products; and the logarithm of
        the sum of the products' exponentials.
        """

    def attention_vjp(self, *args: Operand, scale: Number, causal: bool, mask: str) -> tuple[Value, Value, Value]:
        """Cotangents of attention's queries, keys and values from the averages' cotangent, the logarithms of the sums
        of exponentials and delta.
        """

    def bit_and(self, x: Operand, y: Operand, /) -> Value:
        """Bitwise and; logical and of bools."""

    def bit_count(self, x: Operand, /) -> Value:
        """The number of ones among the bits of the absolute value, as uint8."""

    def bit_not(self, x: Operand, /) -> Value:
        """Bitwise not; logical not of a bool."""

    def bit_or(self, x: Operand, y: Operand, /) -> Value:
        """Bitwise or; logical or of bools."""

    def bit_xor(self, x: Operand, y: Operand, /) -> Value:
        """Bitwise exclusive or."""

    def bits_float(self, x: Operand, /) -> Value:
        """The float32 or float64 number with the bits of a signed integer of the same width."""

    def broadcast(self, x: Operand, /, *, shape: Sequence[DimLike], axes: tuple[int, ...]) -> Value:
        """Repeats along new axes and axes of size 1: axis i of the operand becomes axes[i]."""

    def call_native(
        self, *args: Operand, function: External, results: Sequence[ArrayType], mapped: int
    ) -> Value | tuple[Value, ...]:
        """What a native function computes of its operands, without Python."""

    def call_python(
        self, *args: Operand, function: External, results: Sequence[ArrayType], mapped: int
    ) -> Value | tuple[Value, ...]:
        """What a Python function returns for its operands."""

    def call_python_in_order(
        self, *args: Operand, function: External, results: Sequence[ArrayType], mapped: int
    ) -> Value | tuple[Value, ...]:
        """What a Python function with effects returns, called in program order."""

    def cast(self, x: Operand, /, *, dtype: DType) -> Value:
        """Conversion to another element type, as NumPy's astype on x86-64. Integers wrap. Floats are truncated to int32
        for int8, int16, int32, uint8 and uint16, to int64 for int64 and uint32, of which the low bits stay; nan and
        what is out of range become the smallest int32 or int64. uint64 has also the numbers from 2**63 on below 2**64;
        what is larger becomes 0. A complex number loses its imaginary part.
        """

    def cbrt(self, x: Operand, /) -> Value:
        """Real cube root."""

    def ceil(self, x: Operand, /) -> Value:
        """Rounding up."""

    def checkpoint(self, *args: Operand, body: Graph) -> Value | tuple[Value, ...]:
        """A function whose inner values are recomputed for its derivative, unless marked."""

    def checkpoint_name(self, x: Operand, /, *, label: str) -> Value:
        """Its argument, with a name by which policies of checkpoint know it."""

    def cholesky(self, x: Operand, /) -> Value:
        """The lower triangular L with L times its adjoint a Hermitian positive definite matrix, of which the lower
        triangle is read.
        """

    def complete_qr(self, x: Operand, /) -> tuple[Value, Value]:
        """As qr, with as many columns as rows."""

    def complete_svd(self, x: Operand, /) -> tuple[Value, Value, Value]:
        """As svd, with all left and right vectors."""

    def complex(self, x: Operand, y: Operand, /) -> Value:
        """Complex numbers of real and imaginary parts."""

    def concat(self, *args: Operand, axis: int) -> Value:
        """Operands one after another along an axis."""

    def conj(self, x: Operand, /) -> Value:
        """Complex conjugates."""

    def constant(self, /, *, id: str, dtype: DType, shape: Sequence[DimLike]) -> Value:
        """An array of the program, named by the hash of its contents."""

    def conv(
        self,
        x: Operand,
        y: Operand,
        /,
        *,
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: DimLike,
    ) -> Value:
        """Correlation of channels (n, c, sizes...) with weights (o, c / groups, sizes...), no border."""

    def conv_blocks(
        self,
        x: Operand,
        y: Operand,
        /,
        *,
        window: Sequence[DimLike],
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
        block: DimLike,
    ) -> Value:
        """Correlation of blocks of channels (n, groups, blocks, sizes..., block) with weights (groups, terms, o): a
        term is a block, an offset in the window, a channel of the block.
        """

    def conv_blocks_integer(
        self,
        x: Operand,
        y: Operand,
        /,
        *,
        window: Sequence[DimLike],
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
        block: DimLike,
    ) -> Value:
        """conv_blocks of bytes, u8 by i8, whose sums are i32 and wrap."""

    def conv_blocks_weights(
        self,
        x: Operand,
        y: Operand,
        /,
        *,
        window: Sequence[DimLike],
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
    ) -> Value:
        """conv_weights on blocks of channels (n, groups, blocks, sizes..., block), as (groups, terms, o): a term is a
        block, an offset in the window, a channel of the block.
        """

    def conv_integer(
        self,
        x: Operand,
        y: Operand,
        /,
        *,
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: DimLike,
    ) -> Value:
        """conv of bytes, u8 by i8, whose sums are i32 and wrap (ConvInteger)."""

    def conv_weights(
        self,
        x: Operand,
        y: Operand,
        /,
        *,
        window: Sequence[DimLike],
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: DimLike,
        channels: DimLike,
    ) -> Value:
        """The gradient of a convolution of x (n, c, sizes...) by its weights (o, c / groups, window...), with so many
        ``channels`` a group, from that y (n, o, sizes...) of its result.
        """

    def copysign(self, x: Operand, y: Operand, /) -> Value:
        """The magnitude of the first operand with the sign of the second."""

    def cos(self, x: Operand, /) -> Value:
        """Cosine of an angle in radians."""

    def cosh(self, x: Operand, /) -> Value:
        """Hyperbolic cosine."""

    def counter(self, /, *, shape: Sequence[DimLike]) -> Value:
        """The position of each element in row-major order, as int64."""

    def covering(
        self,
        x: Operand,
        /,
        *,
        size: Sequence[DimLike],
        stride: Sequence[DimLike],
        dilation: tuple[int, ...],
    ) -> Value:
        """For each element those of the windows that cover it, and zeros where fewer do."""

    def cumlogsumexp(self, x: Operand, /, *, axis: int, reverse: bool) -> Value:
        """log of the sum of exp of all elements up to each one; a zero is 0.0, never -0.0."""

    def cummax(self, x: Operand, /, *, axis: int, reverse: bool) -> Value:
        """The largest of all elements up to each one, nan from the first nan on; the derivative is that of the last
        element that attains it.
        """

    def cummin(self, x: Operand, /, *, axis: int, reverse: bool) -> Value:
        """The smallest of all elements up to each one, nan from the first nan on; the derivative is that of the last
        element that attains it.
        """

    def cumprod(self, x: Operand, /, *, axis: int, reverse: bool) -> Value:
        """The product of all elements up to each one."""

    def cumsum(self, x: Operand, /, *, axis: int, reverse: bool) -> Value:
        """The sum of all elements up to each one."""

    def custom_jvp(self, *args: Operand, body: Graph, rule: Graph, captured: int) -> Value | tuple[Value, ...]:
        """A function whose tangents are computed by a rule of its own."""

    def custom_vjp(
        self, *args: Operand, body: Graph, forward: Graph, backward: Graph, captured: int
    ) -> Value | tuple[Value, ...]:
        """A function whose cotangents are computed by a rule of its own."""

    def debug_print(self, *args: Operand, format: str) -> Value:
        """Prints arrays when the program runs, in program order."""

    def det(self, x: Operand, /) -> Value:
        """The determinant of square matrices."""

    def digamma(self, x: Operand, /) -> Value:
        """Derivative of lgamma; nan at negative integers. Near negative zeros the error is one of ulps of 1."""

    def div(self, x: Operand, y: Operand, /) -> Value:
        """True quotient of floating-point and complex numbers."""

    def dynamic_slice(self, *args: Operand, sizes: Sequence[DimLike], batch: int) -> Value:
        """A slice of the first operand that begins at the others, clamped to lie inside."""

    def dynamic_update_slice(self, *args: Operand, batch: int) -> Value:
        """The first operand with the second over the slice of it that begins at the others, clamped to lie inside."""

    def eigh(self, x: Operand, /) -> tuple[Value, Value]:
        """The eigenvalues, ascending, and the eigenvectors, as columns, of a Hermitian matrix, of which the lower
        triangle is read.
        """

    def eigvalsh(self, x: Operand, /) -> Value:
        """The eigenvalues of eigh."""

    def empty(self, /, *, dtype: DType, shape: Sequence[DimLike]) -> Value:
        """Memory whose contents are not read: what is written over it is all that counts."""

    def eq(self, x: Operand, y: Operand, /) -> Value:
        """Whether x == y."""

    def erf(self, x: Operand, /) -> Value:
        """Error function."""

    def erfc(self, x: Operand, /) -> Value:
        """1 - erf(x), with all its digits where it is small."""

    def erfcinv(self, x: Operand, /) -> Value:
        """Inverse of erfc; infinite at 0, minus infinity at 2, nan beyond."""

    def erfcx(self, x: Operand, /) -> Value:
        """exp(x**2) erfc(x), which does not vanish where x is large."""

    def erfinv(self, x: Operand, /) -> Value:
        """Inverse of the error function; infinite at -1 and 1, nan beyond."""

    def error_if(self, x: Operand, y: Operand, /, *, why: str) -> Value:
        """The first operand; an error when the program runs and the second is true for an element."""

    def exp(self, x: Operand, /) -> Value:
        """Exponential."""

    def exp2(self, x: Operand, /) -> Value:
        """Two to the power x."""

    def expm1(self, x: Operand, /) -> Value:
        """exp(x) - 1, exact near 0."""

    def fft(self, x: Operand, /, *, axes: tuple[int, ...], inverse: bool, norm: str) -> Value:
        """The discrete Fourier transform over axes of a complex array, or its inverse."""

    def float_bits(self, x: Operand, /) -> Value:
        """The bits of a float32 or float64 number as a signed integer of the same width."""

    def floor(self, x: Operand, /) -> Value:
        """Rounding down."""

    def floor_divide(self, x: Operand, y: Operand, /) -> Value:
        """Quotient rounded down; an integer divided by 0 is 0."""

    def fmod(self, x: Operand, y: Operand, /) -> Value:
        """Remainder with the sign of the first operand."""

    def fused(self, *args: Operand, body: Graph, anchor: str) -> Value | tuple[Value, ...]:
        """The operations of its body, computed by one kernel."""

    def gammainc(self, x: Operand, y: Operand, /) -> Value:
        """The regularized lower incomplete gamma function of a and x; nan for negative ones."""

    def gammainc_slope(self, x: Operand, y: Operand, /, *, order: int) -> Value:
        """The derivative of gammainc(a, x) along a of an order from 1 on."""

    def gammaincc(self, x: Operand, y: Operand, /) -> Value:
        """1 - gammainc(a, x), with all its digits where it is small."""

    def gather(self, *args: Operand) -> Value:
        """Elements at indices: one index array for each leading axis of the first operand."""

    def gcd(self, x: Operand, y: Operand, /) -> Value:
        """The greatest common divisor, not negative; of x and 0 it is |x|."""

    def ge(self, x: Operand, y: Operand, /) -> Value:
        """Whether x >= y."""

    def geqrf(self, x: Operand, /) -> tuple[Value, Value]:
        """The triangular factor of a matrix, with the vectors of reflections below it; their scales."""

    def gt(self, x: Operand, y: Operand, /) -> Value:
        """Whether x > y."""

    def householder_product(self, x: Operand, y: Operand, /) -> Value:
        """The first columns of the product of the reflections of geqrf."""

    def hypot(self, x: Operand, y: Operand, /) -> Value:
        """sqrt(x*x + y*y); the derivative at 0 is 0."""

    def i0(self, x: Operand, /) -> Value:
        """Modified Bessel function of the first kind, order 0."""

    def i0e(self, x: Operand, /) -> Value:
        """exp(-abs(x)) i0(x); the derivative at 0 is 0."""

    def i1(self, x: Operand, /) -> Value:
        """Modified Bessel function of the first kind, order 1."""

    def i1e(self, x: Operand, /) -> Value:
        """exp(-abs(x)) i1(x)."""

    def imag(self, x: Operand, /) -> Value:
        """The imaginary part of complex numbers."""

    def input(self, *args: Operand, name: str) -> tuple[()]:
        """An argument of the program; made by Graph.add_input."""

    def interleave(self, *args: Operand) -> Value:
        """Arrays of one shape stacked along a new last axis."""

    def iota(self, /, *, size: DimLike, dtype: DType) -> Value:
        """0, 1, 2, ... along one axis."""

    def irfft(self, x: Operand, /, *, size: DimLike, norm: str) -> Value:
        """The real array of a number of points whose spectrum begins with the last axis."""

    def le(self, x: Operand, y: Operand, /) -> Value:
        """Whether x <= y."""

    def lgamma(self, x: Operand, /) -> Value:
        """log(abs(gamma(x))); infinite at 0 and negative integers."""

    def literal(self, /, *, value: Number, dtype: DType) -> Value:
        """A number of the program, as a 0-d array."""

    def log(self, x: Operand, /) -> Value:
        """Natural logarithm."""

    def log10(self, x: Operand, /) -> Value:
        """Logarithm to base 10."""

    def log1p(self, x: Operand, /) -> Value:
        """log(1 + x), exact near 0."""

    def log2(self, x: Operand, /) -> Value:
        """Logarithm to base 2."""

    def logaddexp(self, x: Operand, y: Operand, /) -> Value:
        """log(exp(x) + exp(y))."""

    def logaddexp2(self, x: Operand, y: Operand, /) -> Value:
        """log2(2**x + 2**y)."""

    def lt(self, x: Operand, y: Operand, /) -> Value:
        """Whether x < y."""

    def matmul(self, x: Operand, y: Operand, /) -> Value:
        """Matrix products of the last two axes, one for each index of the equal leading axes."""

    def matmul_integer(self, x: Operand, y: Operand, /) -> Value:
        """Matrix products of bytes, u8 by i8, whose sums are i32 and wrap (MatMulInteger)."""

    def maximum(self, x: Operand, y: Operand, /) -> Value:
        """The larger; nan if either is; the derivative is shared on ties."""

    def minimum(self, x: Operand, y: Operand, /) -> Value:
        """The smaller; nan if either is; the derivative is shared on ties."""

    def mul(self, x: Operand, y: Operand, /) -> Value:
        """Product."""

    def ne(self, x: Operand, y: Operand, /) -> Value:
        """Whether x != y."""

    def neg(self, x: Operand, /) -> Value:
        """Negation."""

    def of_parts(self, x: Operand, /) -> Value:
        """Complex numbers of the pairs along the last axis; the same memory."""

    def optimization_barrier(self, x: Operand, /) -> Value:
        """Its argument, as a separate value: no pass merges its descendants with those of the argument."""

    def order_statistics(self, x: Operand, y: Operand, /) -> Value:
        """The elements of the last axis that have the ranks of the second operand when it is sorted in ascending order;
        nan is the largest.
        """

    def overlap_add(
        self,
        x: Operand,
        /,
        *,
        size: Sequence[DimLike],
        stride: Sequence[DimLike],
        dilation: tuple[int, ...],
    ) -> Value:
        """The sum of overlapping windows in an array of a size."""

    def pad(
        self,
        x: Operand,
        y: Operand,
        /,
        *,
        low: Sequence[DimLike],
        high: Sequence[DimLike],
        interior: tuple[int, ...],
    ) -> Value:
        """Puts the second operand (0-d) before, after and between the elements of the first."""

    def part(self, x: Operand, /, *, which: int) -> Value:
        """The elements at one index of the last axis."""

    def polygamma(self, x: Operand, /, *, order: int) -> Value:
        """The derivative of digamma of an order from 1 on."""

    def power(self, x: Operand, y: Operand, /) -> Value:
        """x to the power y; d/dy is 0 where x <= 0; integers wrap, negative exponents give 0, 1 or -1."""

    def prefix(self, x: Operand, /, *, size: DimLike) -> Value:
        """The first slices along the first axis, in the same memory."""

    def prod_others(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """For each element the product of all others along axes."""

    def qr(self, x: Operand, /) -> tuple[Value, Value]:
        """A matrix with orthonormal columns and an upper triangular one, whose product is the operand."""

    def real(self, x: Operand, /) -> Value:
        """The real part of complex numbers."""

    def recurrence(self, x: Operand, y: Operand, /, *, axis: int, reverse: bool) -> Value:
        """y[i] = x[i] * y[i - 1] + z[i] for factors x and terms z, where y[-1] is 0."""

    def reduce_and(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """Whether all are true (bool), the bits that all have (integers)."""

    def reduce_max(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """Maximum over axes; nan if any is; the derivative is shared on ties."""

    def reduce_min(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """Minimum over axes; nan if any is; the derivative is shared on ties."""

    def reduce_or(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """Whether any is true (bool), the bits that any has (integers)."""

    def reduce_prod(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """Product over axes."""

    def reduce_sum(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """Sum over axes."""

    def remainder(self, x: Operand, y: Operand, /) -> Value:
        """Remainder with the sign of the divisor; modulo 0 is 0 (nan for floats)."""

    def reshape(self, x: Operand, /, *, shape: Sequence[DimLike]) -> Value:
        """The same elements in row-major order under another shape."""

    def reverse(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """The order of elements reversed along some axes."""

    def rfft(self, x: Operand, /, *, norm: str) -> Value:
        """The first half of the discrete Fourier transform over the last axis of a real array."""

    def round(self, x: Operand, /) -> Value:
        """Rounding to the nearest integer, ties to even."""

    def saved(self, x: Operand, /) -> Value:
        """Its argument, marked to be saved for the derivative of the checkpointed function that it is in."""

    def scaled_matmul(self, x: Operand, y: Operand, z: Operand, w: Operand, /, *, bits: int, group: int) -> Value:
        """Matrix products of i8 by levels of 4 or 8 bits, with scales for groups of terms."""

    def scan(
        self, *args: Operand, body: Graph, length: DimLike, captured: int, carried: int, reverse: bool, index: str
    ) -> Value | tuple[Value, ...]:
        """Repeats its body, passing carried values on, over the slices of arrays along their first axis."""

    def scatter_add(self, *args: Operand) -> Value:
        """The first operand with the second added at indices, one index array a leading axis; indices may repeat, in
        order.
        """

    def scatter_max(self, *args: Operand) -> Value:
        """The larger of the first operand and the second at indices, nan if any is, one index array a leading axis;
        indices may repeat, in order.
        """

    def scatter_min(self, *args: Operand) -> Value:
        """The smaller of the first operand and the second at indices, nan if any is, one index array a leading axis;
        indices may repeat, in order.
        """

    def scatter_mul(self, *args: Operand) -> Value:
        """The first operand multiplied by the second at indices, one index array a leading axis; indices may repeat, in
        order.
        """

    def scatter_set(self, *args: Operand) -> Value:
        """The first operand with the second written over it at indices, one index array a leading axis; indices may
        repeat, in order.
        """

    def searchsorted(self, x: Operand, y: Operand, /, *, right: bool) -> Value:
        """For each value how many elements of a sorted last axis are below it, right: not above; nan is the largest."""

    def shift_left(self, x: Operand, y: Operand, /) -> Value:
        """x * 2**y; 0 when y is not below the width."""

    def shift_right(self, x: Operand, y: Operand, /) -> Value:
        """x // 2**y (arithmetic for signed x); its sign when y is not below the width."""

    def sigmoid(self, x: Operand, /) -> Value:
        """Logistic function 1 / (1 + exp(-x))."""

    def sign(self, x: Operand, /) -> Value:
        """-1, 0 or 1; nan for nan."""

    def sin(self, x: Operand, /) -> Value:
        """Sine of an angle in radians."""

    def sinh(self, x: Operand, /) -> Value:
        """Hyperbolic sine."""

    def size(self, /, *, value: DimLike) -> Value:
        """A symbolic size as a 0-d int64 array."""

    def sized(self, *args: Operand, body: Graph, index: str, most: DimLike) -> Value | tuple[Value, ...]:
        """Its body, in which the size ``index`` is the first operand, from 0 to ``most``."""

    def slice(
        self,
        x: Operand,
        /,
        *,
        start: Sequence[DimLike],
        stop: Sequence[DimLike],
        step: tuple[int, ...],
    ) -> Value:
        """start:stop:step of every axis, inside the operand, with positive steps."""

    def slogdet(self, x: Operand, /) -> tuple[Value, Value]:
        """The sign of the determinant and the logarithm of its magnitude."""

    def solve(self, x: Operand, y: Operand, /) -> Value:
        """The matrices X of A X = Y for square matrices A."""

    def sort(self, x: Operand, /, *, descending: bool) -> tuple[Value, Value]:
        """The elements of the last axis in ascending or descending order, and their indices in it; equal elements keep
        their order, nan is the largest.
        """

    def sqrt(self, x: Operand, /) -> Value:
        """Square root."""

    def stop_gradient(self, x: Operand, /) -> Value:
        """Its argument, without derivative."""

    def sub(self, x: Operand, y: Operand, /) -> Value:
        """Difference."""

    def svd(self, x: Operand, /) -> tuple[Value, Value, Value]:
        """Left singular vectors as columns, singular values, descending, and right singular vectors as rows, conjugate:
        as many as the smaller side has.
        """

    def svdvals(self, x: Operand, /) -> Value:
        """The singular values of svd."""

    def switch(self, *args: Operand, branches: tuple[Graph, ...]) -> Value | tuple[Value, ...]:
        """One of its branches, chosen by an index."""

    def take(self, x: Operand, y: Operand, /, *, axis: int) -> Value:
        """Slices of the first operand along an axis, at the indices that the second gives."""

    def tan(self, x: Operand, /) -> Value:
        """Tangent of an angle in radians."""

    def tanh(self, x: Operand, /) -> Value:
        """Hyperbolic tangent."""

    def threefry2x32(self, x: Operand, y: Operand, /) -> Value:
        """The word to which Threefry-2x32-20 maps a word y under the key x; a word is two halves of 32 bits, the first
        one high (Salmon, Moraes, Dror and Shaw, 2011).
        """

    def token(self, *args: Operand) -> Value:
        """The first token of a program."""

    def top_k(self, x: Operand, /, *, k: DimLike, largest: bool) -> tuple[Value, Value]:
        """The k largest or smallest elements of the last axis, best first, and their indices in the operand; of equal
        elements the first, nan is the largest.
        """

    def transpose(self, x: Operand, /, *, axes: tuple[int, ...]) -> Value:
        """Axis i of the result is axis axes[i] of the operand."""

    def true_indices(self, x: Operand, /, *, size: DimLike) -> Value:
        """The indices of the first true elements of the last axis, then 0."""

    def trunc(self, x: Operand, /) -> Value:
        """Rounding towards zero."""

    def update_slice(
        self,
        x: Operand,
        y: Operand,
        /,
        *,
        start: Sequence[DimLike],
        stop: Sequence[DimLike],
        step: tuple[int, ...],
    ) -> Value:
        """The first operand with the second over start:stop:step of every axis, inside of it."""

    def weight(self, /, *, name: str, dtype: DType, shape: Sequence[DimLike]) -> Value:
        """An array that the program knows by name only: its contents may change between calls."""

    def where(self, x: Operand, y: Operand, z: Operand, /) -> Value:
        """The second operand where the first is true, else the third."""

    def while_loop(
        self,
        *args: Operand,
        condition: Graph,
        body: Graph,
        condition_captured: int,
        body_captured: int,
        index: str,
        most: DimLike,
    ) -> Value | tuple[Value, ...]:
        """Repeats its body, passing carried values on, while its condition holds for them."""

    def windows(
        self,
        x: Operand,
        /,
        *,
        window: Sequence[DimLike],
        stride: Sequence[DimLike],
        dilation: tuple[int, ...],
    ) -> Value:
        """All windows of the last axes: their numbers along these axes, then their elements."""

    def wrapped(self, x: Operand, /, *, size: DimLike) -> Value:
        """Indices counted from the start of an axis, as int64: negative ones count from its end."""
