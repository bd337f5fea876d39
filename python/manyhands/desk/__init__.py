"""A desk for adjudicators: people decide the tasks that matter most, in a browser or over HTTP.

``manyhands desk log.parquet`` starts one. In Python:

>>> from manyhands.desk import Desk
>>> desk = Desk(model, "log.desk")  # doctest: +SKIP
>>> desk.next("window 1")  # doctest: +SKIP
{'task': 'q17', 'row': 16, 'shown': 'A thrush in the snow'}
"""

from manyhands.desk.accuracy import Accuracy
from manyhands.desk.desk import ConflictError, Desk
from manyhands.desk.export import export
from manyhands.desk.journal import Journal, JournalError
from manyhands.desk.questions import AnswerError

__all__ = ["Accuracy", "AnswerError", "ConflictError", "Desk", "Journal", "JournalError", "export"]
