"""Graphs as matrices: shortest paths, ranks, trees, components."""

import numpy as np

from tests.plain.program import Program


def floyd_warshall(d):
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]


def floyd_warshall_outer(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


def pagerank(M, damping, tol):
    n = M.shape[0]
    r = np.ones(n) / n
    err = 1.0
    turns = 0
    while err > tol:
        new = damping * M @ r + (1 - damping) / n
        err = np.abs(new - r).sum()
        r = new
        turns += 1
    return r, turns


def bellman_ford(sources, targets, weights, n, start):
    """Distances by relaxing all edges; whether there is a negative cycle."""
    dist = np.full(n, np.inf)
    dist[start] = 0.0
    for _ in range(n - 1):
        changed = False
        for e in range(len(weights)):
            u, v = sources[e], targets[e]
            if dist[u] + weights[e] < dist[v]:
                dist[v] = dist[u] + weights[e]
                changed = True
        if not changed:
            break
    for e in range(len(weights)):
        if dist[sources[e]] + weights[e] < dist[targets[e]]:
            return dist, True
    return dist, False


def dijkstra(W, start):
    n = W.shape[0]
    dist = np.full(n, np.inf)
    done = np.zeros(n, dtype=bool)
    dist[start] = 0
    for _ in range(n):
        best = -1
        for i in range(n):
            if not done[i] and (best == -1 or dist[i] < dist[best]):
                best = i
        done[best] = True
        for j in range(n):
            if W[best, j] > 0 and dist[best] + W[best, j] < dist[j]:
                dist[j] = dist[best] + W[best, j]
    return dist


def prim(W):
    """The weight of the minimum spanning tree, and its edges."""
    n = len(W)
    key = np.full(n, 1e18)
    parent = np.full(n, -1)
    used = np.zeros(n, dtype=bool)
    key[0] = 0
    total = 0.0
    for _ in range(n):
        u = np.argmin(np.where(used, np.inf, key))
        used[u] = True
        total += key[u]
        for v in range(n):
            if not used[v] and W[u, v] < key[v]:
                key[v] = W[u, v]
                parent[v] = u
    return total, parent


def breadth_first(adj, start):
    """The distance of each node in edges, with a queue in an array."""
    n = adj.shape[0]
    level = -np.ones(n, dtype=np.int64)
    queue = np.zeros(n, dtype=np.int64)
    head, tail = 0, 1
    queue[0] = start
    level[start] = 0
    while head < tail:
        u = queue[head]
        head += 1
        for v in range(n):
            if adj[u, v] and level[v] < 0:
                level[v] = level[u] + 1
                queue[tail] = v
                tail += 1
    return level


def components(adj):
    """The smallest node of each component, by labels that spread until nothing changes."""
    labels = np.arange(adj.shape[0])
    while True:
        new = np.where(adj, labels[None, :], labels[:, None]).min(axis=1)
        new = np.minimum(new, labels)
        if (new == labels).all():
            return labels
        labels = new


def union_find(a, b, n):
    """Components by union of sets with path halving; how many there are."""
    parent = np.arange(n)
    count = n
    for e in range(len(a)):
        x = a[e]
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        y = b[e]
        while parent[y] != y:
            parent[y] = parent[parent[y]]
            y = parent[y]
        if x != y:
            parent[x] = y
            count -= 1
    return count


def triangles(adj):
    n = adj.shape[0]
    found = 0
    for i in range(n):
        for j in range(i + 1, n):
            if not adj[i, j]:
                continue
            for k in range(j + 1, n):
                if adj[i, k] and adj[j, k]:
                    found += 1
    return found


def topological_order(adj):
    """Kahn's algorithm; None of the nodes twice."""
    n = len(adj)
    degree = adj.sum(axis=0)
    order = np.zeros(n, dtype=int)
    removed = np.zeros(n, dtype=bool)
    for t in range(n):
        for i in range(n):
            if degree[i] == 0 and not removed[i]:
                break
        order[t] = i
        removed[i] = True
        degree -= adj[i]
    return order


def _edges(n, rng):
    return rng.integers(0, n, 3 * n), rng.integers(0, n, 3 * n), rng.random(3 * n), n, 0


def _stochastic(n, rng):
    M = rng.random((n, n))
    return M / M.sum(0), 0.85, 1e-10


def _adjacency(n, rng):
    a = rng.random((n, n)) < 0.25
    return (a | a.T,)


PROGRAMS = [
    Program(floyd_warshall, lambda n, rng: (rng.random((n, n)),)),
    Program(floyd_warshall_outer, lambda n, rng: (rng.random((n, n)),)),
    Program(pagerank, _stochastic),
    Program(bellman_ford, _edges),
    Program(dijkstra, lambda n, rng: (rng.random((n, n)) * (rng.random((n, n)) < 0.4), 1)),
    Program(prim, lambda n, rng: (rng.random((n, n)),)),
    Program(breadth_first, lambda n, rng: (*_adjacency(n, rng), 2)),
    Program(components, _adjacency),
    Program(union_find, lambda n, rng: (rng.integers(0, n, n), rng.integers(0, n, n), n)),
    Program(triangles, _adjacency),
    Program(topological_order, lambda n, rng: (np.triu(rng.random((n, n)) < 0.4, 1).astype(int),)),
]
