"""The rows of a data file, split by role and encoded, as row blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fairpca.data.files.row_source import RowBlock, RowSource
from fairpca.data.files.table_source import TableSource
from fairpca.data.row_numbers import rows_from
from fairpca.data.tables.categories import UnseenValues
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.giveaways import Giveaways
from fairpca.data.tables.roles import LabelTally, Roles, TableParts, split_table


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodedTable(RowSource):
    """The rows of a file `table`, split by `roles` and encoded by a fitted `encoder`."""

    table: TableSource
    roles: Roles
    encoder: TableEncoder

    @classmethod
    def learn(
        cls,
        table: TableSource,
        roles: Roles,
        encoder: TableEncoder,
        progress: Callable[[float], None] | None = None,
    ) -> EncodedTable:
        """Fit an encoder in one pass over the file, and return the source of encoded rows.

        `progress` is called with the share of the file read, in [0, 1].
        """
        labels = LabelTally()
        giveaways = Giveaways(categorical=encoder.categorical, passed_over=roles.sensitive_columns)

        def features() -> Iterator[pa.Table]:
            for parts in _split_blocks(table, roles, progress=progress):
                labels.add(parts)
                giveaways.update(parts)
                yield parts.features
            labels.check()

        encoder.fit_blocks(features())
        giveaways.warn()
        rows = encoder.n_samples_seen_
        return cls(name=str(table.path), n_rows=rows, table=table, roles=roles, encoder=encoder)

    def identity(self) -> dict[str, Any]:
        """See `RowSource.identity`."""
        roles = self.roles
        return {
            **super().identity(),
            "features": list(roles.features),
            "sensitive features": list(roles.sensitive),
            "label": roles.label,
            "bins": {name: list(edges) for name, edges in roles.edges.items()},
            "encoding": {name: repr(v) for name, v in self.encoder.get_params().items()},
        }

    def blocks(self, start: int = 0) -> Iterator[RowBlock]:
        """See `RowSource.blocks`."""
        unseen = UnseenValues()
        n_rows = 0
        for i, parts in enumerate(self.parts()):
            if i >= start:
                with rows_from(n_rows):
                    X = self.encoder.encode(parts.features, unseen)
                yield RowBlock(X, dict(parts.sensitive), None, parts.label)
            n_rows += parts.features.num_rows

    def parts(self) -> Iterator[TableParts]:
        """Return an iterator over the blocks split by role, not yet encoded."""
        return _split_blocks(self.table, self.roles, types=self.encoder.column_types)


def _split_blocks(table: TableSource, roles: Roles, **options: Any) -> Iterator[TableParts]:
    """Yield the blocks of a file split by role; errors count rows from the start of the file."""
    n_rows = 0
    for batch in table.blocks(_columns(roles), **options):
        with rows_from(n_rows):
            parts = split_table(pa.Table.from_batches([batch]), roles)
        n_rows += batch.num_rows
        yield parts


def _columns(roles: Roles) -> list[str]:
    label = [] if roles.label_column is None else [roles.label_column]
    return list(dict.fromkeys([*roles.features, *roles.sensitive_columns, *label]))
