"""Masks beside crowd-kit and SimpleITK: mean intersection over union and processor seconds, same data, same run.

    python benches/masks.py --draws 3            # five crowds of ellipses of 128²; needs crowd-kit and SimpleITK
    python benches/masks.py --size 512 --tasks 100 --ours

Ours are timed with the table, from arrays to masks. SimpleITK runs on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

import manyhands as mh

CROWDS = {
    "good 4, loose 3, tight 2, careless 1": {},
    "good 5, loose 5": {"good": 5, "loose": 5, "tight": 0, "careless": 0},
    "good 2, loose 3, tight 2, careless 3": {"good": 2, "loose": 3, "tight": 2, "careless": 3},
    "good 3, tight 2, careless 5": {"good": 3, "loose": 0, "tight": 2, "careless": 5},
    "good 3": {"good": 3, "loose": 0, "tight": 0, "careless": 0},
}


def simple_itk(log: pd.DataFrame) -> list[np.ndarray]:
    import SimpleITK as sitk

    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    found = []
    for _, rows in log.groupby("task"):
        images = [sitk.GetImageFromArray(mask.astype(np.uint8)) for mask in rows.segmentation]
        found.append(sitk.GetArrayFromImage(sitk.STAPLE(images, 1.0)) > 0.5)
    return found


def crowd_kit(name: str) -> Callable[[pd.DataFrame], list[np.ndarray]]:
    def run(log: pd.DataFrame) -> list[np.ndarray]:
        from crowdkit import aggregation

        return [np.asarray(mask) for mask in getattr(aggregation, name)().fit_predict(log)]

    return run


def ours(model: mh.masks.base.MaskAggregator) -> Callable[[pd.DataFrame], list[np.ndarray]]:
    return lambda log: list(model.fit(mh.Masks.from_frame(log, mask="segmentation")).masks_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--draws", type=int, default=1, help="mean IoU and deviation, median of times")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--ours", action="store_true", help="leave others out")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = {
        type(model).__name__: ours(model) for model in (mh.masks.MaskVote(), mh.masks.STAPLE(), mh.masks.ShapeCrowd())
    }
    if not args.ours:
        names = ("SegmentationMajorityVote", "SegmentationRASA", "SegmentationEM")
        methods |= {f"crowd-kit {name}": crowd_kit(name) for name in names}
        methods["SimpleITK STAPLE"] = simple_itk
    for crowd, sizes in CROWDS.items():
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
        for number in range(args.draws):
            drawn = mh.simulate(args.tasks, size=args.size, seed=args.seed + number, **sizes, kind="masks")
            tasks, workers, _ = drawn.log.table.columns()
            arrays = [drawn.log.mask(row) for row in range(len(drawn.log))]
            log = pd.DataFrame({"task": tasks, "worker": workers, "segmentation": arrays})
            for name, run in methods.items():
                start = time.process_time()
                masks = run(log)
                took = time.process_time() - start
                found[name].append((mh.metrics.mask_iou(masks, drawn.truth), took))
        print(f"{crowd}: {drawn.log!r}, {args.size}², {args.draws} draws")
        for name, each in found.items():
            ious, times = np.array(each).T
            spread = f" ± {ious.std(ddof=1):.4f}" if len(ious) > 1 else ""
            print(f"  {name:<36}{ious.mean():.4f}{spread}, {np.median(times):.3f} s", flush=True)


if __name__ == "__main__":
    main()
