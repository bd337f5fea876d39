"""KOS: its settings, and messages passed one at a time."""

from __future__ import annotations

from twins import Twin, predict_em
from variants import variant_of

import manyhands as mh
from oracles import em, skills


def fit(model: mh.categorical.KOS, votes: mh.Annotations) -> skills.Answer:
    return skills.kos_answer(em.Rows.of(votes), n_iter=model.max_iter, seed=model.seed)


TWINS = {mh.categorical.KOS: Twin(fit, predict_em)}
VARIANTS = {
    mh.categorical.KOS: [
        variant_of(mh.categorical.KOS, "default", {}),
        variant_of(mh.categorical.KOS, "long", {"max_iter": 60, "seed": 7}),
    ],
}
