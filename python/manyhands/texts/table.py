"""The table of texts: who wrote what for which task."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from manyhands._base.building import Missing, Repeats
from manyhands._base.kind import KindSpec
from manyhands._base.values import is_missing
from manyhands.objects.table import Objects


class Texts(Objects):
    """An immutable, sparse table of (task, worker, text) rows: transcripts, translations, captions.

    Made by one of the constructors below or by :func:`manyhands.read` with ``kind="texts"``. Ids and repeats are those
    of :class:`~manyhands.Annotations`. A text that is missing, empty or blank says nothing: its row is set aside with a
    warning, or refused with ``missing="error"``. Texts are kept as they are; how they are cut into words or letters is
    up to the methods.

    Memory: 8 bytes per row (8 more with weights) and 4 per task, in addition to the names and the distinct texts.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.Texts.from_arrays(["a", "a", "b"], [1, 2, 1], ["a cat", "a cart", "dog"])
    <Texts: 3 texts, 3 of them different, to 2 tasks by 2 workers>
    """

    __slots__ = ()
    spec: ClassVar[KindSpec] = KindSpec(
        word="texts",
        required=("task", "worker", "text"),
        raw=frozenset({"text"}),
        settings=("repeats", "missing"),
        telling=(("text",),),
        parts=("distinct",),
    )
    _file_kind: ClassVar[str] = "texts"

    @classmethod
    def from_frame(  # type: ignore[override]
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        text: str | None = None,
        weight: str | None = None,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame
            The log, one row a text. Anything with the Arrow PyCapsule interface will do.
        task, worker, weight, repeats, missing
            As for :meth:`Annotations.from_frame`.
        text
            Column name of the texts; well known are ``text``, ``transcript``, ``transcription``, ``translation`` and
            ``caption``.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"clip": [1, 1], "worker": ["u", "v"], "heard": ["a cat", "the cat"]}
        >>> mh.Texts.from_frame(log, task="clip", text="heard")
        <Texts: 2 texts, 2 of them different, to 1 task by 2 workers>
        """
        given = {"task": task, "worker": worker, "text": text}
        return cls._of_frame(frame, given, {"weight": weight}, repeats=repeats, missing=missing)

    @classmethod
    def _checked(cls, answers: list[Any], what: str) -> list[Any]:
        found = [None if is_missing(text) or (isinstance(text, str) and text.isspace()) else text for text in answers]
        for row, text in enumerate(found):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{what} holds {text!r}, a {type(text).__name__} at row {row}; texts are strings")
        return found
