"""Sequences and integers: dynamic programming, sorting, checksums."""

import numpy as np

from tests.plain.program import Program


def edit_distance(a, b):
    n, m = len(a), len(b)
    D = np.zeros((n + 1, m + 1), dtype=np.int64)
    for i in range(n + 1):
        D[i, 0] = i
    for j in range(m + 1):
        D[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + cost)
    return D[n, m]


def common_subsequence(a, b):
    L = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if x == y:
                L[i + 1, j + 1] = L[i, j] + 1
            else:
                L[i + 1, j + 1] = max(L[i + 1, j], L[i, j + 1])
    return L[-1, -1]


def match(b1, b2):
    if b1 + b2 == 3:
        return 1
    else:
        return 0


def nussinov(seq):
    """The table of a folding with the most pairs."""
    N = len(seq)
    table = np.zeros((N, N), np.int32)
    for i in range(N - 1, -1, -1):
        for j in range(i + 1, N):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < N:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < N:
                if i < j - 1:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + match(seq[i], seq[j]))
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1)
    for i in range(len(weights)):
        for c in range(capacity, weights[i] - 1, -1):
            best[c] = max(best[c], best[c - weights[i]] + values[i])
    return best[capacity]


def smith_waterman(a, b, gap=2):
    H = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    best = 0
    for i in range(1, H.shape[0]):
        for j in range(1, H.shape[1]):
            score = 3 if a[i - 1] == b[j - 1] else -3
            H[i, j] = max(0, H[i - 1, j - 1] + score, H[i - 1, j] - gap, H[i, j - 1] - gap)
            if H[i, j] > best:
                best = H[i, j]
    return best


