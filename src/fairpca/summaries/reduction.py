"""Merges the delayed values of blocks into one value by a tree, with Dask's scheduler in use.

The tree is fixed by the order of the blocks, so that neither the number of workers nor the loss of
one changes a digit. Large values whose order does not matter beyond rounding are better joined on
each worker first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fairpca.data.dask_input import dask_module

_TREE_WIDTH = 4


def compute(nodes: Sequence[Any]) -> tuple[Any, ...]:
    """Run a graph with Dask's current scheduler."""
    with _large_graphs():
        results: tuple[Any, ...] = dask_module().compute(*nodes)
    return results


def _large_graphs() -> AbstractContextManager[Any]:
    # The thin matrix that all blocks are multiplied with may exceed Dask's threshold for a warning.
    if (
        "distributed" not in sys.modules
    ):  # if imported within the context, its defaults would be lost
        return nullcontext()
    threshold = {"distributed.admin.large-graph-warning-threshold": "4GiB"}
    changed: AbstractContextManager[Any] = dask_module().config.set(threshold)
    return changed


def tree_reduce(nodes: Sequence[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """Join delayed values by a tree of merges, in order, and return the result."""
    join = dask_module().delayed(merge)
    nodes = list(nodes)
    while len(nodes) > 1:
        nodes = [
            join(nodes[i : i + _TREE_WIDTH]) if i + 1 < len(nodes) else nodes[i]
            for i in range(0, len(nodes), _TREE_WIDTH)
        ]
    return compute(nodes)[0]


def local_reduce(nodes: Sequence[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """Join delayed values on the workers where they are, and only then across workers.

    For large values whose order does not matter: at most a few for each worker travel. Without a
    distributed scheduler this is `tree_reduce`.
    """
    client = _client()
    if client is None:
        return tree_reduce(nodes, merge)
    with _large_graphs():
        pending = dask_module("distributed").as_completed(client.compute(list(nodes)))
    here: dict[Any, list[Any]] = {}

    def join(values: list[Any], worker: Any) -> Any:
        place = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        return client.submit(merge, values, pure=False, **place)

    for batch in pending.batches():
        failed = [future for future in batch if future.status == "error"]
        if failed:
            failed[0].result()
        holders = client.who_has(batch)
        for future in batch:
            worker = next(iter(holders.get(future.key, ())), None)
            group = here.setdefault(worker, [])
            group.append(future)
            if len(group) == _TREE_WIDTH:
                pending.add(join(here.pop(worker), worker))
    left = [join(group, worker) for worker, group in here.items()]
    while len(left) > 1:
        left = [join(left[i : i + _TREE_WIDTH], None) for i in range(0, len(left), _TREE_WIDTH)]
    return left[0].result()


def _client() -> Any:
    """Return the client of a distributed scheduler, if one is in use, or None."""
    scheduler = dask_module("dask.base").get_scheduler()
    client: Any = getattr(scheduler, "__self__", None)
    if client is None or not type(client).__module__.startswith("distributed"):
        return None
    return None if client.asynchronous else client
