"""The default of each kind of answers next to its trivial baseline, on small logs.

    python benches/defaults.py                 simulated pilots of 10 to 100 tasks, all kinds
    python benches/defaults.py --real          random tasks of the 24 logs of people with known classes
    python benches/defaults.py --kinds         whole logs of all kinds with known answers
    python benches/defaults.py --draws 5 …     draws per size (default 30)

Measures count up: accuracy for classes, minus the mean absolute error for grades and the root mean squared error for
numbers, minus the word error rate for texts, F1 for sets of labels, spans and boxes, Kendall's tau for rankings, the
adjusted Rand index for clusters and Dice for masks. Data are looked for in ../shared/data.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import default
import gold
import harness
import manyhands as mh
import numeric
import orders
import texts

SIZES = (10, 20, 50, 100)


@dataclass(frozen=True)
class Kind:
    """A simulator by size and seed, the baseline, and a measure of a model and a crowd that counts up."""

    simulate: Callable[[int, int], Any]
    baseline: Callable[[], Any]
    measure: Callable[[Any, Any], float]


def classes(n_workers: int, n_classes: int, votes: int) -> Kind:
    """Pilots of classes: accuracy, ties shared by the baseline."""

    def right(model: Any, crowd: Any) -> float:
        codes = np.searchsorted(crowd.log.classes, crowd.truth)
        return gold.accuracy(model.posterior_, np.minimum(codes, crowd.log.n_classes - 1))

    def draw(n: int, seed: int) -> Any:
        return mh.simulate(n, n_workers, n_classes, labels_per_task=votes, seed=seed)

    return Kind(draw, mh.MajorityVote, right)


@dataclass(frozen=True)
class Graded:
    """A crowd of grades, with its truth."""

    log: mh.Annotations
    truth: np.ndarray


def grades(n: int, seed: int) -> Graded:
    """Grades of one to five: workers see the true one with noise, and some are lenient."""
    rng = np.random.default_rng([n, seed])
    truth = rng.normal(0, 1.2, n)
    workers = np.argsort(rng.random((n, 10)), axis=1)[:, :5]
    noise, lenient = rng.uniform(0.3, 1.2, 10), rng.normal(0, 0.4, 10)
    seen = truth[:, None] + lenient[workers] + noise[workers] * rng.normal(size=workers.shape)
    cuts = np.array([-1.5, -0.5, 0.5, 1.5])
    codes = np.searchsorted(cuts, seen.ravel())
    tasks = np.repeat(np.arange(n), 5)
    frame = {"task": tasks, "worker": workers.ravel(), "label": codes}
    return Graded(mh.Annotations.from_frame(frame, classes=range(5), ordered=True), np.searchsorted(cuts, truth))


class MedianVote:
    """The lower median of the grades of each task."""

    def fit(self, votes: mh.Annotations) -> MedianVote:
        shares = mh.MajorityVote().fit(votes).posterior_
        self.labels_ = votes.classes[mh.ordinal.decide(shares)]
        return self


def kinds() -> dict[str, Kind]:
    """What is compared, by name."""
    metrics = mh.metrics
    return {
        "2 classes, 10 workers, 5 votes": classes(10, 2, 5),
        "3 classes, 5 workers, 5 votes": classes(5, 3, 5),
        "3 classes, 10 workers, 3 votes": classes(10, 3, 3),
        "4 classes, 20 workers, 5 votes": classes(20, 4, 5),
        "grades; median": Kind(grades, MedianVote, lambda model, c: -np.abs(model.labels_ - c.truth).mean()),
        "numbers; mean": Kind(
            lambda n, seed: mh.simulate(n, 10, answers_per_task=5, seed=seed, kind="numeric"),
            mh.numeric.Mean,
            lambda model, c: -metrics.rmse(model.values_, c.truth),
        ),
        "numbers; median": Kind(
            lambda n, seed: mh.simulate(n, 10, answers_per_task=5, seed=seed, kind="numeric"),
            mh.numeric.Median,
            lambda model, c: -metrics.rmse(model.values_, c.truth),
        ),
        "texts; closest to the others": Kind(
            lambda n, seed: mh.simulate(n, 10, answers_per_task=5, seed=seed, kind="texts"),
            mh.texts.ClosestToCentre,
            lambda model, c: -metrics.word_error_rate(model.texts_, c.truth),
        ),
        "sets of labels; vote": Kind(
            lambda n, seed: mh.simulate(n, 10, answers_per_task=5, seed=seed, kind="multilabel"),
            mh.multilabel.SetVote,
            lambda model, c: metrics.set_scores(model.label_sets_, c.truth).f1,
        ),
        "spans; token vote": Kind(
            lambda n, seed: mh.simulate(n, 8, answers_per_task=4, seed=seed, kind="sequences"),
            mh.sequences.TokenVote,
            lambda model, c: metrics.span_scores(model, c.truth).f1,
        ),
        "comparisons, 10 per item; Bradley–Terry": Kind(
            lambda n, seed: mh.simulate(n, 10, 10 * n, seed=seed, kind="pairwise"),
            mh.pairwise.BradleyTerry,
            lambda model, c: metrics.kendall(model.scores_, c.truth),
        ),
        "clusters; correlation clustering": Kind(
            lambda n, seed: mh.simulate(n, 10, pairs=0.3, seed=seed, kind="clustering"),
            mh.clustering.CorrelationClustering,
            lambda model, c: metrics.adjusted_rand(model.clusters_, c.truth),
        ),
    }


def gap(kind: Kind, n: int, draws: int) -> tuple[float, float, float, float]:
    """The default, the baseline, how far it is ahead, and the standard error of that."""
    found = []
    for seed in range(draws):
        crowd = kind.simulate(n, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = mh.aggregate(crowd.log), kind.baseline().fit(crowd.log)
        found.append([kind.measure(model, crowd) for model in models])
    values = np.array(found)
    ahead = values[:, 0] - values[:, 1]
    return *values.mean(axis=0), ahead.mean(), ahead.std(ddof=1) / np.sqrt(draws)


def report_simulated(draws: int) -> None:
    """Print a row per kind: the default's lead by number of tasks."""
    rows = []
    for name, kind in kinds().items():
        start, row = time.process_time(), {"kind; baseline": name}
        for n in SIZES:
            best, plain, ahead, error = gap(kind, n, draws)
            row[f"{n} tasks"] = f"{abs(best):.3f}, {abs(plain):.3f}: {ahead:+.3f} ± {error:.3f}"
        rows.append(row)
        print(f"{name}: {time.process_time() - start:.1f} s", flush=True)
    print(harness.markdown(rows))


