"""Plain twins of what aggregates masks, pixel by pixel. An image is an array (answers, height, width) of classes."""

from __future__ import annotations

import numpy as np

from oracles.bayes import fixed_point


def vote(image: np.ndarray, k: int) -> np.ndarray:
    """The class of most votes, of equal ones the lowest."""
    counts = np.stack([(image == c).sum(axis=0) for c in range(k)])
    return counts.argmax(axis=0)


def staple(images, k, *, asymmetry, strength, passes):
    """Masks, and the recall of each worker (row of the images) of each class, by decisions on disputed pixels."""
    m, prior = len(images[0]), np.array([2.0, 1.0])
    disputed = [(image != image[0]).any(axis=0) for image in images]
    chances = [np.stack([(image == c).mean(axis=0) for c in range(k)]) for image in images]
    for _ in range(passes):
        right, could = np.zeros((m, k)), np.zeros((m, k))
        for image, where, chance in zip(images, disputed, chances, strict=True):
            if not where.any():
                continue
            best = chance >= chance.max(axis=0) - 1e-9
            truth = best / best.sum(axis=0) * where / where.sum()
            for worker in range(m):
                for c in range(k):
                    could[worker, c] += truth[c].sum()
                    right[worker, c] += truth[c][image[worker] == c].sum()
        own, seen = right.sum(axis=1), could.sum(axis=1)
        pull, crowd = strength, own.sum() / seen.sum() if seen.any() else 0.5
        if strength is None:
            for _ in range(20):
                prior = fixed_point(prior, np.vstack([np.stack([own, np.maximum(seen - own, 0)], axis=1), [2.0, 1.0]]))
            pull, crowd = prior.sum(), prior[0] / prior.sum()
        accuracy = (own + pull * crowd) / (seen + pull)
        own = (right + pull * accuracy[:, None]) / (could + pull)
        recall = np.clip(asymmetry * own + (1 - asymmetry) * accuracy[:, None], 0.02, 0.98)
        chances = [_chances(image, recall, k) for image in images]
    return [np.argmax(chance >= chance.max(axis=0) - 1e-9, axis=0) for chance in chances], recall


def _chances(image, recall, k):
    found = np.zeros((k, *image.shape[1:]))
    for c in range(k):
        for worker, said in enumerate(image):
            found[c] += np.log(np.where(said == c, recall[worker, c], (1 - recall[worker, c]) / (k - 1)))
        found[c][(image != c).all(axis=0)] = -np.inf
    odds = np.exp(found - found.max(axis=0))
    return odds / odds.sum(axis=0)


# -------------------------------------------------------------------------------------------------- runs, polygons


def runs(pixels):
    """Begin, end and class of each run of a mask, pixel by pixel in row order; background has none."""
    found, flat = [], [0, *np.asarray(pixels, int).reshape(-1).tolist(), 0]
    for at in range(1, len(flat)):
        if flat[at] != flat[at - 1]:
            if flat[at - 1]:
                found[-1][1] = at - 1
            if flat[at]:
                found.append([at - 1, None, flat[at]])
    return found


def coco(pixels):
    """Lengths and classes of a mask's runs, columns first, background included."""
    lengths, values = [], []
    for pixel in np.asarray(pixels).T.reshape(-1).tolist():
        if values and values[-1] == pixel:
            lengths[-1] += 1
        else:
            lengths.append(1)
            values.append(pixel)
    return lengths, values


def coco_text(lengths):
    """COCO's short text of lengths: differences from the one before last, in groups of five bits, the lowest first."""
    found = ""
    for place, length in enumerate(lengths):
        left = length - (lengths[place - 2] if place > 2 else 0)
        while True:
            part, left = left & 31, left >> 5
            # The last group's highest bit is the sign.
            last = left == (-1 if part & 16 else 0)
            found += chr(48 + part + (0 if last else 32))
            if last:
                break
    return found


