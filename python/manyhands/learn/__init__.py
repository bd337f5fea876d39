"""Learning from crowds end to end: networks trained directly on the labels of many imperfect annotators.

Needs PyTorch: ``pip install "manyhands[torch]"``. All learners share one training loop and one interface, see
:class:`Learner` and :class:`Training`; heads and losses can be used in one's own loop.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError('manyhands.learn needs PyTorch: pip install "manyhands[torch]"') from error

from manyhands.learn import heads, losses
from manyhands.learn.agree import Learn2Agree
from manyhands.learn.confusion import CCEM, CrowdLayer, GeoCrowdNet, SingleConfusion, TraceRegularized
from manyhands.learn.doctor import DoctorNet, WeightedDoctorNet
from manyhands.learn.em import DeepEM, ModelBootstrappedEM
from manyhands.learn.information import MaxMIG
from manyhands.learn.instance import COINNet, InstanceTrace
from manyhands.learn.learner import Learner, all_learners
from manyhands.learn.targets import AggregatedTarget, LearnFromAll, MajorityTarget, SoftBootstrap, SoftTarget
from manyhands.train.batch import Batch, CrowdData
from manyhands.train.settings import Training

__all__ = [
    "CCEM",
    "AggregatedTarget",
    "Batch",
    "COINNet",
    "CrowdData",
    "CrowdLayer",
    "DeepEM",
    "DoctorNet",
    "GeoCrowdNet",
    "InstanceTrace",
    "Learn2Agree",
    "LearnFromAll",
    "Learner",
    "MajorityTarget",
    "MaxMIG",
    "ModelBootstrappedEM",
    "SingleConfusion",
    "SoftBootstrap",
    "SoftTarget",
    "TraceRegularized",
    "Training",
    "WeightedDoctorNet",
    "all_learners",
    "heads",
    "losses",
]
