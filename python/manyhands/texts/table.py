"""Table of texts by task and worker."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from manyhands._base.building import Missing, Repeats
from manyhands._base.kind import KindSpec
from manyhands._base.values import is_missing
from manyhands.objects.table import Objects


class Texts(Objects):
    """Immutable, sparse table of (task, worker, text) rows: transcripts, translations, captions.

    Build it with :meth:`from_frame`, or read a file with :func:`manyhands.read` and ``kind="texts"``. Ids and repeats
    are handled as in :class:`~manyhands.Annotations`. Missing, empty and blank texts are missing answers: their rows
    are dropped with a warning, or raise with ``missing="error"``. Texts are stored unchanged; methods split them into
    words or letters.

    Memory: 8 bytes per row (8 more with weights) and 4 per task, plus the names and the distinct texts.

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
        confidence="mean probability of the words",
        expected="The mean confidence of the {n} texts is {mean}.",
        note="Words are compared without case and punctuation. Errors that all workers make cannot be detected.",
    )

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
        frame : DataFrame, Arrow table or mapping of columns
            The log, one row per text. Any object with the Arrow PyCapsule interface works.
        task, worker, weight, repeats, missing
            As for :meth:`Annotations.from_frame`.
        text : str, optional
            Column of texts. Well-known names are ``text``, ``transcript``, ``transcription``, ``translation`` and
            ``caption``.

        Returns
        -------
        Texts
            The table.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"clip": [1, 1], "worker": ["u", "v"], "heard": ["a cat", "the cat"]}
        >>> mh.Texts.from_frame(log, task="clip", text="heard")
        <Texts: 2 texts, 2 of them different, to 1 task by 2 workers>
        """
        columns = {"task": task, "worker": worker, "text": text}
        return cls._of_frame(frame, columns, {"weight": weight}, repeats=repeats, missing=missing)

    @classmethod
    def _checked(cls, answers: list[Any], what: str) -> list[Any]:
        texts = [None if is_missing(text) or (isinstance(text, str) and text.isspace()) else text for text in answers]
        for row, text in enumerate(texts):
            if text is not None and not isinstance(text, str):
                raise TypeError(
                    f"{what} contains {text!r}, a {type(text).__name__}, at row {row}; texts must be strings"
                )
        return texts
