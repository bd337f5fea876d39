"""A training that processes share is that of one."""

from __future__ import annotations

import numpy as np
import pytest
import shared_training
import torch.distributed as dist
import torch.multiprocessing as processes
from learners import backbone, crowd
from precision import TRAINED

from manyhands import learn


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo")
def test_two_processes_learn_what_one_does(tmp_path):
    processes.spawn(shared_training.run, (str(tmp_path),), nprocs=shared_training.WORLD)
    first, second = (np.load(tmp_path / f"{rank}.npz") for rank in range(shared_training.WORLD))
    plain = shared_training.fits(0)
    assert len(plain) == 9
    for name, expected in plain.items():
        np.testing.assert_allclose(first[name], expected, atol=TRAINED, err_msg=name)
        np.testing.assert_array_equal(second[name], first[name], err_msg=name)
    assert first["ended"] == second["ended"] == 1
    log = shared_training.LOG
    whole = learn.CCEM(shared_training.network(0), max_epochs=3).fit(log.X, log.votes).predict_proba(log.X)
    np.testing.assert_allclose(first["resumed"], whole, atol=TRAINED)
    for found in (first, second):
        assert "process 1 has other votes or settings than process 0" in str(found["refused"])


def test_processes_that_do_not_know_of_one_another():
    log = crowd(n=40)
    with pytest.raises(ValueError, match="init_process_group"):
        learn.CCEM(backbone(), distributed=True).fit(log.X, log.votes)
