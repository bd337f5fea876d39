"""Sentence polarity: 4,999 sentences labelled by 203 workers, 5.5 labels each; TF-IDF and a linear network.

    python benches/learn/polarity.py                    # a few minutes

Accuracy on the sentences trained on, from text and labels together, and on other phrases from the text alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from experiment import Measures, Run, chosen, data_set, parser, repeat, report
from scipy.sparse import csr_matrix
from torch import nn

import manyhands as mh
from manyhands import learn


def main() -> None:
    arguments = parser(__doc__).parse_args()
    folder = data_set(arguments.data, "sentence_polarity")
    arrays = np.load(folder / "features.npz")

    def matrix(part: str) -> csr_matrix:
        values = arrays[f"{part}_data"].astype(np.float32)
        shape = (len(arrays[f"{part}_indptr"]) - 1, int(arrays["n_features"]))
        return csr_matrix((values, arrays[f"{part}_indices"], arrays[f"{part}_indptr"]), shape=shape)

    X, X_test, truth, y_test = matrix("train"), matrix("test"), arrays["y_train"], arrays["y_test"]
    votes = mh.read(folder / "labels.csv")

    def run(make: type[learn.Learner], **options: Any) -> Run:
        def once(seed: int) -> Measures:
            torch.manual_seed(seed)
            backbone = nn.Sequential(nn.Dropout(0.2), nn.Linear(X.shape[1], 2))
            learner = make(backbone, max_epochs=10, seed=seed, weight_decay=1e-5, **options).fit(X, votes)
            return {
                "text": 100 * (learner.predict(X_test).astype(int) == y_test).mean(),
                "text and labels": 100 * (learner.predict(X, votes).astype(int) == truth).mean(),
            }

        return once

    runs = {
        "MajorityTarget": run(learn.MajorityTarget),
        "LearnFromAll": run(learn.LearnFromAll),
        "AggregatedTarget": run(learn.AggregatedTarget),
        "CrowdLayer": run(learn.CrowdLayer),
        "CCEM": run(learn.CCEM),
        "TraceRegularized": run(learn.TraceRegularized),
        "GeoCrowdNet F": run(learn.GeoCrowdNet),
        "DeepEM": run(learn.DeepEM),
        "ModelBootstrappedEM": run(learn.ModelBootstrappedEM),
        "MaxMIG": run(learn.MaxMIG),
    }
    rows = list(repeat(chosen(runs, arguments.only), arguments.seeds))
    alone = mh.DawidSkene().fit(votes)
    share = 100 * (alone.labels_.astype(int)[np.argsort(alone.tasks_.astype(int))] == truth).mean()
    notes = f"""
Accuracy in per cent, mean ± deviation over seeds. Dawid–Skene on the labels alone: {share:.2f}. The test phrases are of
another kind than the sentences; logistic regression on their gold labels reaches 70.
"""
    report("learn-polarity", {"Sentence polarity": rows}, notes, arguments.out)


if __name__ == "__main__":
    main()