def inside(rings, height, width):
    """Pixels whose centres a ray to the right leaves through an odd number of sides, of all rings together."""
    found = np.zeros((height, width), bool)
    for row in range(height):
        for column in range(width):
            y, x = row + 0.5, column + 0.5
            for ring in rings:
                for (x0, y0), (x1, y1) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
                    if (y0 <= y) != (y1 <= y) and x0 + (y - y0) * (x1 - x0) / (y1 - y0) > x:
                        found[row, column] ^= True
    return found


def crossing(ring):
    """The first two sides of a polygon that cross, each tried with each."""
    n = len(ring)

    def turn(a, b, c):
        return np.sign((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))

    for one in range(n):
        for other in range(one + 2, n - (one == 0)):
            a, b, c, d = ring[one], ring[(one + 1) % n], ring[other], ring[(other + 1) % n]
            if turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0:
                return one, other
    return None


# ------------------------------------------------------------------------------------------------------ outlines


def columns(image):
    """Distinct columns of an image's answers, in the order in which pixels have them, and the column of each pixel."""
    known, places = [], []
    for pixel in image.reshape(len(image), -1).T.tolist():
        if pixel not in known:
            known.append(pixel)
        places.append(known.index(pixel))
    return np.array(known).T, places


def thickness(image) -> float:
    """Median, over masks that are not empty, of the radius of a disc with such an area for its sides."""
    found = []
    for mask in image > 0:
        around = np.pad(mask, 1).astype(int)
        sides = sum(int(np.abs(np.diff(around, axis=axis)).sum()) for axis in (0, 1))
        if mask.any():
            found.append(8 / np.pi * mask.sum() / sides)
    return float(np.median(found))


def distances(image, c, most):
    """How far within the outline of a class the disputed pixels are, (answers, pixels); all is background beyond."""
    disputed = np.argwhere((image != image[0]).any(axis=0))
    radius, found = thickness(image), []
    for mask in image == c:
        around = np.pad(mask, 1, constant_values=c == 0)
        y, x = np.mgrid[: around.shape[0], : around.shape[1]] - 1
        row = []
        for place in disputed:
            inside = mask[tuple(place)]
            others = around != inside
            far = np.hypot(y[others] - place[0], x[others] - place[1]).min() if others.any() else np.inf
            row.append((1 if inside else -1) * min((far - 0.5) / radius, most))
        found.append(row)
    return np.array(found)


