"""Two classes with the experts of Max-MIG's Dogs vs. Cats and LUNA16 (Cao et al. 2019, Fig. 4, Table 3, App. B.1).

    python benches/learn/binary.py
    python benches/learn/binary.py --only MaxMIG,DeepEM --seeds 5

MNIST: odd against even digits for dogs and cats, half of each, and for LUNA16 with so few odd ones that 85 per cent are
even ("benign"). Max-MIG learns the prior, as in the paper. One hidden layer, Adam, the last epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from experiment import Measures, Run, chosen, data_set, fully_connected, on_new_samples, parser, repeat, report

import manyhands as mh
from manyhands import learn

#: Share of odd digits, by whose experts label them.
ODD = {"dogs-vs-cats": 0.5, "luna16": 0.15}


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--images", type=int, default=3_000)
    made.add_argument("--epochs", type=int, default=10)
    arguments = made.parse_args()
    arrays = np.load(data_set(arguments.data, "mnist") / "features.npz")

    def part(name: str, n: int, share: float) -> tuple[torch.Tensor, np.ndarray]:
        odd = (arrays[f"y_{name}"] % 2).astype(int)
        n_odd = round(share * n)
        keep = np.sort(np.concatenate([np.flatnonzero(odd)[:n_odd], np.flatnonzero(1 - odd)[: n - n_odd]]))
        return torch.from_numpy(arrays[f"X_{name}"][keep].astype(np.float32) / 255).flatten(1), odd[keep]

    def table(source: str, expertise: str, mistakes: str) -> list[dict[str, Any]]:
        X, truth = part("train", arguments.images, ODD[source])
        X_test, y_test = part("test", 3_000, ODD[source])

        def run(make: type[learn.Learner], **options: Any) -> Run:
            def once(seed: int) -> Measures:
                both = np.concatenate([truth, y_test])
                log = mh.categorical.synthetic.experts(
                    both, 2, expertise=expertise, mistakes=mistakes, source=source, seed=seed
                )
                backbone = fully_connected(X.shape[1], 2, hidden=64, dropout=0.2, seed=seed)
                settings = {"max_epochs": arguments.epochs, "batch_size": 128, "lr": 3e-3, "seed": seed} | options
                learner = make(backbone, **settings).fit(X, log.log.select(tasks=range(len(truth))))
                return on_new_samples(learner, log.log, X_test, y_test)

            return once

        runs = {
            "MajorityTarget": run(learn.MajorityTarget),
            "CrowdLayer": run(learn.CrowdLayer),
            "DoctorNet": run(learn.DoctorNet),
            "DeepEM": run(learn.DeepEM),
            "MaxMIG": run(learn.MaxMIG, prior="learnt", shrinkage=0.0),
            "MaxMIG with an even prior": run(learn.MaxMIG, prior="uniform", shrinkage=0.0),
        }
        return list(repeat(chosen(runs, arguments.only), arguments.seeds))

    tables: dict[str, list[dict[str, Any]]] = {}
    for source in ODD:
        images, together = {}, {}
        for expertise in ("high", "low"):
            for mistakes in ("independent", "naive", "correlated"):
                print(f"{source}: {expertise} expertise, {mistakes} mistakes", flush=True)
                for row in table(source, expertise, mistakes):
                    case = f"{expertise}: {mistakes}"
                    images.setdefault(row["method"], {"method": row["method"]})[case] = row["image"]
                    together.setdefault(row["method"], {"method": row["method"]})[case] = row["both"]
        tables[f"{source}, from the image"] = list(images.values())
        tables[f"{source}, from image and labels"] = list(together.values())
    notes = """
Accuracy on new images in per cent, mean ± deviation over seeds. Always "even" is right 50 and 85 times in a hundred.
What this does not show: the images of the paper, labels missing, other juniors.
"""
    report("learn-binary", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
