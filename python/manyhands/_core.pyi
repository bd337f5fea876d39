"""The compiled core. Arrays that come in must be C-contiguous and of the dtype shown; arrays that go out are fresh."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypedDict, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "CodeTable",
    "Comparisons",
    "CsvReader",
    "Rankings",
    "Ratings",
    "Shard",
    "Table",
    "adam_rows",
    "agreement_by_coincidences",
    "align_texts",
    "assign",
    "assignment",
    "bayes_fit",
    "beta_quantile",
    "canonical_integers",
    "channel_capacity",
    "cluster_search",
    "cluster_shares",
    "coco_counts",
    "coco_lengths",
    "coco_runs",
    "components",
    "correlation_sample",
    "cpd_fit",
    "crossing_sides",
    "crowd_prior",
    "densest",
    "dirichlet_step",
    "edit_counts",
    "em_factors",
    "em_fit",
    "encode_integers",
    "encode_strings",
    "get_num_threads",
    "hierarchy_fit",
    "linked_beliefs",
    "low_rank_fit",
    "low_rank_residuals",
    "mask_bytes",
    "mask_columns",
    "mask_pixels",
    "mask_runs",
    "mask_vote",
    "match_boxes",
    "nearest_points",
    "nmf_fit",
    "polygon_runs",
    "pool_posteriors",
    "projection_apply",
    "projection_fit",
    "projection_reach",
    "projection_solve",
    "projection_sums",
    "rank_one_fit",
    "rank_one_graph",
    "relevance_fit",
    "relevance_posterior",
    "scheme_fit",
    "sequence_decode",
    "sequence_evidence",
    "sequence_fit",
    "set_num_threads",
    "shape_likeness",
    "shape_masks",
    "simplex_lstsq",
    "simulate",
    "spa",
    "staple",
    "value_distances",
    "winners",
    "word_distances",
]

_F32 = npt.NDArray[np.float32]
_F64 = npt.NDArray[np.float64]
_U32 = npt.NDArray[np.uint32]

class _Passes(Protocol):
    """An object that holds annotations and goes through them when a loop asks; each method may hand its arguments on.

    `em_open`, `em_gather` and `em_answers` do for one table what is asked for here; sums of several are added in an
    order that never changes. `conclude` returns the log-evidence under the last factors, and may keep the answers.
    """

    @property
    def n_workers(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    def open(self, *, model: str, start: str, seed: int, counts: _F64, classes: _F64) -> None: ...
    def gather(
        self, factors: _F64, prior: _F64, /, *, model: str, hard: bool, voted_only: bool, counts: _F64, classes: _F64
    ) -> float: ...
    def conclude(self, factors: _F64, prior: _F64, /, *, model: str) -> float: ...

class _Answers(TypedDict):
    winner: npt.NDArray[np.uint16]
    confidence: npt.NDArray[np.float32]
    tied: npt.NDArray[np.bool_]
    log_evidence: float
    # Where it is asked for.
    posterior: _F64

class _EmFit(TypedDict):
    # Of a table.
    posterior: _F64
    confusion: _F64
    prior: _F64
    history: _F64
    n_iter: int
    converged: bool

class _SparseFit(TypedDict):
    offsets: npt.NDArray[np.uint32]
    classes: npt.NDArray[np.uint16]
    probabilities: _F64
    rest: _F64
    accuracy: _F64
    prior: _F64
    winners: npt.NDArray[np.uint16]
    confidence: _F64
    tied: npt.NDArray[np.bool_]
    history: _F64
    n_iter: int
    converged: bool

class _BayesFit(_EmFit):
    concentration: _F64
    class_concentration: _F64

class _HierarchyFit(_EmFit, total=False):
    alpha: _F64
    competence: _F64
    guesses: _F64
    thresholds: _F64
    mean: _F64
    covariance: _F64
    strength: float

class _Sets(Protocol):
    @property
    def starts(self) -> _U32: ...
    @property
    def rows(self) -> _U32: ...
    @property
    def task_starts(self) -> _U32: ...
    @property
    def labels(self) -> _U32: ...
    @property
    def pair_workers(self) -> _U32: ...
    @property
    def pair_labels(self) -> _U32: ...
    @property
    def spare(self) -> _F64: ...
    @property
    def sizes(self) -> tuple[int, int, int]: ...

class _Rates(TypedDict):
    rates: _F64
    workers: _F64
    labels: _F64
    variances: _F64
    centre: float
    strength: float

class _RelevanceFit(TypedDict):
    posterior: _F64
    patterns: _F64
    pattern_shares: _F64
    prior: _F64
    hits: _Rates
    alarms: _Rates
    history: _F64
    n_iter: int
    converged: bool

class _GibbsFit(TypedDict):
    posterior: _F64
    confusion: _F64
    prior: _F64
    draws: dict[str, _F64]

class _CommunityFit(_EmFit):
    membership: _F64
    prototypes: _F64
    shares: _F64
    strength: float

class _SubtypesFit(_BayesFit):
    subtype_concentration: _F64

class _GroupedFit(_EmFit):
    workers: _F64
    answers: _F64

class _PairExcess(TypedDict):
    pairs: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]
    chances: _F64
    n_tested: int

class _AnswerDrift(TypedDict):
    shares: _F64
    p: _F64
    at: npt.NDArray[np.uint32]
    what: npt.NDArray[np.uint32]
    told: npt.NDArray[np.uint32]

class _GroupMoments(TypedDict):
    second: _F64
    third: _F64
    n_tasks: int

class _RankOne(TypedDict):
    vector: _F64
    history: _F64
    n_iter: int
    converged: bool

class _LowRank(TypedDict):
    factor: _F64
    n_iter: int
    converged: bool

class _Tilt(TypedDict):
    converged: bool
    tilt: _F64
    shares: _F64
    kl: float
    residual: float
    n_iter: int
    method: str

class _Projected(_Tilt):
    probabilities: _F64

class _Counted(TypedDict):
    value: float
    worst: float
    left_out: _F64
    sizes: npt.NDArray[np.uint32]
    n_tasks: int
    n_pairs: int

class _Coincidences(TypedDict):
    pairs: _F64
    classes: _F64
    n: float
    n_paired: float
    n_pairs: int

class _Paired(TypedDict):
    value: float
    worst: float
    left_out: _F64
    sizes: npt.NDArray[np.uint32]
    n_tasks: int
    n_pairs: int
    pairs: npt.NDArray[np.uint32]
    overlap: npt.NDArray[np.uint64]
    coefficients: _F64
    squashed: _F64

class _MaceFit(TypedDict):
    posterior: _F64
    know: _F64
    strategies: _F64
    history: _F64
    n_iter: int
    converged: bool

class _GladFit(TypedDict):
    posterior: _F64
    ability: _F64
    ease: _F64
    accuracy: _F64
    history: _F64
    n_iter: int
    converged: bool

class _MinimaxFit(TypedDict):
    posterior: _F64
    confusion: _F64
    sigma: _F64
    tau: _F64
    history: _F64
    n_iter: int
    converged: bool

class _MarginFit(TypedDict):
    weights: _F64
    answers: npt.NDArray[np.uint16]
    history: _F64
    n_iter: int
    converged: bool

class _CrowdSvmFit(TypedDict):
    posterior: _F64
    confusion: _F64
    weights: _F64

@final
class Table:
    def __new__(
        cls,
        tasks: npt.NDArray[np.uint32],
        workers: npt.NDArray[np.uint32],
        labels: npt.NDArray[np.uint16],
        weights: _F64 | None,
        n_tasks: int,
        n_workers: int,
        n_labels: int,
        repeats: str = "keep",
        n_classes: int | None = None,
    ) -> Table: ...
    @property
    def n_tasks(self) -> int: ...
    @property
    def n_workers(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def n_annotations(self) -> int: ...
    def offsets(self) -> npt.NDArray[np.uint32]: ...
    def columns(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint16]]: ...
    def weights(self) -> _F64 | None: ...
    def worker_counts(self) -> npt.NDArray[np.uint64]: ...
    def label_counts(self) -> npt.NDArray[np.uint64]: ...
    def agreeing_pairs(self) -> tuple[int, int]: ...
    def n_components(self) -> int: ...
    def worker_groups(self) -> npt.NDArray[np.uint32]: ...
    def group_counts(self) -> npt.NDArray[np.uint64]: ...
    def n_repeats(self) -> int: ...
    def first_repeat(self) -> tuple[int, int] | None: ...
    def keep(self, mask: npt.NDArray[np.bool_]) -> Table: ...
    def compacted(self) -> Table: ...
    def recoded(self, codes: npt.NDArray[np.uint16], n_labels: int, n_classes: int) -> Table: ...
    def vote_shares(self, worker_weights: _F64 | None = None) -> tuple[_F64, _F64]: ...
    def worker_agreement(self, answers: npt.NDArray[np.int32]) -> tuple[_F64, _F64]: ...
    def effective_votes(self, information: _F64) -> _F64: ...
    def error_correlation(
        self, posterior: _F64, counts: _F64, prior: _F64, *, sampled: bool = False
    ) -> tuple[float, float]: ...
    def agreement_by_counts(
        self, *, coefficient: str, shape: str, positions: _F64, groups: int = 0, seed: int = 0
    ) -> _Counted: ...
    def coincidences(self, *, coefficient: str) -> _Coincidences: ...
    def agreement_by_pairs(
        self,
        *,
        chance: str,
        shape: str,
        positions: _F64,
        summary: str,
        min_overlap: int = 1,
        worker: int = 0,
        groups: int = 0,
        seed: int = 0,
    ) -> _Paired: ...
    def em_open(
        self,
        *,
        counts: _F64,
        classes: _F64,
        model: str = "full",
        start: str = "shares",
        seed: int = 0,
        first: int = 0,
        posterior: _F64 | None = None,
        gold: npt.NDArray[np.int32] | None = None,
    ) -> None: ...
    def em_gather(
        self,
        factors: _F64,
        prior: _F64,
        *,
        counts: _F64,
        classes: _F64,
        model: str = "full",
        hard: bool = False,
        voted_only: bool = False,
        gold: npt.NDArray[np.int32] | None = None,
    ) -> float: ...
    def em_answers(
        self,
        factors: _F64,
        prior: _F64,
        *,
        model: str = "full",
        posterior: bool = False,
        gold: npt.NDArray[np.int32] | None = None,
    ) -> _Answers: ...
    def sparse_fit(
        self,
        *,
        start: str,
        pseudo: tuple[float, float],
        class_pseudo: float,
        max_iter: int,
        tol: float,
        prior: _F64 | None = None,
        accuracy: _F64 | None = None,
        progress: Callable[[int, float], object] | None = None,
    ) -> _SparseFit: ...
    def gibbs_fit(
        self,
        *,
        model: str,
        posterior: _F64,
        pseudo: _F64,
        class_pseudo: _F64,
        n_chains: int,
        warmup: int,
        draws: int,
        seed: int,
        keep_confusion: bool = False,
        gold: npt.NDArray[np.int32] | None = None,
        progress: Callable[[int, float], object] | None = None,
    ) -> _GibbsFit: ...
    def community_fit(
        self,
        prototypes: _F64,
        *,
        pseudo: _F64,
        share_pseudo: float,
        class_pseudo: _F64,
        protected: int,
        max_iter: int,
        tol: float,
        strength: float | None = None,
        gold: npt.NDArray[np.int32] | None = None,
        progress: Callable[[int, float], object] | None = None,
    ) -> _CommunityFit: ...
    def grouped_fit(
        self,
        groups: npt.NDArray[np.uint32],
        workers: _F64,
        answers: _F64,
        prior: _F64,
        *,
        pseudo: _F64,
        group_pseudo: _F64,
        class_pseudo: _F64,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _GroupedFit: ...
    def grouped_posterior(self, groups: npt.NDArray[np.uint32], workers: _F64, answers: _F64, prior: _F64) -> _F64: ...
    def pair_excess(
        self,
        posterior: _F64,
        confusion: _F64,
        strata: npt.NDArray[np.uint8],
        *,
        min_overlap: int,
        share: float,
        most: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _PairExcess: ...
    def answer_penalties(
        self, *, hard: bool, progress: Callable[[int, float], object] | None = None
    ) -> tuple[_F64, npt.NDArray[np.uint32]]: ...
    def answer_drift(
        self,
        posterior: _F64,
        confusion: _F64,
        strata: npt.NDArray[np.uint8],
        when: _F64,
        *,
        share: float = 0.0,
        progress: Callable[[int, float], object] | None = None,
    ) -> _AnswerDrift: ...
    def subtypes_fit(
        self,
        *,
        n_subtypes: int,
        pseudo: _F64,
        class_pseudo: _F64,
        subtype_pseudo: float,
        seed: int,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _SubtypesFit: ...
    def subtypes_posterior(
        self, class_concentration: _F64, subtype_concentration: _F64, concentration: _F64
    ) -> _F64: ...
    def moments_first(self) -> _F64: ...
    def moments_pairs(
        self, *, min_overlap: float, max_partners: int, joint: bool = True
    ) -> tuple[npt.NDArray[np.uint32], _F64, _F64]: ...
    def moments_triples(
        self, pairs: npt.NDArray[np.uint32], *, min_overlap: float, max_triples: int, joint: bool = True
    ) -> tuple[npt.NDArray[np.uint32], _F64, _F64]: ...
    def moments_groups(self, groups: npt.NDArray[np.uint8]) -> _GroupMoments: ...
    def moments_cross(self, groups: npt.NDArray[np.uint8]) -> tuple[_F64, _F64]: ...
    def pair_agreement(self, pairs: npt.NDArray[np.uint32]) -> _F64: ...
    def leave_one_out_sums(self, posterior: _F64, confusion: _F64) -> tuple[_F64, _F64]: ...
    def kos_fit(
        self, *, n_iter: int, seed: int, progress: Callable[[int, float], object] | None = None
    ) -> tuple[_F64, _F64, npt.NDArray[np.bool_]]: ...
    def mace_fit(
        self,
        know: _F64,
        strategies: _F64,
        *,
        variational: bool,
        competence: tuple[float, float],
        strategy: float,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _MaceFit: ...
    def glad_fit(
        self,
        prior: _F64,
        ability: _F64,
        ease: _F64,
        *,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _GladFit: ...
    def glad_posterior(self, prior: _F64, ability: _F64, ease: _F64) -> _F64: ...
    def minimax_fit(
        self,
        *,
        ordinal: bool,
        worker_penalty: float,
        task_penalty: float,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _MinimaxFit: ...
    def minimax_posterior(self, sigma: _F64, *, ordinal: bool, task_penalty: float) -> _F64: ...
    def margin_fit(
        self,
        *,
        cost: float,
        margin: float,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _MarginFit: ...
    def vote_softmax(self, worker_weights: _F64) -> _F64: ...
    def crowd_svm_fit(
        self,
        *,
        cost: float,
        margin: float,
        variance: float,
        pseudo_count: float,
        draws: int,
        burn_in: int,
        seed: int,
        progress: Callable[[int, float], object] | None = None,
    ) -> _CrowdSvmFit: ...
    def crowd_svm_posterior(self, confusion: _F64, weights: _F64, *, cost: float, margin: float) -> _F64: ...
    def pair_evidence(self, log_odds: _F64) -> _F64: ...
    def pair_counts(self, same: _F64) -> _F64: ...
    def membership_fit(
        self,
        left: _U32,
        right: _U32,
        start: _F64,
        prior: _F64,
        *,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _MembershipFit: ...

@final
class Shard:
    """Whole tasks of a log, as stored in a file; `manyhands.categorical.shards` describes how a driver uses it."""

    def __new__(cls, data: npt.NDArray[np.uint8], *, check: bool = True) -> Shard: ...
    @staticmethod
    def read(path: str, *, check: bool = True) -> Shard: ...
    @staticmethod
    def of(table: Table) -> Shard: ...
    @property
    def n_tasks(self) -> int: ...
    @property
    def n_annotations(self) -> int: ...
    @property
    def n_workers(self) -> int: ...
    @property
    def crowd(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def checksum(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def weighted(self) -> bool: ...
    def to_bytes(self) -> bytes: ...
    def who(self) -> npt.NDArray[np.uint32]: ...
    def table(self) -> Table: ...
    def without_abstentions(self) -> Shard: ...
    def em_open(
        self,
        *,
        counts: _F64,
        classes: _F64,
        model: str = "full",
        start: str = "shares",
        seed: int = 0,
        first: int = 0,
        posterior: _F64 | None = None,
        gold: npt.NDArray[np.int32] | None = None,
    ) -> None: ...
    def em_gather(
        self,
        factors: _F64,
        prior: _F64,
        *,
        counts: _F64,
        classes: _F64,
        model: str = "full",
        hard: bool = False,
        voted_only: bool = False,
        gold: npt.NDArray[np.int32] | None = None,
    ) -> float: ...
    def em_answers(
        self,
        factors: _F64,
        prior: _F64,
        *,
        model: str = "full",
        posterior: bool = False,
        gold: npt.NDArray[np.int32] | None = None,
    ) -> _Answers: ...

@final
class Ratings:
    def __new__(
        cls,
        tasks: npt.NDArray[np.uint32],
        workers: npt.NDArray[np.uint32],
        values: _F64,
        weights: _F64 | None,
        n_tasks: int,
        n_workers: int,
        repeats: str = "keep",
    ) -> Ratings: ...
    @property
    def n_tasks(self) -> int: ...
    @property
    def n_workers(self) -> int: ...
    @property
    def dims(self) -> int: ...
    @property
    def n_annotations(self) -> int: ...
    def offsets(self) -> npt.NDArray[np.uint32]: ...
    def columns(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], _F64]: ...
    def weights(self) -> _F64 | None: ...
    def worker_counts(self) -> npt.NDArray[np.uint64]: ...
    def n_components(self) -> int: ...
    def worker_groups(self) -> npt.NDArray[np.uint32]: ...
    def group_counts(self) -> npt.NDArray[np.uint64]: ...
    def n_repeats(self) -> int: ...
    def first_repeat(self) -> tuple[int, int] | None: ...
    def keep(self, mask: npt.NDArray[np.bool_]) -> Ratings: ...
    def compacted(self) -> Ratings: ...
    def gaussian_pass(
        self,
        dim: int,
        unit: float,
        centre: float,
        workers: _F64,
        prior: tuple[float, float],
        *,
        freedom: float | None = None,
        last: _F64 | None = None,
        shapes: _F64 | None = None,
        residuals: _F64 | None = None,
    ) -> tuple[_F64, _F64, _F64]: ...
    def spread(self, dim: int, unit: float, centre: float, worker_weights: _F64 | None = None) -> tuple[_F64, _F64]: ...
    def trimmed_means(self, dim: int, unit: float, centre: float, trim: float) -> _F64: ...
    def covariance_sums(self, dim: int, unit: float, centre: float, means: _F64, factors: _F64, rank: int) -> _F64: ...
    def factor_scores(
        self,
        dim: int,
        unit: float,
        centre: float,
        means: _F64,
        precisions: _F64,
        factors: _F64,
        target: _F64,
    ) -> _F64: ...

@final
class CodeTable:
    def __new__(
        cls,
        tasks: npt.NDArray[np.uint32],
        workers: npt.NDArray[np.uint32],
        codes: npt.NDArray[np.uint32],
        weights: _F64 | None,
        n_tasks: int,
        n_workers: int,
        n_codes: int,
        repeats: str = "keep",
    ) -> CodeTable: ...
    @property
    def n_tasks(self) -> int: ...
    @property
    def n_workers(self) -> int: ...
    @property
    def n_codes(self) -> int: ...
    @property
    def n_annotations(self) -> int: ...
    def offsets(self) -> npt.NDArray[np.uint32]: ...
    def columns(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
    def weights(self) -> _F64 | None: ...
    def worker_counts(self) -> npt.NDArray[np.uint64]: ...
    def n_components(self) -> int: ...
    def worker_groups(self) -> npt.NDArray[np.uint32]: ...
    def group_counts(self) -> npt.NDArray[np.uint64]: ...
    def n_repeats(self) -> int: ...
    def first_repeat(self) -> tuple[int, int] | None: ...
    def keep(self, mask: npt.NDArray[np.bool_]) -> CodeTable: ...
    def compacted(self) -> CodeTable: ...

@final
class Comparisons:
    def __new__(
        cls,
        left: npt.NDArray[np.uint32],
        right: npt.NDArray[np.uint32],
        outcomes: npt.NDArray[np.uint8],
        workers: npt.NDArray[np.uint32],
        contexts: npt.NDArray[np.uint32] | None,
        weights: _F64 | None,
        n_items: int,
        n_workers: int,
        n_contexts: int,
    ) -> Comparisons: ...
    @property
    def n_items(self) -> int: ...
    @property
    def n_workers(self) -> int: ...
    @property
    def n_contexts(self) -> int: ...
    @property
    def n_annotations(self) -> int: ...
    def columns(
        self,
    ) -> tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint8],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32] | None,
    ]: ...
    def weights(self) -> _F64 | None: ...
    def worker_counts(self) -> npt.NDArray[np.uint64]: ...
    def item_counts(self) -> _F64: ...
    def components(self) -> npt.NDArray[np.uint32]: ...
    def keep(self, mask: npt.NDArray[np.bool_]) -> Comparisons: ...
    def counted(self, weights: _F64) -> Comparisons: ...
    def bradley_terry_fit(
        self,
        *,
        ties: str,
        left_bias: str,
        slopes: bool,
        prior: float,
        slope_spread: float | None = None,
        bias_spread: float | None = None,
        start: _F64 | None = None,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _BradleyTerryFit: ...
    def bradley_terry_errors(
        self,
        *,
        point: _F64,
        slopes: _F64,
        biases: _F64,
        ties: str,
        left_bias: bool,
        prior: float,
        clusters: str,
        n_probes: int,
        seed: int,
        progress: Callable[[int, float], object] | None = None,
    ) -> tuple[_F64, _F64, list[float]]: ...
    def crowd_bt_fit(
        self,
        *,
        link: float,
        hits: float,
        misses: float,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _CrowdFit: ...
    def rank_centrality_fit(
        self,
        *,
        prior: float,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _CentralityFit: ...

@final
class Rankings:
    def __new__(
        cls,
        offsets: npt.NDArray[np.uint32],
        items: npt.NDArray[np.uint32],
        workers: npt.NDArray[np.uint32],
        weights: _F64 | None,
        n_items: int,
        n_workers: int,
    ) -> Rankings: ...
    @property
    def n_items(self) -> int: ...
    @property
    def n_workers(self) -> int: ...
    @property
    def n_annotations(self) -> int: ...
    def columns(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
    def weights(self) -> _F64 | None: ...
    def worker_counts(self) -> npt.NDArray[np.uint64]: ...
    def components(self) -> npt.NDArray[np.uint32]: ...
    def keep(self, mask: npt.NDArray[np.bool_]) -> Rankings: ...
    def counted(self, weights: _F64) -> Rankings: ...
    def plackett_luce_fit(
        self,
        *,
        slopes: bool,
        prior: float,
        spread: float | None = None,
        errors: bool,
        by_worker: bool,
        max_iter: int,
        tol: float,
        progress: Callable[[int, float], object] | None = None,
    ) -> _LuceFit: ...

def set_num_threads(n_threads: int) -> None: ...
def get_num_threads() -> int: ...
def encode_integers(
    values: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]: ...

@final
class CsvReader:
    def __new__(cls, delimiter: int, n_fields: int, wanted: list[int], header: bool) -> CsvReader: ...
    def read(self, block: npt.NDArray[np.uint8], last: bool) -> int | None: ...
    def finish(
        self,
    ) -> list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.uint8]]]: ...

def encode_strings(
    offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]: ...
def assign(
    scores: _F64, lower: npt.NDArray[np.uint64], upper: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint32], _F64]: ...
def projection_fit(
    probabilities: _F64,
    lower: _F64,
    upper: _F64,
    *,
    weights: _F64 | None = None,
    method: str = "newton",
    progress: Callable[[int, float], object] | None = None,
) -> _Projected: ...
def projection_solve(
    lower: _F64,
    upper: _F64,
    sums: Callable[[_F64, bool], tuple[float, float, _F64, _F64]],
    reach: Callable[[npt.NDArray[np.uint32]], _F64],
    *,
    method: str = "newton",
) -> _Tilt: ...
def projection_sums(
    probabilities: _F64, tilt: _F64, *, weights: _F64 | None = None, second: bool = False, first: int = 0
) -> tuple[float, float, _F64, _F64]: ...
def projection_reach(probabilities: _F64, order: npt.NDArray[np.uint32], *, weights: _F64 | None = None) -> _F64: ...
def projection_apply(probabilities: _F64, tilt: _F64) -> _F64: ...
def canonical_integers(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64] | None: ...
def pool_posteriors(
    posteriors: Sequence[_F64], weights: _F64, totals: _F64, correlation: float, even: float
) -> tuple[_F64, _F64]: ...
def correlation_sample(first: int, n_tasks: int, n_annotations: int) -> npt.NDArray[np.uint32]: ...
def channel_capacity(confusion: _F64, *, tol: float, max_iter: int) -> tuple[_F64, _F64, _F64]: ...
def adam_rows(
    table: _F32,
    mean: _F32,
    square: _F32,
    rows: npt.NDArray[np.int64],
    gradient: _F32,
    *,
    rate: float,
    betas: Sequence[float],
    eps: float,
    number: int,
) -> None: ...
def winners(rows: _F64) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]: ...
def agreement_by_coincidences(
    pairs: _F64, classes: _F64, n: float, n_paired: float, *, coefficient: str, shape: str, positions: _F64
) -> tuple[float, float]: ...
def em_fit(
    votes: Table | _Passes,
    *,
    model: str,
    assignment: str,
    start: str,
    pseudo: _F64,
    class_pseudo: _F64,
    max_iter: int,
    tol: float,
    accelerate: bool = False,
    seed: int = 0,
    gold: npt.NDArray[np.int32] | None = None,
    posterior: _F64 | None = None,
    prior: _F64 | None = None,
    confusion: _F64 | None = None,
    progress: Callable[[int, float], object] | None = None,
) -> _EmFit: ...
def em_factors(
    confusion: _F64, prior: _F64, *, model: str = "full", concentrations: bool = False
) -> tuple[_F64, _F64]: ...
def bayes_fit(
    votes: Table | _Passes,
    *,
    model: str,
    start: str,
    pseudo: _F64,
    class_pseudo: _F64,
    max_iter: int,
    tol: float,
    protected: int = 0,
    accelerate: bool = False,
    gold: npt.NDArray[np.int32] | None = None,
    posterior: _F64 | None = None,
    progress: Callable[[int, float], object] | None = None,
) -> _BayesFit: ...
def beta_quantile(a: _F64, b: _F64, p: float) -> _F64: ...
def dirichlet_step(alpha: _F64, counts: _F64, imaginary: _F64) -> _F64: ...
def hierarchy_fit(
    votes: Table | _Passes,
    priors: Sequence[tuple[str, float | None]],
    *,
    class_pseudo: _F64,
    protected: int,
    max_iter: int,
    tol: float,
    gold: npt.NDArray[np.int32] | None = None,
    progress: Callable[[int, float], object] | None = None,
) -> list[_HierarchyFit]: ...
def crowd_prior(counts: _F64, *, rounds: int, start: _F64 | None = None) -> _F64: ...
def relevance_fit(
    sets: _Sets,
    start: _F64,
    *,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], object] | None = None,
) -> _RelevanceFit: ...
def relevance_posterior(sets: _Sets, hits: _F64, alarms: _F64, shares: _F64, patterns: _F64) -> _F64: ...

class _Beliefs(TypedDict):
    posterior: _F64
    agreement: float
    n_sweeps: int
    change: float

def linked_beliefs(
    offsets: _U32,
    neighbours: _U32,
    opposite: _U32,
    evidence: _F64,
    *,
    strength: float,
    max_sweeps: int,
    tol: float,
) -> _Beliefs: ...

class _Readings(Protocol):
    @property
    def starts(self) -> _U32: ...
    @property
    def readings(self) -> _U32: ...
    @property
    def workers(self) -> _U32: ...
    @property
    def tags(self) -> npt.NDArray[np.uint16]: ...
    @property
    def sizes(self) -> tuple[int, int, int]: ...

class _SequenceFit(TypedDict):
    concentration: _F64
    logs: _F64
    steps: _F64
    log_steps: _F64
    prior: _F64
    history: _F64
    n_iter: int
    converged: bool

class _Decoded(TypedDict):
    posterior: _F64
    codes: npt.NDArray[np.uint16]
    starts: _U32
    ends: _U32
    types: _U32
    probability: _F64
    start_probability: _F64
    end_probability: _F64

def sequence_fit(
    readings: _Readings,
    start: _F64,
    *,
    cells: npt.NDArray[np.int32],
    prior: _F64,
    learn: bool,
    first_rounds: int,
    steps: _F64,
    variational: bool,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], object] | None = None,
) -> _SequenceFit: ...
def sequence_evidence(readings: _Readings, logs: _F64) -> _F64: ...
def sequence_decode(
    starts: _U32, evidence: _F64, steps: _F64, spans: bool, codes: npt.NDArray[np.uint16] | None = None
) -> _Decoded: ...
def components(n_workers: int, pairs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]: ...
def simulate(
    n_tasks: int,
    n_workers: int,
    n_classes: int,
    *,
    prior: _F64,
    confusion: _F64,
    truth: npt.NDArray[np.uint16] | None = None,
    per_task: tuple[int, int] | None = None,
    density: _F64 | None = None,
    pairs: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]] | None = None,
    activity: _F64 | None = None,
    groups: npt.NDArray[np.uint32] | None = None,
    copying: float = 1.0,
    seed: int = 0,
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint16]]: ...

class _Factorisation(TypedDict):
    prior: _F64
    confusion: _F64
    history: _F64
    n_iter: int
    converged: bool

def spa(points: _F64, n_pick: int) -> tuple[npt.NDArray[np.uint32], _F64]: ...
def simplex_lstsq(design: _F64, targets: _F64) -> _F64: ...
def assignment(score: _F64) -> npt.NDArray[np.uint32]: ...
def nmf_fit(
    pairs: npt.NDArray[np.uint32],
    joint: _F64,
    prior: _F64,
    confusion: _F64,
    *,
    weights: _F64,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], object] | None = None,
) -> _Factorisation: ...
def cpd_fit(
    n_workers: int,
    prior: _F64,
    confusion: _F64,
    *,
    triples: npt.NDArray[np.uint32],
    triple_values: _F64,
    triple_weights: _F64,
    pairs: npt.NDArray[np.uint32],
    pair_values: _F64,
    pair_weights: _F64,
    first_values: _F64,
    first_weights: _F64,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], object] | None = None,
) -> _Factorisation: ...
def low_rank_fit(
    pairs: npt.NDArray[np.uint32],
    blocks: _F64,
    weights: _F64,
    start: _F64,
    *,
    ridge: float,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], object] | None = None,
) -> _LowRank: ...
def low_rank_residuals(pairs: npt.NDArray[np.uint32], blocks: _F64, factor: _F64) -> _F64: ...
def rank_one_fit(
    n_workers: int,
    pairs: npt.NDArray[np.uint32],
    values: _F64,
    weights: _F64,
    *,
    method: str,
    max_iter: int,
    tol: float,
    components: npt.NDArray[np.uint32] | None = None,
    trim: npt.NDArray[np.uint32] | None = None,
    progress: Callable[[int, float], object] | None = None,
) -> _RankOne: ...
def rank_one_graph(
    n_workers: int, pairs: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]: ...

class _BradleyTerryFit(TypedDict):
    history: _F64
    n_iter: int
    converged: bool
    point: _F64
    slopes: _F64
    biases: _F64
    slope_errors: _F64
    bias_errors: _F64
    spread: _F64

class _CrowdFit(TypedDict):
    history: _F64
    n_iter: int
    converged: bool
    scores: _F64
    reliability: _F64

class _CentralityFit(TypedDict):
    history: _F64
    n_iter: int
    converged: bool
    scores: _F64

class _LuceFit(TypedDict):
    history: _F64
    n_iter: int
    converged: bool
    scores: _F64
    slopes: _F64
    slope_errors: _F64
    model: _F64
    sandwich: _F64
    spread: float

class _Partition(TypedDict):
    clusters: _U32
    n_clusters: int
    objective: float

class _ClusterShares(TypedDict):
    offsets: _U32
    clusters: _U32
    shares: _F64

class _MembershipFit(TypedDict):
    memberships: _F64
    counts: _F64
    history: _F64
    n_iter: int
    converged: bool

def cluster_search(
    left: _U32, right: _U32, evidence: _F64, start: _U32, *, concentration: float | None, seed: int
) -> _Partition: ...
def cluster_shares(left: _U32, right: _U32, evidence: _F64, clusters: _U32) -> _ClusterShares: ...

class _SchemeFit(TypedDict):
    rows: _U32
    means: _F64
    tied: npt.NDArray[np.bool_]
    spread: _F64
    weights: _F64
    losses: _F64
    history: _F64
    n_iter: int
    converged: bool

class _Alignment(TypedDict):
    slots: _U32
    n_slots: _U32
    costs: _F64

def align_texts(offsets: _U32, starts: _U32, tokens: _U32, counts: _U32) -> _Alignment: ...

_Runs = tuple[
    _U32,
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
]

class _Columns(TypedDict):
    stretch_starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    columns: _U32
    column_starts: npt.NDArray[np.int64]
    pixels: npt.NDArray[np.int64]
    said: npt.NDArray[np.uint16]

class _Likeness(TypedDict):
    means: _F64
    products: _F64
    spread: _F64
    middle: _F64
    thickness: _F64
    disputed: npt.NDArray[np.int64]
    marked: npt.NDArray[np.int64]

class _FoundMasks(TypedDict):
    starts: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]
    confidence: _F64

class _DecidedMasks(_FoundMasks):
    disputed: _F64

class _Staple(_DecidedMasks):
    recall: _F64
    accuracy: _F64
    chances: _F64
    n_iter: int
    converged: bool

_OneMask = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]

def coco_counts(text: bytes) -> npt.NDArray[np.int64]: ...
def coco_lengths(runs: _OneMask, size: list[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]: ...
def coco_runs(lengths: npt.NDArray[np.int64], values: npt.NDArray[np.uint16], size: list[int]) -> _OneMask: ...
def crossing_sides(corners: _F64) -> tuple[int, int] | None: ...
def densest(values: _F64, weights: _F64, widths: _F64) -> float: ...
def mask_bytes(runs: _OneMask, size: int) -> npt.NDArray[np.uint8]: ...
def mask_pixels(runs: _OneMask, size: int) -> npt.NDArray[np.uint16]: ...
def mask_runs(pixels: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]) -> _OneMask: ...
def mask_vote(runs: _Runs, weights: _F64) -> _DecidedMasks: ...
def polygon_runs(starts: npt.NDArray[np.int64], corners: _F64, height: int, width: int) -> _OneMask: ...
def staple(
    runs: _Runs,
    workers: _U32,
    weights: _F64,
    n_workers: int,
    n_classes: int,
    *,
    asymmetry: float,
    strength: float | None,
    max_iter: int,
    tol: float,
    chances: bool,
    progress: Callable[[int, float], object] | None = None,
) -> _Staple: ...
def mask_columns(runs: _Runs) -> _Columns: ...
def shape_likeness(runs: _Runs, *, most: float) -> _Likeness: ...
def shape_masks(runs: _Runs, share: _F64, bias: _F64, doubt: _F64, *, most: float) -> _FoundMasks: ...
def match_boxes(offsets: _U32, workers: _U32, boxes: _F64, *, least: float, radius: float) -> _U32: ...
def nearest_points(offsets: _U32, workers: _U32, points: _F64) -> tuple[_F64, _F64]: ...
def edit_counts(starts: _U32, tokens: _U32, other_starts: _U32, other_tokens: _U32) -> _U32: ...
def value_distances(offsets: _U32, values: _F64, measure: str) -> _F64: ...
def word_distances(offsets: _U32, starts: _U32, codes: _U32, measure: str) -> _F64: ...
def scheme_fit(
    offsets: _U32,
    workers: _U32,
    counts: _F64 | None,
    n_workers: int,
    *,
    distances: _F64 | None = None,
    rank: _U32 | None = None,
    values: _F64 | None = None,
    power: float | None,
    strength: float,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], object] | None = None,
) -> _SchemeFit: ...