def report_real(draws: int) -> None:
    """Print the default's lead over majority vote on random tasks of the logs of people."""
    rows = []
    leads: dict[int, list[tuple[float, float]]] = {n: [] for n in SIZES}
    for place, name in enumerate(default.LOGS):
        votes, truth = gold.people(name, gold.SHARED)
        of, workers, labels = votes.codes()
        for n in SIZES:
            pairs = []
            for _, some in gold.draws(truth, 0, draws, [place, n]):
                spot = np.full(votes.n_tasks, -1)
                spot[some[:n]] = np.arange(len(some[:n]))
                keep = spot[of] >= 0
                crowd, who = np.unique(workers[keep], return_inverse=True)
                sizes = {"n_tasks": len(some[:n]), "n_workers": len(crowd), "n_classes": votes.n_classes}
                part = mh.Annotations.from_codes(spot[of[keep]], who, labels[keep], **sizes)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    models = mh.aggregate(part), mh.MajorityVote().fit(part)
                pairs.append([gold.accuracy(model.posterior_, truth[some[:n]]) for model in models])
            leads[n].append(tuple(np.mean(pairs, axis=0)))
    for n, found in leads.items():
        values = 100 * np.array(found)
        ahead = values[:, 0] - values[:, 1]
        below = [f"{name} {gain:+.1f}" for name, gain in zip(default.LOGS, ahead, strict=True) if gain < -0.5]
        rows.append(
            {
                "tasks": n,
                "default": f"{values[:, 0].mean():.2f}",
                "majority": f"{values[:, 1].mean():.2f}",
                "more than half a point below": ", ".join(below) or "none",
            }
        )
    print(harness.markdown(rows))