def shapes(images, *, reach, strength, passes):
    """Masks, bias, noise and reliability of each worker (row of the images), pixel by pixel; two classes."""
    m = len(images[0])
    far = [distances(image, 1, reach) for image in images if (image != image[0]).any()]
    deep = [np.clip((reach * thickness(image) - 1) / 0.5, 0, 1) for image in images if (image != image[0]).any()]
    usual = reach**2 / 9
    bias, variance = np.zeros(m), np.full(m, reach**2 / 9)
    sure, lapse, prior, on = np.full(m, 0.9), reach**2 / 2, np.array([9.0, 1.0]), [np.ones(m) for _ in far]
    for step in range(passes):
        squares, shifts = [], []
        for each, sound, depth in zip(far, on, deep, strict=True):
            precision = (depth * sound + 1 - depth) / (variance**depth * usual ** (1 - depth)) + 1e-9
            if step == 0:
                some = each[:, :: max(each.shape[1] // 512, 1)]
                middle = np.median(some, axis=0)
                squares.append(((some - middle) ** 2).mean(axis=1))
                shifts.append(each.mean(axis=1) - middle.mean())
                continue
            meant = each - depth * bias[:, None]
            mean = precision @ meant / precision.sum()
            doubt = min(1 / precision.sum(), reach**2)
            squares.append(((meant - mean) ** 2).mean(axis=1) + doubt)
            shifts.append(each.mean(axis=1) - mean.mean())
        on = [_sound(each, variance, sure, lapse) for each in squares]
        n = np.sum(on, axis=0)
        usual = (np.sum([o * e for o, e in zip(on, squares, strict=True)]) + 0.01 * reach) / (n.sum() + 1)
        total = np.sum([o * e for o, e in zip(on, squares, strict=True)], axis=0)
        variance = np.maximum((total + strength * usual) / (n + strength), 0.05 * usual)
        lapsed = [(1 - o) * e for o, e in zip(on, squares, strict=True)]
        lapse = max((np.sum(lapsed) + reach**2 / 2) / (np.sum([1 - o for o in on]) + 1), 4 * usual)
        bias = _bias(np.sum([o * s for o, s in zip(on, shifts, strict=True)], axis=0), n, variance, usual)
        counts = np.stack([n, np.maximum(len(far) - n, 0)], axis=1)
        prior = fixed_point(prior, np.vstack([counts, [9.0, 1.0]]))
        sure = np.clip((n + prior[0]) / (len(far) + prior.sum()), 0.02, 0.98)
    found, rest = [], iter(zip(far, on, deep, strict=True))
    for image in images:
        mask, where = image[0].copy(), (image != image[0]).any(axis=0)
        if where.any():
            each, sound, depth = next(rest)
            precision = (depth * sound + 1 - depth) / (variance**depth * usual ** (1 - depth)) + 1e-9
            mask[where] = precision @ (each - depth * bias[:, None]) / precision.sum() > 1e-9
            mask = mask if depth else vote(image, 2)
        found.append(mask)
    return found, bias, np.sqrt(variance), sure


def _sound(squares, variance, sure, lapse):
    # Two independent errors an outline.
    usual = sure / variance * np.exp(-squares / variance)
    off = (1 - sure) / lapse * np.exp(-squares / lapse)
    return np.where(squares >= lapse, np.minimum(usual / (usual + off), 1e-6), usual / (usual + off))


def _bias(shifts, n, variance, usual):
    seen = n > 0.5
    if not seen.any():
        return np.zeros(len(n))
    mean, share = shifts[seen] / n[seen], n[seen] / n[seen].sum()
    between = (share * (mean - (share * mean).sum()) ** 2).sum() * seen.sum() / max(seen.sum() - 1, 1)
    between = max(between - (share * variance[seen] / (2 * n[seen])).sum(), 1e-3 * usual)
    own = shifts / (n + np.clip(variance / (2 * between), 0.05, 1e3))
    apart = _apart(np.sort(own[seen]), (variance[seen] / (2 * n[seen])).sum())
    return own - apart * _densest(own, variance, n) - (1 - apart) * _middle(own, n)


def _apart(values, error):
    """Probability of two groups and not one, by BIC: normal ones of one variance, parted wherever it is likeliest."""
    n, best = len(values), -np.inf
    if n < 4:
        return 0.0
    for left in range(1, n):
        groups = values[:left], values[left:]
        within = sum(((group - group.mean()) ** 2).sum() for group in groups) + error
        shares = sum(len(group) * np.log(len(group) / n) for group in groups)
        best = max(best, n / 2 * np.log((((values - values.mean()) ** 2).sum() + error) / within) + shares)
    gain = best - np.log(n)
    return 0.0 if 1 / (1 + np.exp(-gain)) <= 1e-3 else 1 / (1 + np.exp(-gain))


def _densest(own, variance, n):
    width, n = np.sqrt(variance / np.maximum(n, 1) + 0.1 * variance), n + 1e-9
    best = max(np.sort(own).tolist(), key=lambda x: (n / width / (1 + ((own - x) / width) ** 2)).sum())
    for _ in range(50):
        near = n / width**2 / (1 + ((own - best) / width) ** 2) ** 2
        best = (near * own).sum() / near.sum()
    return best


def _middle(own, n):
    order = np.argsort(own)
    reached = np.cumsum(n[order])
    return np.interp(reached[-1] / 2, reached - n[order] / 2, own[order])
