"""Learning from crowds end to end: networks trained directly on the labels of many imperfect annotators.

Needs PyTorch: ``pip install "manyhands[torch]"``. All learners share one training loop and one interface, see
:class:`Learner` and :class:`Training`; heads and losses can be used in one's own loop.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError('manyhands.learn needs PyTorch: pip install "manyhands[torch]"') from error

from manyhands.learn import (
    agree,
    anchors,
    common,
    confusion,
    doctor,
    em,
    heads,
    information,
    instance,
    losses,
    mixture,
    numbers,
    pairs,
    performance,
    preferences,
    single,
    targets,
    union,
)
from manyhands.learn.agree import *
from manyhands.learn.anchors import *
from manyhands.learn.common import *
from manyhands.learn.confusion import *
from manyhands.learn.doctor import *
from manyhands.learn.em import *
from manyhands.learn.information import *
from manyhands.learn.instance import *
from manyhands.learn.learner import Learner, all_learners
from manyhands.learn.mixture import *
from manyhands.learn.numbers import *
from manyhands.learn.pairs import *
from manyhands.learn.performance import *
from manyhands.learn.preferences import *
from manyhands.learn.single import *
from manyhands.learn.targets import *
from manyhands.learn.union import *
from manyhands.train.batch import Batch, CrowdData
from manyhands.train.callbacks import Callback
from manyhands.train.settings import Training

__all__ = ["Batch", "Callback", "CrowdData", "Learner", "Training", "all_learners", "heads", "losses"]
# Each family says which of its classes are learners for the public.
__all__ += agree.__all__
__all__ += anchors.__all__
__all__ += common.__all__
__all__ += confusion.__all__
__all__ += doctor.__all__
__all__ += em.__all__
__all__ += information.__all__
__all__ += instance.__all__
__all__ += mixture.__all__
__all__ += numbers.__all__
__all__ += pairs.__all__
__all__ += performance.__all__
__all__ += preferences.__all__
__all__ += single.__all__
__all__ += targets.__all__
__all__ += union.__all__