#: Groups of tasks that are left out one at a time for standard errors.
GROUPS = 20


@dataclass(frozen=True)
class Rivals:
    """The default and its baselines on one log, by a measure of some of the tested tasks that counts up."""

    kind: str
    name: str
    #: Of each method, a function from places of tested tasks to the measure; the default comes first.
    measures: dict[str, Callable[[np.ndarray], float]]
    n_tested: int

    def rows(self) -> list[dict[str, str]]:
        """A row per baseline: by how much the default is ahead, with a standard error by leaving groups out."""
        everything = np.arange(self.n_tested)
        group = np.random.default_rng(0).permutation(self.n_tested) % min(GROUPS, self.n_tested)
        n = int(group.max()) + 1
        (best, own), *others = self.measures.items()
        whole, rows = own(everything), []
        parts = [own(everything[group != one]) for one in range(n)]
        for name, measure in others:
            plain = measure(everything)
            gaps = np.array([part - measure(everything[group != one]) for one, part in enumerate(parts)])
            error = np.sqrt((n - 1) / n * ((gaps - gaps.mean()) ** 2).sum())
            ahead = f"{whole - plain:+.4f} ± {error:.4f}"
            verdict = "**below**" if whole - plain < -2 * error else ""
            cells = {"default": f"{best} {abs(whole):.4f}", "baseline": f"{name} {abs(plain):.4f}"}
            rows.append({"kind": self.kind, "log": self.name, **cells, "ahead": ahead, "": verdict})
        return rows


def rivals() -> Any:
    """Logs of all kinds with known answers, with the default and its baselines fitted."""
    data = gold.SHARED
    for name in default.LOGS:
        votes, truth = gold.people(name, data)
        yield of_classes("classes", name, votes, truth)
    for name in gold.PANELS:
        votes, truth = gold.panel(name, data)
        yield of_classes("classes, judges", name, votes, truth)
    for name in ("web", "metaphor_novelty", "s_rel", "adult3"):
        votes, truth = orders.real(name)
        of = np.flatnonzero(truth >= 0)
        fits = {"OrdinalConsensus": mh.aggregate(votes).labels_, "median": MedianVote().fit(votes).labels_}
        codes = {key: np.searchsorted(votes.classes, labels)[of] for key, labels in fits.items()}
        yield Rivals("grades", name, {key: errors(code, truth[of]) for key, code in codes.items()}, len(of))
    for name in gold.NUMBERS:
        ratings, values = numeric.read(data / name, "value")
        models = (mh.aggregate(ratings), mh.numeric.Mean().fit(ratings), mh.numeric.Median().fit(ratings))
        scores = {type(one).__name__: squares(one.values_, values) for one in models}
        yield Rivals("numbers", name, scores, len(values))
    for name, log, truth in gold.sets_of_labels(data):
        of = np.flatnonzero(np.isin(log.tasks, list(truth)))
        sets = [truth[task] for task in log.tasks[of].tolist()]
        models = (mh.aggregate(log), mh.multilabel.SetVote().fit(log))
        yield Rivals("sets", name, {type(one).__name__: overlap(one.label_sets_[of], sets) for one in models}, len(of))
    for name, limit in (("crowdwsa_t1", None), ("crowdwsa_t2", None), ("crowdspeech_dev_clean", 600)):
        log, transcripts = texts.read(name, limit)
        table = mh.Texts.from_frame(log[["task", "worker", "text"]])
        sentences = transcripts.loc[table.tasks.tolist()].tolist()
        models = (mh.aggregate(table), mh.texts.ClosestToCentre().fit(table))
        rates = {type(one).__name__: words(one.texts_, sentences) for one in models}
        yield Rivals("texts", name, rates, table.n_tasks)
    for name, read in comparisons().items():
        frame = read()
        out = np.random.default_rng(0).random(len(frame)) < HELD_OUT
        train, test = frame[~out], frame[out]
        test = test[test["label"] != "tie"]
        table = mh.Comparisons.from_frame(train.rename(columns={"label": "winner"}))
        test = test[test["left"].isin(set(table.items)) & test["right"].isin(set(table.items))]
        models = (mh.aggregate(table), mh.pairwise.BradleyTerry().fit(table))
        chances = {type(one).__name__: log_losses(one, test) for one in models}
        yield Rivals("comparisons, held out", name, chances, len(test))


