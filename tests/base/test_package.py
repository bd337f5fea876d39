"""What the package shows of itself: to people, to type checkers, and to whoever waits for it to start."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import manyhands as mh

LAZY = ["defer", "judges", "learn", "plots", "promise"]


def test_dir_lists_what_is_public_and_nothing_else():
    shown = {name for name in dir(mh) if not name.startswith("__")}
    assert shown == {*mh.__all__, *LAZY}
    assert len(shown) <= 45
    assert "__version__" in dir(mh)
    assert len(dir(mh)) == len(set(dir(mh)))
    pytest.importorskip("torch")
    for name in dir(mh):
        getattr(mh, name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("GLAD", "manyhands.categorical.GLAD"), ("MultiSPA", "moments.MultiSPA"), ("DawidSkin", "DawidSkene")],
)
def test_missing_names_are_answered_with_the_likely_one(name, hint):
    with pytest.raises(AttributeError, match=rf"did you mean .*{hint}"):
        getattr(mh, name)
    with pytest.raises(ValueError, match=r"'maxiter'.*'max_iter'"):
        mh.DawidSkene().set_params(maxiter=3)


def test_star_import_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys\nfrom manyhands import *\nassert MajorityVote and simulate and metrics\n"
        "heavy = {'torch', 'matplotlib', 'pandas', 'polars', 'scipy', 'sklearn', 'pyarrow', 'rich'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_leaves_out_what_it_does_not_need_at_once():
    """Each of them takes as long as a tenth of the library's own modules together."""
    code = (
        "import sys, numpy\nbefore = set(sys.modules)\nimport manyhands\nnew = set(sys.modules) - before\n"
        "slow = {'numpy.random', 'statistics', 'importlib.metadata', 'hashlib', 'secrets'}\n"
        "assert not slow & new, slow & new"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_compiled_tables_are_made_where_their_size_is_checked():
    """What is put together elsewhere has gone around the question whether there is room for it."""
    package = Path(mh.__file__).parent
    makers = {
        path.stem
        for path in package.rglob("*.py")
        # A shard is made of bytes that are there already.
        if re.search(r"_core\.(?!(Shard|CsvReader)\b)[A-Z]\w*\(", path.read_text(encoding="utf-8"))
    }
    assert makers == {"data_checks", "rankings_table", "table", "task_table"}


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(AttributeError, match="'majority'"):
        mh.majority  # noqa: B018


def test_type_checkers_see_the_lazy_modules(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(Path(mh.__file__).parents[1]))
    # What others' types are made of plays no part, and following them takes a minute.
    heavy = ",".join(f"{name}.*" for name in ("torch", "numpy", "pandas", "polars", "matplotlib", "rich"))
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n[mypy-{heavy}]\nfollow_imports = skip\n")
    shown = ("learn", "defer", "plots", "__version__", "learn.CrowdLayer", "defer.OneVsAll", "plots.coverage")
    shown += ("load('m.mh', mh.DawidSkene)",)
    lines = ["import manyhands as mh", *(f"reveal_type(mh.{name})" for name in shown)]
    (tmp_path / "user.py").write_text("\n".join(lines))
    options = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    out, _, _ = api.run([*options, "--follow-imports=silent", str(tmp_path / "user.py")])
    found = [line.partition("Revealed type is ")[2] for line in out.splitlines() if "Revealed" in line]
    kinds = dict(zip(shown, found, strict=True))
    assert kinds["learn"] == kinds["defer"] == kinds["plots"] == '"types.ModuleType"'
    assert kinds["__version__"] in ('"builtins.str"', '"str"')
    assert kinds["learn.CrowdLayer"].endswith('-> manyhands.learn.crowd_layer.CrowdLayer"')
    assert kinds["defer.OneVsAll"].endswith('-> manyhands.defer.surrogates.OneVsAll"')
    assert found[-1] == '"manyhands.categorical.dawid_skene.DawidSkene"'
    assert kinds["plots.coverage"].startswith('"def (curves: ')


def test_load_gives_what_was_asked_for_or_refuses(tmp_path):
    votes = mh.Annotations.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "y", "x"])
    votes.save(tmp_path / "votes.mh")
    mh.MajorityVote().fit(votes).save(tmp_path / "model.mh")
    assert mh.load(tmp_path / "votes.mh", mh.Annotations) == votes
    assert isinstance(mh.load(tmp_path / "model.mh", mh.MajorityVote), mh.MajorityVote)
    with pytest.raises(TypeError, match="MajorityVote"):
        mh.load(tmp_path / "votes.mh", mh.MajorityVote)


def test_no_aggregator_is_listed_twice() -> None:
    names = mh.categorical.all_aggregators()
    assert len(set(names)) == len(names)


def test_no_learner_is_listed_twice() -> None:
    pytest.importorskip("torch")
    names = mh.learn.all_learners()
    assert len(set(names)) == len(names)
