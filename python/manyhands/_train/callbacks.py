"""Called at stages of training; may end it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from manyhands._base.checks import preview

Moment = Literal["on_fit_start", "on_epoch_start", "on_batch_end", "on_epoch_end", "on_fit_end"]
MOMENTS: tuple[Moment, ...] = ("on_fit_start", "on_epoch_start", "on_batch_end", "on_epoch_end", "on_fit_end")


class Callback:
    """Callback for several moments of a training: a subclass overrides the methods it needs.

    All get the learner and what is known at the moment, by name. One that returns True ends the training: at once, but
    for what remains to be done after the last epoch.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> class Losses(mh.learn.Callback):
    ...     def on_fit_start(self, learner, known):
    ...         self.seen = []
    ...
    ...     def on_batch_end(self, learner, known):
    ...         self.seen.append(known["loss"])
    ...         return len(self.seen) == 7
    >>> X, truth = mh.categorical.synthetic.gaussians(320, 3)
    >>> crowd = mh.simulate(truth=truth, n_workers=9, n_classes=3, labels_per_task=3)
    >>> losses = Losses()
    >>> learner = mh.learn.CCEM(torch.nn.Linear(10, 3), callbacks=[losses]).fit(X, crowd.log)
    >>> len(losses.seen), len(learner.history_["loss"])
    (7, 2)
    """

    def on_fit_start(self, learner: Any, known: Mapping[str, Any]) -> object:
        """Before the first epoch: ``epoch`` to begin with, ``n_epochs``, ``n_samples`` and ``n_held_out``."""

    def on_epoch_start(self, learner: Any, known: Mapping[str, Any]) -> object:
        """Before each epoch: ``epoch`` and ``lr``."""

    def on_batch_end(self, learner: Any, known: Mapping[str, Any]) -> object:
        """After each batch: ``epoch``, ``batch``, ``n_samples`` and ``loss``."""

    def on_epoch_end(self, learner: Any, known: Mapping[str, Any]) -> object:
        """After each epoch: its record in ``history_``, with ``score`` where samples are held out."""

    def on_fit_end(self, learner: Any, known: Mapping[str, Any]) -> object:
        """When the training has ended: ``n_epochs`` that it had, and why it ``ended``.

        That is ``"max_epochs"``, ``"patience"`` or ``"callback"``, or the name of an exception, such as
        ``"KeyboardInterrupt"``, which is raised afterwards.
        """


EpochCallback = Callable[[Any, dict[str, float]], object]


def check_callbacks(callbacks: Any) -> None:
    """Raise for what could never be called, or would never be because of its name."""
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise TypeError(f"callbacks must be a list of functions and Callbacks, not {type(callbacks).__name__}")
    for callback in callbacks:
        hooks = [name for name in dir(callback) if name.startswith("on_")]
        odd = [name for name in hooks if name not in MOMENTS]
        if odd and not callable(callback):
            raise ValueError(
                f"{type(callback).__name__} has {preview(odd)}, which is not a stage of training; there are "
                f"{', '.join(MOMENTS)}"
            )
        if not hooks and not callable(callback):
            raise TypeError(
                f"callbacks are functions, called after each epoch, or have methods such as on_epoch_end; "
                f"{callback!r} is neither"
            )


class Callbacks:
    """The callbacks of a training, by the moment that they are called at."""

    def __init__(self, learner: Any, callbacks: Sequence[Any]) -> None:
        self._learner = learner
        self._called: dict[Moment, list[Callable[[Any, Any], object]]] = {moment: [] for moment in MOMENTS}
        for callback in callbacks:
            moments = [moment for moment in MOMENTS if hasattr(callback, moment)]
            for moment in moments:
                self._called[moment].append(getattr(callback, moment))
            if not moments:
                self._called["on_epoch_end"].append(callback)

    def awaits(self, moment: Moment) -> bool:
        """Whether any callback is registered."""
        return bool(self._called[moment])

    def tell(self, moment: Moment, known: dict[str, Any]) -> bool:
        """Call every callback; return whether one ends the training."""
        stops = [hook(self._learner, known) is True for hook in self._called[moment]]
        return any(stops)
