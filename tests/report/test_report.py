"""The page about a log: what it holds, that names are data, and, where there is a browser, that it works there."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import PATIENCE

import manyhands as mh
from manyhands.cli import main
from manyhands.report.content import _agreement

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
    assert data["charts"]["workers"]["encoding"]["y"]["scale"]["domain"] == [0, 1]


def test_coefficients_of_agreement_have_intervals_or_reasons() -> None:
    votes, _ = crowd()
    for name, value, between in _agreement(votes):
        low, high = map(float, between.split(" to "))
        assert low < float(value) < high, name
    alone = mh.Annotations.from_arrays([1, 2], ["a", "a"], ["x", "y"])
    assert all((value, between[:1].isalpha()) == ("not defined", True) for _, value, between in _agreement(alone))


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
    with pytest.raises(FileNotFoundError, match="there is no folder"):
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

    margin = browser.find_elements(By.CSS_SELECTOR, "[data-table=tasks] th button")[4]
    margin.send_keys(Keys.ENTER)  # from the keyboard
    falling = [float(text) for text in cells(browser, "tasks", 4)]
    assert falling == sorted(falling, reverse=True)
    assert len(falling) == 20
    margin.click()
    rising = [float(text) for text in cells(browser, "tasks", 4)]
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
