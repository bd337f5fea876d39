"""Few samples: do learners that know workers beat a plain network on the majority, when there are some hundred?

    python benches/learn/few.py                         # 14 real logs, 384 samples each; half an hour
    python benches/learn/few.py --samples 100,1000 --only MajorityTarget,MaxMIG
    python benches/learn/few.py --logs others           # ten logs that no setting was chosen on

Real logs with known classes have no features, so those are simulated: 64 numbers a sample, normal around a centre of
its class. At most so many tasks are drawn of each log. One hidden layer of 64, thirty epochs, the last one, all
settings as they are by default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from experiment import Measures, Run, chosen, data_set, fully_connected, parser, repeat, report

import manyhands as mh
from manyhands import learn

LOGS = (
    "bluebird,dog,face,weather_cf,weather_cf_amt,temp,ducks,bm_tweets,web,cifar10s,metaphor_novelty,reuters,"
    "mcqa_validation,sentence_polarity"
)
#: Logs that were looked at after all settings were fixed.
OTHERS = "hitspam_cf,product,s_rel,trec2010,fact_eval,chaoyang,nih_cxr,imagenet15n,labelme,cifar10n"
FEATURES, SEPARATION, NEW = 64, 2.2, 4_000


def draw(folder: Path, n: int, seed: int) -> tuple[Any, ...]:
    """Features, votes, features and classes of other samples, and the classes of the first."""
    votes, gold = (_frame(folder, name) for name in ("labels", "gold"))
    truth = gold.set_index("task").label
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(votes.task[votes.task.isin(truth.index)].unique())[:n]
    votes = votes[votes.task.isin(tasks)]
    classes = sorted(set(votes.label) | set(truth))
    codes = {name: code for code, name in enumerate(classes)}
    rows = {task: row for row, task in enumerate(tasks)}
    centres = rng.normal(size=(len(classes), FEATURES))
    centres *= SEPARATION / np.linalg.norm(centres, axis=1, keepdims=True)
    y = np.array([codes[truth[task]] for task in tasks])
    y_new = rng.choice(y, NEW)
    X, X_new = ((centres[of] + rng.normal(size=(len(of), FEATURES))).astype(np.float32) for of in (y, y_new))
    table = mh.Annotations.from_arrays(
        [rows[task] for task in votes.task],
        votes.worker.to_numpy(),
        [codes[label] for label in votes.label],
        classes=range(len(classes)),
    )
    return X, table, X_new, y_new, y


def _frame(folder: Path, name: str) -> pd.DataFrame:
    (path,) = folder.glob(f"{name}.csv*")
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--logs", default=LOGS, help="names of data sets, or others")
    made.add_argument("--samples", default="384")
    made.add_argument("--epochs", type=int, default=30)
    arguments = made.parse_args()
    logs = OTHERS if arguments.logs == "others" else arguments.logs
    folders = {name: data_set(arguments.data, name) for name in logs.split(",")}

    def run(n: int, make: type[learn.Learner], **options: Any) -> Run:
        def once(seed: int) -> Measures:
            found = {}
            for name, folder in folders.items():
                X, votes, X_new, y_new, _ = draw(folder, n, seed)
                backbone = fully_connected(FEATURES, votes.n_classes, hidden=64, dropout=0, seed=seed)
                learner = make(backbone, max_epochs=arguments.epochs, seed=seed, **options).fit(X, votes)
                found[name] = 100 * (learner.predict(X_new).astype(int) == y_new).mean()
            return {"mean": float(np.mean(list(found.values()))), **found}

        return once

    tables = {}
    for n in map(int, arguments.samples.split(",")):
        runs = {
            "MajorityTarget": run(n, learn.MajorityTarget),
            "SoftTarget": run(n, learn.SoftTarget),
            "AggregatedTarget": run(n, learn.AggregatedTarget),
            "CrowdLayer": run(n, learn.CrowdLayer),
            "TraceRegularized": run(n, learn.TraceRegularized),
            "DeepEM": run(n, learn.DeepEM),
            "MaxMIG": run(n, learn.MaxMIG),
            "MaxMIG as published": run(n, learn.MaxMIG, prior="uniform", shrinkage=0.0),
        }
        title = f"at most {n} samples"
        print(title, flush=True)
        tables[title] = list(repeat(chosen(runs, arguments.only), arguments.seeds))
    notes = """
Accuracy on new samples in per cent, mean ± deviation over seeds. What this does not show: real features, other
networks. The settings of MaxMIG and DeepEM were chosen on the fourteen logs (two seeds), and not on the others.
"""
    report("learn-few", tables, notes, arguments.out)


if __name__ == "__main__":
    main()