#: Share of the comparisons that are held out, and the most comparisons of a log.
HELD_OUT, MOST_COMPARED = 0.2, 60_000


def of_classes(kind: str, name: str, votes: mh.Annotations, truth: np.ndarray) -> Rivals:
    """Accuracy next to majority vote, ties shared."""
    of = np.flatnonzero(truth >= 0)
    models = (mh.aggregate(votes), mh.MajorityVote().fit(votes))
    rows = {type(one).__name__: one.posterior_[of] for one in models}
    measure = {key: lambda some, p=p: gold.accuracy(p[some], truth[of[some]]) for key, p in rows.items()}
    return Rivals(kind, name, measure, len(of))


def errors(codes: np.ndarray, truth: np.ndarray) -> Callable[[np.ndarray], float]:
    """Minus the mean absolute error."""
    return lambda some: -float(np.abs(codes[some] - truth[some]).mean())


def squares(values: np.ndarray, truth: np.ndarray) -> Callable[[np.ndarray], float]:
    """Minus the root mean squared error."""
    return lambda some: -mh.metrics.rmse(values[some], truth[some])


def overlap(sets: np.ndarray, truth: list[Any]) -> Callable[[np.ndarray], float]:
    """F1 of the labels."""
    return lambda some: mh.metrics.set_scores(sets[some], [truth[place] for place in some.tolist()]).f1


def words(sentences: np.ndarray, truth: list[str]) -> Callable[[np.ndarray], float]:
    """Minus the word error rate."""
    return lambda some: -mh.metrics.word_error_rate(sentences[some].tolist(), [truth[one] for one in some.tolist()])


def log_losses(model: Any, test: Any) -> Callable[[np.ndarray], float]:
    """Minus the log-loss of held-out decided comparisons, of workers who are not named."""
    left, right = test["left"].tolist(), test["right"].tolist()
    chances = model.predict_proba(left, right)[:, :2]
    chances = chances / chances.sum(axis=1, keepdims=True)
    won = (test["label"] == test["right"]).to_numpy().astype(int)
    losses = -np.log(np.maximum(chances[np.arange(len(won)), won], 1e-12))
    return lambda some: -float(losses[some].mean())


def comparisons() -> dict[str, Callable[[], Any]]:
    """Logs of comparisons, with the columns worker, left, right and label (the winner, or "tie")."""
    import pandas as pd

    def read(name: str) -> Any:
        path = next((gold.SHARED / name).glob("labels.*"))
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype=str)
        frame = frame.astype(str)
        if "same_output" in frame:
            frame = frame[frame["same_output"] != "1"]
        frame = frame.sample(min(len(frame), MOST_COMPARED), random_state=0)
        return frame[["worker", "left", "right", "label"]].reset_index(drop=True)

    names = ("convarg", "age_pairs", "music_sim_pairs", "wmt15_ranking")
    return {name: lambda name=name: read(name) for name in names}


def report_kinds() -> None:
    """Print a row per log and baseline, and the number of logs on which the default is below one beyond noise."""
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in rivals():
            rows += one.rows()
            print(one.kind, one.name, flush=True)
    print(harness.markdown(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--kinds", action="store_true")
    asked = parser.parse_args()
    if asked.kinds:
        report_kinds()
        return
    if asked.real:
        report_real(asked.draws)
    else:
        report_simulated(asked.draws)


if __name__ == "__main__":
    main()
