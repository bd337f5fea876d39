"""Agreement as the definitions say it: sums over pairs of labels, nothing shared, nothing cancelled."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np


def labels_by_task(rows) -> list[list[int]]:
    """The labels of each task."""
    return [rows.labels[rows.tasks == task].tolist() for task in range(rows.n_tasks)]


def distance(shape: str, positions, a: int, b: int) -> float:
    """How much two labels differ."""
    if shape == "nominal" or a == b:
        return float(a != b)
    gap, total = abs(positions[a] - positions[b]), positions[a] + positions[b]
    return {"linear": gap, "quadratic": gap**2, "ratio": (gap / total) ** 2 if gap else 0.0}[shape]


def alpha(tasks: list[list[int]], shape: str, positions) -> float:
    """Krippendorff's alpha from all ordered pairs of labels: within tasks, and at all."""
    units = [task for task in tasks if len(task) > 1]
    pooled = [label for task in units for label in task]
    if not units:
        return np.nan
    observed = sum(
        distance(shape, positions, a, b) / (len(task) - 1) for task in units for a, b in permutations(task, 2)
    ) / len(pooled)
    expected = sum(distance(shape, positions, a, b) for a, b in permutations(pooled, 2))
    expected /= len(pooled) * (len(pooled) - 1)
    return 1 - observed / expected if expected > 0 else np.nan


def ordinal_alpha(tasks: list[list[int]], n_classes: int) -> float:
    """Alpha in which two labels differ by the square of how many labels rank between them, half their own included."""
    counts = np.bincount([label for task in tasks if len(task) > 1 for label in task], minlength=n_classes)

    def between(a: int, b: int) -> float:
        low, high = min(a, b), max(a, b)
        return float(counts[low : high + 1].sum() - (counts[low] + counts[high]) / 2)

    # A table of positions in which differences are those of the definition: from the first class on.
    positions = [0.0 if k == 0 else between(0, k) for k in range(n_classes)]
    for a, b in combinations(range(n_classes), 2):
        assert np.isclose(abs(positions[a] - positions[b]), between(a, b))
    return alpha(tasks, "quadratic", positions)


def observed_disagreement(tasks: list[list[int]], shape: str, positions) -> float:
    """The mean, over tasks, of the mean over ordered pairs of labels."""
    means = [
        np.mean([distance(shape, positions, a, b) for a, b in permutations(task, 2)]) for task in tasks if len(task) > 1
    ]
    return float(np.mean(means)) if means else np.nan


def class_shares(tasks: list[list[int]], n_classes: int) -> np.ndarray:
    """The mean, over tasks, of the shares of labels."""
    return np.mean([np.bincount(task, minlength=n_classes) / len(task) for task in tasks if task], axis=0)


def fleiss(tasks: list[list[int]], shape: str, positions) -> float:
    k = len(positions)
    shares = class_shares(tasks, k)
    expected = sum(shares[a] * shares[b] * distance(shape, positions, a, b) for a in range(k) for b in range(k))
    observed = observed_disagreement(tasks, shape, positions)
    return 1 - observed / expected if expected > 1e-15 else np.nan


def one_class(tasks: list[list[int]], chosen: int) -> dict[str, float]:
    """What there is to say of a class, from ordered pairs of labels."""
    pairs = [pair for task in tasks for pair in permutations(task, 2) if pair[0] == chosen]
    met = [other for _, other in pairs if other != chosen]
    often = max(set(met), key=lambda other: (met.count(other), -other)) if met else None
    return {
        "n_answers": sum(task.count(chosen) for task in tasks),
        "n_tasks": sum(chosen in task for task in tasks),
        "agreement": np.mean([other == chosen for _, other in pairs]) if pairs else np.nan,
        "kappa": fleiss([[int(label == chosen) for label in task] for task in tasks], "nominal", [0, 1]),
        "confused_with": often,
        "confused": met.count(often) / len(pairs) if met else np.nan,
    }


def gwet(tasks: list[list[int]], shape: str, positions) -> float:
    k = len(positions)
    if k == 1:
        return np.nan
    apart = np.array([[distance(shape, positions, a, b) for b in range(k)] for a in range(k)])
    weights = 1 - apart / apart.max()
    shares = class_shares(tasks, k)
    chance = weights.sum() / (k * (k - 1)) * (shares * (1 - shares)).sum()
    agreed = 1 - observed_disagreement(tasks, shape, positions) / apart.max()
    return (agreed - chance) / (1 - chance)


#: What two workers said of the same task: the task, the label of the first and that of the second.
Meeting = tuple[int, int, int]


def meetings(rows) -> dict[tuple[int, int], list[Meeting]]:
    """What each pair of workers said of the tasks that both labelled."""
    found: dict[tuple[int, int], list[Meeting]] = {}
    triples = list(zip(rows.tasks, rows.workers, rows.labels, strict=True))
    for task, worker, label in triples:
        for other_task, other, other_label in triples:
            if task == other_task and worker < other:
                found.setdefault((int(worker), int(other)), []).append((int(task), int(label), int(other_label)))
    return found


def kappa(met: list[Meeting], shape: str, positions, *, shared: bool = False) -> float:
    """Cohen's kappa of pairs of labels, or Scott's pi where chance draws from the labels of both."""
    first, second = [a for _, a, _ in met], [b for _, _, b in met]
    if shared:
        first = second = first + second
    observed = np.mean([distance(shape, positions, a, b) for _, a, b in met]) if met else 0.0
    expected = np.mean([distance(shape, positions, a, b) for a in first for b in second]) if met else 0.0
    return 1 - observed / expected if expected > 0 else np.nan


def pooled_kappa(
    pairs: list[list[Meeting]], shape: str, positions, *, shared: bool = False, even: bool = False
) -> float:
    """One minus observed over expected disagreement, each averaged over pairs; chance never looks at one task twice."""
    observed = expected = 0.0
    for met in pairs:
        if shared:
            said = [(task, label) for task, a, b in met for label in (a, b)]
            chance = [distance(shape, positions, a, b) for s, a in said for t, b in said if s != t]
        else:
            chance = [distance(shape, positions, a, b) for s, a, _ in met for t, _, b in met if s != t]
        if chance:
            weight = 1 if even else len(met)
            observed += weight * np.mean([distance(shape, positions, a, b) for _, a, b in met])
            expected += weight * np.mean(chance)
    return 1 - observed / expected if expected > 0 else np.nan


def squashed_kappa(met: list[Meeting], shape: str, positions) -> float:
    """The logistic function of Cohen's kappa, less its bias by leaving out one task at a time."""

    def squashed(some: list[Meeting]) -> float:
        value = kappa(some, shape, positions)
        return 1 / (1 + np.exp(-(whole if np.isnan(value) else value)))

    whole = kappa(met, shape, positions)
    tasks = sorted({task for task, _, _ in met})
    without = np.mean([squashed([m for m in met if m[0] != task]) for task in tasks])
    return len(tasks) * squashed(met) - (len(tasks) - 1) * without