def crc32(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc ^ byte
        for _ in range(8):
            if crc & 1:
                crc = (crc >> 1) ^ 0xEDB88320
            else:
                crc = crc >> 1
    return crc ^ 0xFFFFFFFF


def adler32(data):
    a, b = 1, 0
    for byte in data:
        a = (a + byte) % 65521
        b = (b + a) % 65521
    return (b << 16) | a


def coin_change(coins, amount):
    """The least number of coins, -1 where no coins have that amount."""
    dp = [0] + [10**9] * 30
    dp = np.array(dp)
    for x in range(1, 31):
        for c in coins:
            if c <= x:
                dp[x] = min(dp[x], dp[x - c] + 1)
    return dp[amount] if dp[amount] < 10**9 else -1


def longest_increasing(x):
    n = len(x)
    length = np.ones(n, dtype=int)
    for i in range(n):
        for j in range(i):
            if x[j] < x[i] and length[j] + 1 > length[i]:
                length[i] = length[j] + 1
    return length.max()


def maximum_subarray(x):
    best = current = x[0]
    start = end = s = 0
    for i in range(1, len(x)):
        if current < 0:
            current = x[i]
            s = i
        else:
            current += x[i]
        if current > best:
            best = current
            start, end = s, i
    return best, start, end


def sieve(n):
    p = np.ones(n + 1, dtype=bool)
    p[0] = p[1] = False
    i = 2
    while i * i <= n:
        if p[i]:
            for k in range(i * i, n + 1, i):
                p[k] = False
        i += 1
    return p.sum()


def binary_search(x, target):
    lo, hi = 0, len(x) - 1
    while lo <= hi:
        mid = (lo + hi) // 2
        if x[mid] == target:
            return mid
        if x[mid] < target:
            lo = mid + 1
        else:
            hi = mid - 1
    return -1


def bubble_sort(x):
    n = len(x)
    for i in range(n):
        swapped = False
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
                swapped = True
        if not swapped:
            break


def insertion_sort(x):
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return x


def heap_sort(x):
    n = len(x)
    for start in range(n // 2 - 1, -1, -1):
        sift(x, start, n)
    for end in range(n - 1, 0, -1):
        x[0], x[end] = x[end], x[0]
        sift(x, 0, end)


def sift(x, root, end):
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and x[child] < x[child + 1]:
            child += 1
        if x[root] >= x[child]:
            break
        x[root], x[child] = x[child], x[root]
        root = child


def collatz(limit):
    """The number below a limit with the longest sequence."""
    best, best_length = 1, 1
    for n in range(2, limit):
        length, k = 1, n
        while k != 1:
            k = k // 2 if k % 2 == 0 else 3 * k + 1
            length += 1
        if length > best_length:
            best, best_length = n, length
    return best, best_length


def gcds(a, b):
    out = np.zeros_like(a)
    for i in range(len(a)):
        x, y = a[i], b[i]
        while y:
            x, y = y, x % y
        out[i] = x
    return out


def count_inversions(x):
    n = 0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            n += x[i] > x[j]
    return n


def run_lengths(x, out):
    """The lengths of runs of equal elements; how many there are."""
    k = 0
    count = 1
    for i in range(1, len(x)):
        if x[i] == x[i - 1]:
            count += 1
        else:
            out[k] = count
            k += 1
            count = 1
    out[k] = count
    return k + 1


def queens(n):
    """How many ways eight queens or fewer stand on a board, by a stack of columns."""
    column = np.zeros(8, dtype=int)
    row, found = 0, 0
    column[0] = -1
    while row >= 0:
        column[row] += 1
        if column[row] >= n:
            row -= 1
            continue
        free = True
        for r in range(row):
            if column[r] == column[row] or abs(column[r] - column[row]) == row - r:
                free = False
                break
        if not free:
            continue
        if row == n - 1:
            found += 1
        else:
            row += 1
            column[row] = -1
    return found


def permutations_of_digits(x):
    """Python's own lists over numbers known while tracing."""
    total = 0.0
    weights = []
    for k in range(4):
        weights.append(1.0 / (k + 1))
    for w in weights:
        total = total + w * x
    return total


PROGRAMS = [
    Program(edit_distance, lambda n, rng: (rng.integers(0, 4, n), rng.integers(0, 4, n + 2))),
    Program(common_subsequence, lambda n, rng: (rng.integers(0, 4, n), rng.integers(0, 4, n + 2))),
    Program(nussinov, lambda n, rng: (rng.integers(0, 4, n),)),
    Program(knapsack, lambda n, rng: (rng.integers(1, 6, n), rng.random(n), 2 * n)),
    Program(smith_waterman, lambda n, rng: (rng.integers(0, 4, n), rng.integers(0, 4, n + 2))),
    Program(crc32, lambda n, rng: (rng.integers(0, 256, n),)),
    Program(adler32, lambda n, rng: (rng.integers(0, 256, n),)),
    Program(coin_change, lambda n, rng: (np.array([2, 5, 7]), n)),
    Program(longest_increasing, lambda n, rng: (rng.random(n),)),
    Program(maximum_subarray, lambda n, rng: (rng.normal(size=n),)),
    Program(sieve, lambda n, rng: (3 * n,)),
    Program(binary_search, lambda n, rng: (np.sort(rng.integers(0, 50, n)), 20)),
    Program(bubble_sort, lambda n, rng: (rng.random(n),)),
    Program(insertion_sort, lambda n, rng: (rng.random(n),)),
    Program(heap_sort, lambda n, rng: (rng.random(n),)),
    Program(collatz, lambda n, rng: (n,)),
    Program(gcds, lambda n, rng: (rng.integers(1, 100, n), rng.integers(1, 100, n))),
    Program(count_inversions, lambda n, rng: (rng.random(n),)),
    Program(run_lengths, lambda n, rng: (rng.integers(0, 2, n), np.zeros(n, dtype=int))),
    Program(queens, lambda n, rng: (n,), (4, 5, 6)),
    Program(permutations_of_digits, lambda n, rng: (rng.random(n),), smooth=(0,)),
]
