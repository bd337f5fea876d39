"""What manyhands raises and warns of, beyond Python's own exceptions."""

from __future__ import annotations


class NotFittedError(ValueError, AttributeError):
    """A result was asked of an estimator before ``fit``."""


class FileFormatError(ValueError):
    """A file is not what its name says, is damaged, or was written by a newer version."""


class DataWarning(UserWarning):
    """Something in the data was set aside; the message says what and how much."""


class ConvergenceWarning(UserWarning):
    """An iteration stopped at its limit before its tolerance was met."""


class IdentifiabilityWarning(UserWarning):
    """The table does not determine what a method looks for; the message says what was done instead."""


class OverlapWarning(IdentifiabilityWarning):
    """Workers overlap too little, or answer tasks again, so that no method can tell what the message says."""
