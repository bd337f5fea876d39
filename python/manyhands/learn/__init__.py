"""Neural networks trained directly on the labels of many imperfect annotators.

Needs PyTorch, the extra ``torch``. All learners share one training loop and one interface, see
:class:`Learner` and :class:`Training`; heads and losses can be used in custom training loops.
"""

from manyhands._base.extras import install_command

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(f"manyhands.learn needs PyTorch: {install_command('torch')}") from error

from manyhands._train.batch import Batch, CrowdData
from manyhands._train.callbacks import Callback
from manyhands._train.settings import Training
from manyhands.learn import anchors, evaluation, heads, instance, losses, mixture, pairs, preferences, targets
from manyhands.learn import conal as common
from manyhands.learn import crowd_layer as confusion
from manyhands.learn import crowd_regression as numbers
from manyhands.learn import deep_em as em
from manyhands.learn import doctor_net as doctor
from manyhands.learn import learn2agree as agree
from manyhands.learn import madl as performance
from manyhands.learn import max_mig as information
from manyhands.learn import single_label as single
from manyhands.learn import union_net as union
from manyhands.learn.anchors import *
from manyhands.learn.conal import *
from manyhands.learn.crowd_layer import *
from manyhands.learn.crowd_regression import *
from manyhands.learn.deep_em import *
from manyhands.learn.doctor_net import *
from manyhands.learn.evaluation import *
from manyhands.learn.instance import *
from manyhands.learn.learn2agree import *
from manyhands.learn.learner import Learner, all_learners
from manyhands.learn.madl import *
from manyhands.learn.max_mig import *
from manyhands.learn.mixture import *
from manyhands.learn.pairs import *
from manyhands.learn.preferences import *
from manyhands.learn.single_label import *
from manyhands.learn.targets import *
from manyhands.learn.union_net import *

__all__ = ["Batch", "Callback", "CrowdData", "Learner", "Training", "all_learners", "heads", "losses"]
# Each module lists its public learners in `__all__`.
__all__ += agree.__all__
__all__ += anchors.__all__
__all__ += common.__all__
__all__ += confusion.__all__
__all__ += doctor.__all__
__all__ += em.__all__
__all__ += evaluation.__all__
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
