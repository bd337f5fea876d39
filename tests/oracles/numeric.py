"""Plain twins of the kernels for numbers: one rating at a time, from the formulas."""

import numpy as np


def rows_of(table, dim, unit, centre):
    """Task, worker, value in the view's units, and weight of each rating."""
    tasks, workers, values = table.columns()
    weights = table.weights()
    weights = np.ones(len(tasks)) if weights is None else weights
    return [
        (int(t), int(w), float(x) * unit - centre, float(v))
        for t, w, x, v in zip(tasks, workers, values[:, dim], weights, strict=True)
    ]


def expected_square(x, y, var_y, worker):
    """E(x - b - a·y)² where a and b have the moments of a worker, and y a mean and a variance."""
    _, a, b, aa, ab, bb = worker
    return x * x - 2 * b * x - 2 * a * x * y + 2 * ab * y + bb + aa * (y * y + var_y)


def gaussian_pass(table, dim, unit, centre, workers, prior, *, freedom=None, last=None, shapes=None, residuals=None):
    """One step of the Gaussian model."""
    rows = rows_of(table, dim, unit, centre)
    mean, precision = prior
    factor, logs = np.ones(len(rows)), np.zeros(len(rows))
    each = np.array([workers[w][0] for _, w, _, _ in rows])
    for i, (task, w, x, weight) in enumerate(rows):
        if freedom is not None:
            square = expected_square(x, last[task, 0], 1 / last[task, 1] if last[task, 1] > 0 else 0.0, workers[w])
            factor[i] = (freedom + 1) / (freedom + each[i] * square)
            logs[i] = np.log(freedom + each[i] * square)
        if shapes is not None:
            each[i] = (shapes[w, 0] - weight / 2) / (shapes[w, 1] - weight * residuals[i] / 2)
    each = each * factor
    total, pull = np.full(table.n_tasks, precision), np.full(table.n_tasks, precision * mean)
    for i, (task, w, x, weight) in enumerate(rows):
        total[task] += weight * each[i] * workers[w][3]
        pull[task] += weight * each[i] * (workers[w][1] * x - workers[w][4])
    values = np.empty(table.n_tasks)
    for task in range(table.n_tasks):
        own = [(x, weight) for t, _, x, weight in rows if t == task]
        weight = sum(v for _, v in own)
        values[task] = (
            pull[task] / total[task] if total[task] > 0 else sum(x * v for x, v in own) / weight if weight else mean
        )
    var = np.divide(1, total, out=np.zeros_like(total), where=total > 0)
    sums, others = np.zeros((table.n_workers, 8)), np.zeros(len(rows) if shapes is not None else 0)
    for i, (task, w, x, weight) in enumerate(rows):
        y, v, count = values[task], var[task], weight * factor[i]
        square = 0.0 if shapes is None else residuals[i]
        sums[w] += [
            count,
            count * x,
            count * x * x,
            count * y,
            count * (y * y + v),
            count * x * y,
            count * square,
            weight * logs[i],
        ]
        if shapes is not None:
            rest = total[task] - weight * each[i] * workers[w][3]
            without = pull[task] - weight * each[i] * (workers[w][1] * x - workers[w][4])
            others[i] = expected_square(x, without / rest, 1 / rest, workers[w])
    return np.stack([values, np.maximum(total, 0)], axis=1), sums, others


def spread(table, dim, unit, centre, worker_weights=None):
    """Means of tasks, and differences of workers from them."""
    rows = rows_of(table, dim, unit, centre)
    of = np.ones(table.n_workers) if worker_weights is None else worker_weights
    tasks, workers = np.zeros((table.n_tasks, 4)), np.zeros((table.n_workers, 3))
    for task in range(table.n_tasks):
        own = [(w, x, count) for t, w, x, count in rows if t == task]
        weights = np.array([count * of[w] for w, _, count in own])
        x = np.array([x for _, x, _ in own])
        if weights.sum() > 0:
            mean = (weights * x).sum() / weights.sum()
            share = sum(count * of[w] ** 2 for w, _, count in own) / weights.sum() ** 2
        else:
            mean, share = x.mean() if len(x) else 0.0, 1 / max(len(x), 1)
        tasks[task] = weights.sum(), mean, (weights * (x - mean) ** 2).sum(), share
        for (w, value, _), weight in zip(own, weights, strict=True):
            workers[w] += weight, weight * (value - mean), weight * (value - mean) ** 2
    return tasks, workers


def trimmed_means(table, dim, unit, centre, trim):
    """Trimmed means, by repeating every rating in thousandths of its weight."""
    rows = rows_of(table, dim, unit, centre)
    values = np.empty(table.n_tasks)
    for task in range(table.n_tasks):
        own = [(x, count) for t, _, x, count in rows if t == task and count > 0]
        own = own or [(x, 1.0) for t, _, x, _ in rows if t == task]
        long = np.sort(np.concatenate([np.repeat(x, round(1000 * count)) for x, count in own]))
        cut = round(trim * len(long))
        values[task] = np.median(long) if 2 * cut >= len(long) else long[cut : len(long) - cut].mean()
    return values


def covariance_sums(table, dim, unit, centre, means, factors, rank):
    """Normal equations of least squares over pairs of ratings by different workers on the same task."""
    rows = rows_of(table, dim, unit, centre)
    sums = np.zeros((table.n_workers, rank + rank * rank))
    for t, i, x, v in rows:
        for u, j, y, w in rows:
            if t == u and i != j:
                sums[i, :rank] += v * w * (x - means[i]) * (y - means[j]) * factors[j]
                sums[i, rank:] += v * w * np.outer(factors[j], factors[j]).ravel()
    return sums


def factor_scores(table, dim, unit, centre, means, precisions, factors, target):
    """Best linear predictor of target · f, from the covariance of the ratings themselves."""
    rows = [row for row in rows_of(table, dim, unit, centre) if row[3] > 0]
    found = np.zeros((table.n_tasks, 2))
    for task in range(table.n_tasks):
        own = [row for row in rows if row[0] == task]
        a = np.array([factors[w] for _, w, _, _ in own]).reshape(len(own), len(target))
        noise = np.diag([1 / (precisions[w] * v) for _, w, _, v in own]).reshape(len(own), len(own))
        z = np.array([x - means[w] for _, w, x, _ in own])
        covariance, shared = a @ a.T + noise, a @ target
        weights = np.linalg.solve(covariance, shared) if len(own) else shared
        found[task] = weights @ z, target @ target - shared @ weights
    return found
