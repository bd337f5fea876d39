"""Columns of a DataFrame that are a log: which they are, what they hold, and a fingerprint of the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from manyhands._base.checks import COUNTS, LEAST_COUNT, MOST_COUNT, plural, preview, warn_of_data
from manyhands.categorical.shards.encoder import Rules

_IDS = (T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.BooleanType, T.DateType)
_LABELS = (*_IDS, T.FloatType, T.DoubleType)
_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType)
#: How a column of another type becomes one with the same distinct values, whatever the session's settings.
_CASTS: tuple[tuple[type[T.DataType], str], ...] = (
    (T.TimestampType, "with unix_micros(`{}`), since as text it would depend on the session's time zone"),
    (T.TimestampNTZType, "with cast(`{}` as string)"),
    (T.DecimalType, "with cast(`{}` as bigint) where all are whole, or as string"),
    (T.BinaryType, "with hex(`{}`)"),
    (T.FractionalType, "with cast(`{}` as bigint) where all are whole, or as string"),
)
_PLAIN = "UTF8_BINARY"


@dataclass(frozen=True)
class Roles:
    """Names of the columns by what they are."""

    task: str
    worker: str
    label: str
    weight: str | None = None
    confidence: str | None = None
    #: Orders the answers of a worker to a task.
    order: str | None = None

    def given(self) -> Iterator[tuple[str, str]]:
        """Roles that have a column, and its name."""
        return ((role, name) for role, name in vars(self).items() if name is not None)

    @property
    def number(self) -> str | None:
        """The role of the column of numbers."""
        return "weight" if self.weight else "confidence" if self.confidence else None


@dataclass(frozen=True)
class Log:
    """A DataFrame whose columns are called by their roles, and have types that a log can have."""

    frame: DataFrame
    roles: Roles
    rules: Rules

    @classmethod
    def of(cls, frame: DataFrame, roles: Roles, rules: Rules) -> Log:
        """Take the columns of a log, or reject what has none. No job is run."""
        rules.check()
        _check_settings(roles, rules)
        fields = {field.name: field.dataType for field in frame.schema.fields}
        for role, name in roles.given():
            if not isinstance(name, str):
                raise TypeError(f"{role}_col must name a column, not {name!r}")
            if name not in fields:
                raise ValueError(f"the frame has no column {name!r} ({role}_col); its columns are {preview([*fields])}")
            _check_type(role, name, fields[name])
        columns = [F.col(f"`{name.replace('`', '``')}`").alias(role) for role, name in roles.given()]
        return cls(frame.select(*columns), roles, rules)

    def type_of(self, role: str) -> T.DataType:
        """The type of a column."""
        return self.frame.schema[role].dataType

    def what(self, role: str) -> str:
        """What messages call a column."""
        return f"{role} column {getattr(self.roles, role)!r}"

    def lacks(self, role: str) -> Column:
        """Whether a row holds nothing there: null, NaN or empty text."""
        condition = F.col(role).isNull()
        if isinstance(self.type_of(role), T.StringType):
            condition = condition | (F.col(role) == "")
        if isinstance(self.type_of(role), T.FloatType | T.DoubleType):
            condition = condition | F.isnan(role)
        return condition

    def number(self) -> Column | None:
        """The weight or confidence of a row, as the table takes it."""
        role = self.roles.number
        if role is None:
            return None
        value = F.col(role).cast("double")
        if role == "confidence":
            return F.greatest(value, F.lit(LEAST_COUNT))
        return F.when(value < LEAST_COUNT, 0.0).otherwise(value)

    # ---------------------------------------------------------------------------------------------- one look

    def measured(self) -> Measured:
        """Look at all rows once, reject what cannot be aggregated, and compute the fingerprint of the log."""
        sums = {f"no {role}": self._number_of(self.lacks(role)) for role in ("task", "worker", "label")}
        if self.roles.order:
            sums["no order"] = self._number_of(F.col("order").isNull())
        role = self.roles.number
        if role is not None:
            value = F.col(role).cast("double")
            bad = value.isNull() | F.isnan(value) | (value < 0) | (value == float("inf"))
            sums |= {
                "bad": self._number_of(bad),
                "large": self._number_of(value > MOST_COUNT),
                "small": self._number_of((value > 0) & (value < LEAST_COUNT)),
                "sound": self._number_of(value >= LEAST_COUNT),
                "beyond": self._number_of((value <= 0) | (value > 1)),
            }
        # The order of rows does not count, but how often each is there does.
        row = F.xxhash64(*self.frame.columns)
        sums |= {"n": F.count(F.lit(1)), "xor": F.bit_xor(row), "sum": F.sum(row.cast("decimal(20,0)"))}
        measures = self.frame.agg(*(column.alias(name) for name, column in sums.items())).toArrow().to_pylist()[0]
        self._refuse(measures)
        return Measured(measures["n"], measures["no label"], f"{measures['n']} {measures['xor']} {measures['sum']}")

    @staticmethod
    def _number_of(condition: Column) -> Column:
        return F.sum(F.when(condition, 1).otherwise(0))

    def _refuse(self, found: dict[str, Any]) -> None:
        n = found["n"]
        if not n:
            raise ValueError("there are no annotations: the table needs at least one (task, worker, label) row")
        for of in ("task", "worker"):
            if found[f"no {of}"]:
                raise ValueError(
                    f"{self._missing(of, found)}; every annotation needs a task and a worker: fill or drop them"
                )
        if found["no label"] and self.rules.missing == "error":
            raise ValueError(f"{self._missing('label', found)}; fill or drop them, or choose missing='drop'")
        if found["no label"] == n:
            raise ValueError(f"{self._missing('label', found)}: there is nothing to aggregate")
        if found.get("no order"):
            raise ValueError(f"{self._missing('order', found)}; without it the order of answers is unknown")
        role = self.roles.number
        if role is None:
            return
        what = self.what(role)
        if found["bad"]:
            raise ValueError(
                f"{what} holds {plural(found['bad'], 'row')} whose weight is null, NaN, infinite or below 0; weights "
                "must be finite and at least 0"
            )
        if role == "confidence" and found["beyond"]:
            raise ValueError(
                f"{what} holds {plural(found['beyond'], 'row')} that are not confidences; a confidence is above 0 "
                "and at most 1"
            )
        if role == "weight" and (found["large"] or (found["small"] and not found["sound"])):
            raise ValueError(
                f"{what} holds {plural(found['large'] or found['small'], 'row')} whose weight is too "
                f"{'large' if found['large'] else 'small'}; a weight is a number of labels and must be {COUNTS}"
            )
        if role == "weight" and found["small"]:
            rows = plural(found["small"], "row")
            warn_of_data(f"{what} holds {rows} below {LEAST_COUNT:g}: next to nothing, counted as 0")

    def _missing(self, role: str, found: dict[str, Any]) -> str:
        return (
            f"{self.what(role)} is missing (null, NaN or empty) in {found[f'no {role}']:,} of "
            f"{plural(found['n'], 'row')}"
        )

    def settings(self) -> str:
        """What else shards depend on, as text."""
        names = [None if part is None else part.values.tolist() for part in (self.rules.classes, self.rules.abstain)]
        kinds = [(field.name, field.dataType.simpleString()) for field in self.frame.schema.fields]
        return json.dumps([self.rules.repeats, self.rules.missing, names, kinds], default=str)


@dataclass(frozen=True)
class Measured:
    """Summary of one scan of a log."""

    n_rows: int
    n_unlabelled: int
    #: The same for the same rows in any order.
    digest: str


def _check_settings(roles: Roles, rules: Rules) -> None:
    if roles.weight is not None and roles.confidence is not None:
        raise ValueError("give weights or confidences, not both: a confidence becomes the weight of its label")
    if rules.repeats in ("first", "last") and roles.order is None:
        raise ValueError(
            f"repeats={rules.repeats!r} needs order_by=, a column with the order of answers: rows of a "
            "DataFrame have no order"
        )
    if rules.repeats not in ("first", "last") and roles.order is not None:
        raise ValueError(f"order_by={roles.order!r} means nothing with repeats={rules.repeats!r}")


def _check_type(role: str, name: str, kind: T.DataType) -> None:
    """Raise for a column whose type does not fit its role."""
    if role in ("weight", "confidence"):
        if not isinstance(kind, _NUMBERS):
            raise TypeError(f"{role} column {name!r} is of type {kind.simpleString()}, and must hold numbers")
        return
    if role == "order":
        return
    if not isinstance(kind, _LABELS if role == "label" else _IDS):
        how = next((how for other, how in _CASTS if isinstance(kind, other)), "to string for instance").format(name)
        raise TypeError(
            f"{role} column {name!r} is of type {kind.simpleString()}; it can hold text, whole numbers, booleans or "
            f"dates: cast it, {how}"
        )
    if isinstance(kind, T.StringType) and getattr(kind, "collation", _PLAIN) != _PLAIN:
        raise TypeError(
            f"{role} column {name!r} has the collation {kind.collation}, under which ids that differ may be the same; "
            "cast it to string"
        )
