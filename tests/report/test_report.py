"""The page about a log: what it holds, that names are data, and, where there is a browser, that it works there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import PATIENCE

import manyhands as mh
from manyhands._base.verdict import about, percent
from manyhands.cli import main
from manyhands.report import charts
from manyhands.report.content import _agreement, half_of_errors, to_review

EVIL = "</script><script>document.title='broken'</script><b onmouseover=alert(1)>\u2028&amp;"


def crowd() -> tuple[mh.Annotations, np.ndarray]:
    made = mh.simulate(90, 12, 3, labels_per_task=5, seed=4)
    tasks, workers, labels = made.log.codes()
    names = np.array([EVIL, *(f"w{n}" for n in range(1, 12))], object)
    votes = mh.Annotations.from_arrays(
        [f"q{n:02}" for n in tasks], names[workers], np.array(["cat", "dog", EVIL], object)[labels]
    )
    return votes, np.array(["cat", "dog", EVIL], object)[made.truth]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    votes, truth = crowd()
    path = tmp_path_factory.mktemp("report") / "report.html"
    mh.aggregate(votes).report(path, gold=(votes.tasks, truth), title=f"Birds {EVIL}")
    return path


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found
    return json.loads(found.group(1))


def test_the_page_tells_what_the_model_found(page: Path) -> None:
    votes, _ = crowd()
    model = mh.aggregate(votes)
    data = data_of(page)
    tasks = data["tables"]["tasks"]
    names = [column["name"] for column in tasks["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in tasks["rows"]]
    assert len(rows) == votes.n_tasks
    assert [row["margin"] for row in rows] == sorted(row["margin"] for row in rows)
    wanted = dict(zip(votes.tasks.tolist(), model.labels_.tolist(), strict=True))
    assert {row["task"]: row["label"] for row in rows} == wanted
    workers = data["tables"]["workers"]
    assert len(workers["rows"]) == votes.n_workers
    np.testing.assert_allclose(
        data["matrices"]["matrices"][1],
        model.confusion_[np.argsort(-votes.labels_per_worker, kind="stable")[0]],
        atol=1e-4,
    )
    assert sum(bar["tasks"] for bar in data["charts"]["confidence"]["data"]["values"]) == votes.n_tasks
    dots = data["charts"]["workers"]["data"]["values"]
    assert all(dot["low"] <= dot["accuracy"] <= dot["high"] for dot in dots)


def _layers(chart: Any, data: Any = None) -> Iterator[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Yield the data and encodings of each layer of a chart; a layer without data uses those of the chart."""
    data = chart.get("data", data)
    if "layer" not in chart:
        yield data["values"], chart["encoding"]
    for layer in chart.get("layer", ()):
        yield from _layers(layer, data)


def test_charts_draw_what_their_data_hold(page: Path) -> None:
    for name, chart in data_of(page)["charts"].items():
        for rows, encoding in _layers(chart):
            fields = set(re.findall(r"'field': '(\w+)'", repr(encoding)))
            assert fields, name
            assert all(fields <= row.keys() for row in rows), name


def test_coefficients_of_agreement_have_intervals_or_reasons() -> None:
    votes, _ = crowd()
    for name, value, interval, _ in _agreement(votes):
        low, high = map(float, interval.split("\u2013"))
        assert low < float(value) < high, name
    alone = mh.Annotations.from_arrays([1, 2], ["a", "a"], ["x", "y"])
    assert all((value, reason[:1].isalpha()) == ("not defined", True) for _, value, reason, _ in _agreement(alone))


