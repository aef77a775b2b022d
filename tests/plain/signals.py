"""Transforms, filters, images and fractals."""

import numpy as np

from tests.plain.program import Program


def dft(x):
    N = len(x)
    X = np.zeros(N, dtype=complex)
    for k in range(N):
        for n in range(N):
            X[k] += x[n] * np.exp(-2j * np.pi * k * n / N)
    return X


def fft_radix2(x):
    """In place: bits reversed, then butterflies of doubling length."""
    n = len(x)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            x[i], x[j] = x[j], x[i]
    length = 2
    while length <= n:
        w = np.exp(-2j * np.pi / length)
        half = length // 2
        for start in range(0, n, length):
            f = 1.0 + 0j
            for k in range(half):
                u = x[start + k]
                v = x[start + k + half] * f
                x[start + k] = u + v
                x[start + k + half] = u - v
                f = f * w
        length *= 2


def fft_recursive(x):
    N = x.shape[0]
    if N <= 2:
        k = np.arange(N)
        return np.exp(-2j * np.pi * k.reshape((N, 1)) * k / N) @ x
    even = fft_recursive(x[::2])
    odd = fft_recursive(x[1::2])
    f = np.exp(-2j * np.pi * np.arange(N) / N)
    return np.concatenate([even + f[: N // 2] * odd, even + f[N // 2 :] * odd])


def fft_stockham(x):
    """Autosort: no bits are reversed."""
    n = x.shape[0]
    y = x.copy()
    l, m = n // 2, 1
    while l >= 1:
        y = y.reshape(2, l, m)
        w = np.exp(-1j * np.pi * np.arange(l) / l)
        a, b = y[0], y[1]
        y = np.stack([a + b, (a - b) * w[:, None]], axis=1).reshape(-1)
        y = y.reshape(l, 2, m).reshape(n)
        l, m = l // 2, 2 * m
    return y


def convolve(x, k):
    n, m = len(x), len(k)
    y = np.zeros(n - m + 1)
    for i in range(n - m + 1):
        for j in range(m):
            y[i] += x[i + j] * k[j]
    return y


def convolve_2d(image, kernel):
    H, W = image.shape
    K = kernel.shape[0]
    out = np.zeros((H - K + 1, W - K + 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(image[i : i + K, j : j + K] * kernel)
    return out


def iir_filter(b, a, x):
    y = np.zeros_like(x)
    for n in range(len(x)):
        for i in range(len(b)):
            if n - i >= 0:
                y[n] += b[i] * x[n - i]
        for i in range(1, len(a)):
            if n - i >= 0:
                y[n] -= a[i] * y[n - i]
        y[n] /= a[0]
    return y


def biquad(x, b0, b1, b2, a1, a2):
    z1 = z2 = 0.0
    out = np.empty_like(x)
    for i, v in enumerate(x):
        y = b0 * v + z1
        z1 = b1 * v - a1 * y + z2
        z2 = b2 * v - a2 * y
        out[i] = y
    return out


def goertzel(x, k):
    w = 2 * np.pi * k / len(x)
    c = 2 * np.cos(w)
    s1 = s2 = 0.0
    for v in x:
        s0 = v + c * s1 - s2
        s2 = s1
        s1 = s0
    return s1 * s1 + s2 * s2 - c * s1 * s2


def moving_average(x, w):
    out = np.zeros(len(x) - w + 1)
    s = 0.0
    for i in range(len(x)):
        s += x[i]
        if i >= w:
            s -= x[i - w]
        if i >= w - 1:
            out[i - w + 1] = s / w
    return out


def median_filter(x):
    """The median of three neighbours, ends left alone."""
    y = x.copy()
    for i in range(1, len(x) - 1):
        a, b, c = x[i - 1], x[i], x[i + 1]
        if a > b:
            a, b = b, a
        if b > c:
            b, c = c, b
        if a > b:
            a, b = b, a
        y[i] = b
    return y


def image_histogram(image):
    h = np.zeros(256, dtype=int)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            h[image[i, j]] += 1
    return h


def equalize(image):
    """Histogram equalisation, with the histogram counted by a loop over the pixels."""
    h = np.zeros(16)
    for v in image.ravel():
        h[v] += 1
    cdf = np.cumsum(h) / image.size
    return cdf[image]


def weighted_bins(x, weights, bins):
    out = np.zeros(bins)
    lo, hi = x.min(), x.max()
    for i in range(x.shape[0]):
        b = int((x[i] - lo) / (hi - lo) * bins)
        if b == bins:
            b -= 1
        out[b] += weights[i]
    return out


def threshold(image, level):
    out = np.zeros(image.shape, dtype=np.uint8)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            out[i, j] = 255 if image[i, j] > level else 0
    return out


def bilinear(image, height, width):
    """An image of another size, by linear interpolation."""
    out = np.zeros((height, width))
    sy = (image.shape[0] - 1) / (height - 1)
    sx = (image.shape[1] - 1) / (width - 1)
    for i in range(height):
        for j in range(width):
            y, x = i * sy, j * sx
            y0, x0 = int(y), int(x)
            y1, x1 = min(y0 + 1, image.shape[0] - 1), min(x0 + 1, image.shape[1] - 1)
            fy, fx = y - y0, x - x0
            top = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
            bottom = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
            out[i, j] = top * (1 - fy) + bottom * fy
    return out


def mandelbrot_loops(xs, ys, limit):
    out = np.zeros((len(ys), len(xs)), dtype=np.int64)
    for i, y in enumerate(ys):
        for j, x in enumerate(xs):
            c = complex(x, y)
            z = 0j
            for k in range(limit):
                if z.real * z.real + z.imag * z.imag > 4.0:
                    break
                z = z * z + c
                out[i, j] += 1
    return out


def mandelbrot_masks(xmin, xmax, ymin, ymax, n, limit, horizon=2.0):
    X = np.linspace(xmin, xmax, n)
    Y = np.linspace(ymin, ymax, n)
    C = X + Y[:, None] * 1j
    N = np.zeros(C.shape, dtype=np.int64)
    Z = np.zeros(C.shape, dtype=np.complex128)
    for k in range(limit):
        I = np.less(abs(Z), horizon)
        N[I] = k
        Z[I] = Z[I] ** 2 + C[I]
    N[N == limit - 1] = 0
    return Z, N


def julia(n, c):
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            z = complex(-1.5 + 3.0 * i / n, -1.5 + 3.0 * j / n)
            k = 0
            while abs(z) < 2 and k < 30:
                z = z * z + c
                k += 1
            out[i, j] = k
    return out


def contour_integral(n):
    """The integral of 1 / z around the circle, and of z."""
    total = 0j
    other = 0j
    for k in range(n):
        t0 = 2 * np.pi * k / n
        t1 = 2 * np.pi * (k + 1) / n
        z0, z1 = np.exp(1j * t0), np.exp(1j * t1)
        mid = 0.5 * (z0 + z1)
        total += (z1 - z0) / mid
        other += (z1 - z0) * mid
    return total, other


def haar(x):
    """The Haar transform of a signal whose length is a power of two."""
    y = x.copy()
    t = np.zeros_like(x)
    n = len(x)
    while n > 1:
        n = n // 2
        for i in range(n):
            t[i] = (y[2 * i] + y[2 * i + 1]) / 2
            t[n + i] = (y[2 * i] - y[2 * i + 1]) / 2
        for i in range(2 * n):
            y[i] = t[i]
    return y


def dither(image):
    """Floyd-Steinberg: errors go to neighbours that come later."""
    h, w = image.shape
    for y in range(h):
        for x in range(w):
            old = image[y, x]
            new = 1.0 if old > 0.5 else 0.0
            image[y, x] = new
            err = old - new
            if x + 1 < w:
                image[y, x + 1] += err * 7 / 16
            if y + 1 < h:
                if x > 0:
                    image[y + 1, x - 1] += err * 3 / 16
                image[y + 1, x] += err * 5 / 16
                if x + 1 < w:
                    image[y + 1, x + 1] += err / 16


HALVES = "the lengths of arrays halve until one is left, so it is unrolled for each size"
PROGRAMS = [
    Program(dft, lambda n, rng: (rng.random(n),)),
    Program(fft_radix2, lambda n, rng: (rng.random(n) + 1j * rng.random(n),), (8, 16, 32)),
    Program(fft_recursive, lambda n, rng: (rng.random(n),), (4, 8, 16), several=HALVES, largest=64),
    Program(fft_stockham, lambda n, rng: (rng.random(n) + 1j * rng.random(n),), (4, 8, 16), several=HALVES),
    Program(convolve, lambda n, rng: (rng.random(2 * n), rng.random(n)), smooth=(0, 1)),
    Program(convolve_2d, lambda n, rng: (rng.random((n, n + 1)), rng.random((3, 3))), smooth=(0, 1)),
    Program(iir_filter, lambda n, rng: (rng.random(3), rng.random(4) + [4, 0, 0, 0], rng.random(n)), smooth=(0, 2)),
    Program(biquad, lambda n, rng: (rng.random(n), 0.2, 0.3, 0.1, -0.4, 0.2), smooth=(0, 1)),
    Program(goertzel, lambda n, rng: (rng.random(n), 3), smooth=(0,)),
    Program(moving_average, lambda n, rng: (rng.random(n), 4), smooth=(0,)),
    Program(median_filter, lambda n, rng: (rng.random(n),)),
    Program(image_histogram, lambda n, rng: (rng.integers(0, 256, (n, n + 1)),)),
    Program(equalize, lambda n, rng: (rng.integers(0, 16, (n, n + 1)),)),
    Program(weighted_bins, lambda n, rng: (rng.random(3 * n), rng.random(3 * n), n)),
    Program(threshold, lambda n, rng: (rng.random((n, n + 1)), 0.4)),
    Program(bilinear, lambda n, rng: (rng.random((n, n + 1)), n + 3, n + 4), smooth=(0,)),
    Program(mandelbrot_loops, lambda n, rng: (np.linspace(-2, 1, n), np.linspace(-1, 1, n + 1), 30)),
    Program(mandelbrot_masks, lambda n, rng: (-1.75, 0.25, -1.0, 1.0, n, 20)),
    Program(julia, lambda n, rng: (n, -0.7 + 0.27j)),
    Program(contour_integral, lambda n, rng: (n,)),
    Program(haar, lambda n, rng: (rng.random(n),), (8, 16, 32)),
    Program(dither, lambda n, rng: (rng.random((n, n + 1)),)),
]