def test_names_are_data(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "<b onmouseover" not in text
    assert "document.title='broken'</script>" not in text
    assert EVIL in [row[0] for row in data_of(page)["tables"]["workers"]["rows"]]


def test_the_page_asks_nothing_of_the_network(page: Path) -> None:
    own = re.sub(r"<script>.*?</script>", "", page.read_text("utf-8"), flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["']https?:""", own)
    assert "default-src 'none'" in own


def test_large_tables_go_beside_the_page(tmp_path: Path) -> None:
    votes = mh.simulate(1500, 2100, 2, labels_per_task=3, seed=1).log
    model = mh.MajorityVote().fit(votes)
    files = model.report(tmp_path / "big.html", audit=False)
    assert [path.name for path in files] == ["big.html", "big-tasks.csv", "big-workers.csv"]
    assert len((tmp_path / "big-tasks.csv").read_text().splitlines()) == votes.n_tasks + 1
    assert len(data_of(files[0])["tables"]["tasks"]["rows"]) == 500
    assert files[0].stat().st_size < 5_000_000


def test_bad_places_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    votes, _ = crowd()
    model = mh.MajorityVote().fit(votes)
    with pytest.raises(ValueError, match=r"\.html"):
        model.report(tmp_path / "report.pdf")
    with pytest.raises(FileNotFoundError, match="folder"):
        model.report(tmp_path / "nowhere" / "report.html")
    model.save(tmp_path / "model.mh")
    with pytest.raises(ValueError, match="answers"):
        mh.load(tmp_path / "model.mh").report(tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["model.mh"]


def test_the_command_line_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    mh.simulate(60, 6, 3, labels_per_task=4, seed=0).log.to_frame().to_pandas().to_csv(log, index=False)
    out = tmp_path / "report.html"
    assert main(["report", str(log), "-o", str(out), "--method", "majority"]) == 0
    assert "60 tasks answered by 6 workers" in out.read_text("utf-8")
    assert str(out) in capsys.readouterr().out


def spammed() -> mh.Annotations:
    """A log in which worker 3 of 20 guesses."""
    tasks, workers, labels = mh.simulate(2000, 20, 3, crowd="one-coin", labels_per_task=10, seed=1).log.codes()
    labels = labels.copy()
    labels[workers == 3] = np.random.default_rng(0).integers(0, 3, int((workers == 3).sum()))
    return mh.Annotations.from_arrays(tasks, np.array([f"w{n}" for n in range(20)])[workers], labels)


def test_the_first_paragraph_names_what_to_review_and_whom_to_leave_out(tmp_path: Path) -> None:
    votes = spammed()
    model = mh.aggregate(votes)
    [page] = [path for path in model.report(tmp_path / "r.html", source="log.csv") if path.suffix == ".html"]
    text = page.read_text("utf-8")
    verdict = re.search(r'<p class="verdict">(.*?)</p>', text, re.DOTALL)
    assert verdict
    assert '<a href="#workers" data-worker="w3">w3</a>' in verdict[1]
    assert about(float(model.posterior_.max(axis=1).mean())) in verdict[1]
    assert "log.csv" in text
    assert f"manyhands {mh.__version__}" in text
    assert re.search(r"\d{4}-\d\d-\d\d", text)
    workers = data_of(page)["tables"]["workers"]
    first = dict(zip([column["name"] for column in workers["columns"]], workers["rows"][0], strict=True))
    assert (first["worker"], first["flag"]) == ("w3", "spammer")


def verdict_of(page: Path) -> str:
    match = re.search(r'<p class="verdict">(.*?)</p>', page.read_text("utf-8"), re.DOTALL)
    assert match
    return re.sub(r"<.*?>", "", match[1])


def test_the_verdict_compares_confidences_with_the_answers_that_are_correct(tmp_path: Path) -> None:
    crowd = mh.simulate(300, 12, 2, labels_per_task=5, seed=2)
    model = mh.aggregate(crowd.log)
    for truth, words in ((model.labels_, "too low"), (1 - np.asarray(model.labels_), "too high")):
        page = model.report(tmp_path / "r.html", gold=(model.tasks_, truth))[0]
        assert f"confidences of these answers are {words}" in verdict_of(page)
        assert f"expect {percent(model.confidence_.mean(), 1)}" in verdict_of(page)


@pytest.mark.parametrize(("slope", "stands_out"), [(1.0, False), (-1.0, True)])
def test_the_verdict_names_the_worst_worker_where_intervals_allow_it(
    slope: float, stands_out: bool, tmp_path: Path
) -> None:
    log = mh.simulate(10, [1.0] * 9 + [slope], 3000, kind="pairwise", seed=0).log
    verdict = verdict_of(mh.aggregate(log).report(tmp_path / "r.html", votes=log)[0])
    assert ("No worker is clearly worse" in verdict) is not stands_out
    assert ("lowest skill is 9." in verdict) is stands_out


def test_one_answer_to_review_is_worded_as_one() -> None:
    (one,), (two,) = (to_review(n, "answer", "lowest confidence", "expected errors") for n in (1, 2))
    assert one[0] == "Review the answer with the lowest confidence first: it holds half of the expected errors."
    assert two[0].startswith("Review the 2 answers")


def test_rows_set_aside_in_reading_are_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"t{task},{worker},{task % 2}" for task in range(20) for worker in "abc"]
    Path("log.csv").write_text("\n".join(["task,worker,label", *rows, "t3,d,", "t4,d,"]))
    assert main(["report", "log.csv", "-o", "r.html"]) == 0
    assert "set aside 2 rows without a label" in capsys.readouterr().err
    text = Path("r.html").read_text("utf-8")
    assert "<li>set aside 2 rows without a label</li>" in text
    assert text.count("set aside 2 rows") == 1


def test_half_of_the_expected_errors_are_in_the_answers_to_review() -> None:
    assert half_of_errors([0.5, 0.9, 0.9, 0.9]) == 1
    assert half_of_errors([0.9] * 10) == 5
    assert half_of_errors([1.0, 1.0]) == 0
    assert half_of_errors([]) == 0


def test_intervals_of_a_share_hold_it_and_stay_in_range() -> None:
    # Wilson's interval of 0 in 10 and of 5 in 10, from its formula.
    np.testing.assert_allclose(charts.wilson(0.0, 10), (0.0, 0.27753), atol=1e-5)
    np.testing.assert_allclose(charts.wilson(0.5, 10), (0.23659, 0.76341), atol=1e-5)


def test_charts_of_many_workers_count_them_by_cell() -> None:
    votes = mh.simulate(900, 400, 2, labels_per_task=5, seed=1).log
    spec = charts.accuracies(mh.MajorityVote().fit(votes).workers_frame())
    assert spec["mark"]["type"] == "rect"
    assert sum(cell["workers"] for cell in spec["data"]["values"]) == votes.n_workers


@pytest.mark.parametrize("kind", ["multilabel", "texts", "masks", "objects"])
def test_answers_that_are_right_in_part_are_not_counted_as_correct(kind: str, tmp_path: Path) -> None:
    log = mh.simulate(kind=kind, seed=1).log
    model = mh.aggregate(log)
    page = model.report(tmp_path / "r.html", votes=log)[0]
    verdict = verdict_of(page)
    assert "answers are expected to be correct." not in verdict
    assert "half of the doubt" in verdict
    assert percent(float(np.nanmean(model.to_frame().column("confidence").to_numpy()))) in verdict
    columns = {column["name"]: column["about"] for column in data_of(page)["tables"]["tasks"]["columns"]}
    assert columns["confidence"] != "probability that the answer is correct"


def test_answers_without_a_confidence_have_a_page_without_its_mean(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = mh.texts.ClosestToCentre().fit(mh.simulate(kind="texts", seed=1).log)
    answers = model.to_frame()
    unknown = answers.set_column(2, "confidence", pa.array(np.full(len(answers), np.nan)))
    monkeypatch.setattr(mh.texts.ClosestToCentre, "to_frame", lambda model: unknown)
    model.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Mean confidence" not in page
    assert "confidence" not in data_of(tmp_path / "r.html")["charts"]


@pytest.mark.parametrize("kind", ["numeric", "pairwise", "boxes", "multilabel", "sequences"])
def test_pages_are_worded_for_the_kind(kind: str, tmp_path: Path) -> None:
    log = mh.simulate(kind=kind, seed=1).log
    model = mh.aggregate(log)
    page = model.report(tmp_path / "r.html", votes=log)[0]
    text, data = page.read_text("utf-8"), data_of(page)
    titles = {column["name"]: column["title"] for column in data["tables"]["tasks"]["columns"]}
    assert type(model).__name__ + "()" not in text
    if kind == "pairwise":
        assert ">Leaderboard</h2>" in text
        chart = data["charts"]["confidence"]["data"]["values"]
        assert [one["item"] for one in chart] == [str(name) for name in model.to_frame().column("item").to_pylist()]
        assert all(one["low"] < one["score"] < one["high"] for one in chart)
    elif kind == "numeric":
        assert "confidence" not in titles
        assert titles["low"] == "95\N{NO-BREAK SPACE}% low"
        place = list(titles).index("low")
        task = data["tables"]["tasks"]["rows"][0]
        row = model.tasks_.tolist().index(int(task[0]))
        assert task[place] == pytest.approx(model.intervals(0.95)[row, 0])
    elif kind == "boxes":
        assert data["tables"]["alone"]["n_rows"] == 90
    elif kind == "multilabel":
        assert all(row[list(titles).index("labels")] for row in data["tables"]["tasks"]["rows"])


@pytest.mark.parametrize("scale", ["characters", "tokens"])
def test_spans_show_their_words(scale: str, tmp_path: Path) -> None:
    text = "Ann met Bob in Rome"
    begins, ends = ([0, 8], [3, 11]) if scale == "characters" else ([0, 2], [1, 3])
    lengths_or_texts = {"texts": {"d": text}} if scale == "characters" else {"lengths": {"d": 5}}
    votes = mh.Sequences.from_spans(["d"] * 6, begins * 3, ends * 3, list("uuvvww"), ["NAME"] * 6, **lengths_or_texts)
    votes = votes._showing(pa.array([text]))
    table = data_of(mh.aggregate(votes).report(tmp_path / "r.html", votes=votes)[0])["tables"]["tasks"]
    place = [column["name"] for column in table["columns"]].index("words")
    assert sorted(row[place] for row in table["rows"]) == ["Ann", "Bob"]


@pytest.mark.parametrize("n_workers", [3, 400])
def test_axes_of_answers_have_positive_domains_where_nothing_is_drawn(n_workers: int) -> None:
    unknown = np.full(n_workers, np.nan)
    columns = {"worker": np.arange(n_workers), "n_answers": np.full(n_workers, 7)}
    chart = charts.accuracies(pa.table(columns | {"skill": unknown, "skill_error": unknown}))
    for part in chart.get("layer", [chart]):
        low, high = part["encoding"]["x"]["scale"]["domain"]
        assert 0 < low < high


# ------------------------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser(page: Path, request: pytest.FixtureRequest):
    if request.config.getoption("--quick"):
        pytest.skip("not in the quick tier")
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("there is no Chromium with its driver here (Debian: chromium, chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1200,1600",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        window.get(page.as_uri())
        yield window
    finally:
        window.quit()


def cells(browser: Any, table: str, column: int) -> list[str]:
    rows = "[...document.querySelectorAll(`[data-table=${arguments[0]}] tbody tr`)]"
    return browser.execute_script(f"return {rows}.map(row => row.cells[arguments[1]].textContent)", table, column)


def test_tables_are_sorted_and_searched(browser: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    margin = browser.find_elements(By.CSS_SELECTOR, "[data-table=tasks] th button")[5]
    margin.send_keys(Keys.ENTER)  # from the keyboard
    falling = [float(text) for text in cells(browser, "tasks", 5)]
    assert falling == sorted(falling, reverse=True)
    assert len(falling) == 20
    margin.click()
    rising = [float(text) for text in cells(browser, "tasks", 5)]
    assert rising == sorted(rising)
    search = browser.find_element(By.CSS_SELECTOR, "[data-table=workers] input")
    search.send_keys("W11")
    assert cells(browser, "workers", 0) == ["w11"]
    search.clear()
    search.send_keys("<script>")
    assert cells(browser, "workers", 0) == [EVIL]


def test_charts_and_matrices_are_drawn(browser: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select, WebDriverWait

    WebDriverWait(browser, PATIENCE).until(lambda b: len(b.find_elements(By.CSS_SELECTOR, ".chart svg")) == 4)
    before = browser.find_element(By.ID, "matrix").text
    Select(browser.find_element(By.ID, "who")).select_by_index(3)
    assert browser.find_element(By.ID, "matrix").text != before


def test_on_a_phone_columns_keep_a_width_and_keys_scroll_to_them(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        cells = "[...document.querySelectorAll('td[data-column=votes]')]"
        assert browser.execute_script(f"return Math.min(...{cells}.map(cell => cell.clientWidth))") > 200
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        region = browser.find_element("css selector", "[data-table=tasks] .scroll")
        browser.execute_script("arguments[0].focus()", region)
        region.send_keys(Keys.ARROW_RIGHT)
        WebDriverWait(browser, PATIENCE).until(lambda b: b.execute_script("return arguments[0].scrollLeft", region) > 0)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def colours(browser: Any) -> set[tuple[int, ...]]:
    """Computed colours of what charts are drawn with, but for what is not drawn at all."""
    drawn = """
        return [...document.querySelectorAll(".chart svg *")].flatMap((one) => {
            const style = getComputedStyle(one);
            return one.tagName === "text" ? [style.fill] : [style.fill, style.stroke];
        })"""
    found = {text for text in browser.execute_script(drawn) if text.startswith("rgb(")}
    return {tuple(int(part) for part in text[4:-1].split(",")) for text in found}


def test_charts_follow_the_screen_and_are_light_on_paper(browser: Any) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, PATIENCE).until(lambda b: len(b.find_elements("css selector", ".chart svg")) == 4)
    accents = {"light": (43, 95, 179), "dark": (138, 180, 248)}
    inks = {("light", ""): (28, 33, 40), ("dark", ""): (228, 232, 238)}
    inks |= {("light", "print"): (0, 0, 0), ("dark", "print"): (0, 0, 0)}
    try:
        for (scheme, media), ink in inks.items():
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
            expected = accents["light" if media else scheme]
            WebDriverWait(browser, PATIENCE).until(lambda b, drawn=frozenset({ink, expected}): drawn <= colours(b))
            seen = colours(browser)
            assert not ({*inks.values(), *accents.values()} - {ink, expected, (0, 0, 0)}) & seen
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_nothing_breaks_and_nothing_is_asked_for(browser: Any, page: Path) -> None:
    assert browser.title.startswith("Birds </script>")
    assert not browser.get_log("browser")
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [entry["params"]["request"]["url"] for entry in asked if entry["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith(("file:", "data:", "blob:")) for url in urls)


def test_headings_are_not_broken_inside_words_and_downloads_hold_no_formulas():
    from importlib import resources

    style = (resources.files("manyhands.report") / "page.css").read_text(encoding="utf-8")
    broken = [line for line in style.splitlines() if "overflow-wrap: anywhere" in line]
    assert not any(" th" in line.split("{")[0] for line in broken)
    assert "background-attachment: local" in style  # the shadow that shows that a table goes on
    script = (resources.files("manyhands.report") / "page.js").read_text(encoding="utf-8")
    assert r"/^[=+\-@\t\r]/" in script
