"""The page of a desk in a browser: keys, undo, hidden votes, windows, reconnection, forms of all kinds, looks."""

from __future__ import annotations

import json
import shutil
import struct
import warnings
import zlib
from typing import Any

import numpy as np
import pytest
from desks import PATIENCE, serving

import manyhands as mh
from manyhands.desk import Desk

ENTER, RIGHT, SHIFT, NULL, CONTROL, DELETE = "\ue007", "\ue014", "\ue008", "\ue000", "\ue009", "\ue017"
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest):
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
        "--window-size=1200,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield window
    finally:
        window.quit()


@pytest.fixture(scope="module")
def model():
    crowd = mh.simulate(30, 8, 3, labels_per_task=3, ids="str", seed=2).log
    frame = crowd.to_frame().to_pydict()
    words = dict(zip(sorted(set(frame["label"])), ["cat", "dog", EVIL], strict=True))
    frame["label"] = [words[one] for one in frame["label"]]
    frame["worker"] = [f"{one} {EVIL}" for one in frame["worker"]]
    log = mh.Annotations.from_frame(frame)
    return mh.MajorityVote().fit(log.showing({task: f"{task}: {EVIL} & <b>bold</b>" for task in log.tasks.tolist()}))


@pytest.fixture
def desk(model, tmp_path):
    with Desk(model, tmp_path / "log.desk") as desk:
        yield desk


@pytest.fixture
def page(browser, desk):
    """The page, and the desk behind it."""
    with serving(desk, title=f"Pets {EVIL}", person="ann") as client:
        browser.get_log("browser"), browser.get_log("performance")
        open_page(browser, client.address)
        yield browser
        assert_quiet(browser)
        browser.get("about:blank")


def assert_quiet(browser: Any) -> None:
    """Nothing was complained about, and nothing was asked of another machine."""
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith(("http://127.0.0.1:", "data:", "about:")) for url in urls)


def open_page(browser: Any, address: str) -> str:
    browser.get(address)
    return wait_for_task(browser, "")


def wait(browser: Any, condition: Any) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, PATIENCE, poll_frequency=0.02).until(lambda _: condition())


def text(browser: Any, name: str) -> str:
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", name)


def wait_for_task(browser: Any, before: str) -> str:
    def another() -> str | None:
        idle = not browser.execute_script("return document.body.hasAttribute('aria-busy')")
        heading = text(browser, "asked")
        return heading if idle and heading not in ("Loading…", before) else None

    return wait(browser, another)


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    if {CONTROL, SHIFT} & set(keys):  # which only elements hold down
        browser.switch_to.active_element.send_keys(*keys)
    else:
        ActionChains(browser).send_keys(*keys).perform()


def answer(browser: Any, *keys: str) -> str:
    """Press keys that decide a task, and wait for the next one."""
    before = text(browser, "asked")
    press(browser, *keys)
    return wait_for_task(browser, before)


# -------------------------------------------------------------------------------------------------------- working


def test_keys_answer_skip_take_back_and_note(page, desk, model):
    first = text(page, "asked")
    task = first.removeprefix("Task ")
    assert not page.find_element("id", "last").is_displayed()  # nothing of the votes yet
    votes = [one["worker"] for one in desk.question.given(desk.question.row(task))]
    assert not any(worker in text(page, "work") for worker in votes)
    second = answer(page, "2")
    assert desk.decisions()[desk.question.row(task)]["answer"] == "cat"  # classes are sorted: EVIL, cat, dog
    assert desk.decisions()[desk.question.row(task)]["by"] == "ann"
    assert page.find_element("id", "last").is_displayed()
    assert all(worker in text(page, "reveal") for worker in votes)
    assert "1 of 30" in text(page, "figures")
    assert answer(page, "u") == first
    assert not desk.decisions()
    assert answer(page, "s") == second
    assert desk.progress()["n_skipped"] == 1
    press(page, "n")
    press(page, "u3s n")  # a note, and no commands
    press(page, "\ue00c")  # Escape
    answer(page, "1")
    (record,) = desk.decisions().values()
    assert (record["note"], record["answer"]) == ("u3s n", EVIL)
    heading = text(page, "asked")
    press(page, "9", "0", "x")  # no such class
    assert text(page, "asked") == heading
    assert len(desk.decisions()) == 1


def test_all_tasks_can_be_decided_and_the_estimate_appears(page, desk):
    for _ in range(30):
        answer(page, "1")
    assert "No task is left" in text(page, "asked")
    assert "95 % interval" in text(page, "figures")
    assert len(desk.decisions()) == 30
    assert "100.0 %" in text(page, "figures")


def test_the_name_of_the_adjudicator_is_kept(page, desk):
    field = page.find_element("id", "by")
    assert field.get_attribute("value") == "ann"
    field.clear()
    field.send_keys("bob 1s2u")  # keys in a field are text
    page.find_element("id", "asked").click()
    answer(page, "1")
    assert next(iter(desk.decisions().values()))["by"] == "bob 1s2u"
    page.refresh()
    wait_for_task(page, "")
    assert page.find_element("id", "by").get_attribute("value") == "bob 1s2u"
    page.execute_script("localStorage.clear()")


def test_two_windows_do_not_collide_and_a_closed_one_gives_its_task_back(page, desk):
    first = text(page, "asked")
    main, port = page.current_window_handle, page.execute_script("return location.port")
    page.switch_to.new_window("tab")
    page.get(f"http://127.0.0.1:{port}/")
    second = wait_for_task(page, "")
    assert second != first
    third = answer(page, "1")
    assert third not in (first, second)
    page.close()
    page.switch_to.window(main)
    wait(page, lambda: len(desk.queue._held) == 1)
    assert answer(page, "1") == third


def test_a_task_that_another_window_decided_is_replaced(page, desk):
    first = text(page, "asked")
    task = first.removeprefix("Task ")
    (window,) = desk.queue._held
    desk.adjudicate(task, "dog", by="eve", client=window)
    assert answer(page, "2") != first
    assert "eve" in text(page, "message")
    assert desk.decisions()[desk.question.row(task)]["answer"] == "dog"
    assert "409" in page.get_log("browser")[0]["message"]


def test_an_answer_is_kept_while_the_desk_is_away(browser, desk):
    with serving(desk, person="ann") as client:
        first = open_page(browser, client.address)
        port = client.port
    press(browser, "2")
    wait(browser, lambda: browser.find_element("id", "offline").is_displayed())
    assert not desk.decisions()
    with serving(desk, port, person="ann"):
        wait_for_task(browser, first)
        assert not browser.find_element("id", "offline").is_displayed()
        assert desk.decisions()[desk.question.row(first.removeprefix("Task "))]["answer"] == "cat"
        browser.get("about:blank")
    browser.get_log("browser")  # where the failed requests are


def test_without_the_token_there_is_no_page(browser, desk):
    with serving(desk) as client:
        browser.delete_all_cookies()
        browser.get(f"http://127.0.0.1:{client.port}/")
        assert "token" in browser.find_element("tag name", "h1").text
        browser.get(client.address)
        wait_for_task(browser, "")
        assert browser.current_url == f"http://127.0.0.1:{client.port}/"
        browser.get("about:blank")
    browser.get_log("browser")


# ---------------------------------------------------------------------------------------------------------- kinds


def kind_of(name: str, tmp_path: Any) -> Desk:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = mh.simulate(kind=name, seed=1).log
        if name == "sequences":
            lengths = dict(zip(log.sequences.tolist(), log.lengths.tolist(), strict=True))
            log = log.showing({one: " ".join(f"w{place}" for place in range(n)) for one, n in lengths.items()})
        return Desk(mh.aggregate(log), tmp_path / name)


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        ("ordinal", ["4"], 3),
        ("multilabel", ["1", "3", "2", "2", ENTER], [0, 2]),
        ("numeric", ["-", "1", ",", "5", ENTER], -1.5),
        ("pairwise", ["3"], None),
        ("texts", ["a 1 s", CONTROL, ENTER, NULL], "a 1 s"),
        (
            "sequences",
            [RIGHT, SHIFT, RIGHT, RIGHT, NULL, "2", RIGHT, RIGHT, "1", DELETE, "1", ENTER],
            [{"start": 1, "end": 4, "tag": "t1"}, {"start": 5, "end": 6, "tag": "t0"}],
        ),
        ("boxes", ["2"], False),
        ("masks", ["1"], True),
    ],
)
def test_every_kind_is_answered_by_keys(browser, tmp_path, kind, keys, expected):
    with kind_of(kind, tmp_path) as desk, serving(desk, person="ann") as client:
        browser.get_log("browser"), browser.get_log("performance")
        open_page(browser, client.address)
        (window,) = desk.queue._held
        row = desk.queue._held[window].row
        press(browser, *keys)
        wait(browser, lambda: row in desk.decisions())
        assert desk.decisions()[row]["answer"] == expected
        wait(browser, lambda: browser.find_element("id", "last").is_displayed())
        wait(browser, lambda: not browser.execute_script("return document.body.hasAttribute('aria-busy')"))
        content = text(browser, "reveal") + text(browser, "message") + text(browser, "work")
        assert not any(part in content for part in ("{", "null", "undefined", "NaN", "[object"))
        assert ("neither" in text(browser, "message")) == (expected is None)
        assert_quiet(browser)
        browser.get("about:blank")


def test_masks_are_drawn_where_they_are(browser, tmp_path):
    rows = np.zeros((4, 6), bool)
    rows[1, 2:5] = True
    log = mh.Masks.from_arrays(["a", "a"], ["u", "v"], [rows, rows])
    with Desk(mh.aggregate(log), tmp_path / "d") as desk, serving(desk) as client:
        open_page(browser, client.address)
        size, pixels = browser.execute_script(
            "const c = document.querySelector('canvas');"
            "return [[c.width, c.height], [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]]"
        )
        assert size == [6, 4]
        assert (np.array(pixels).reshape(4, 6, 4)[..., 3] > 0).tolist() == rows.tolist()
        browser.get("about:blank")


def png(width: int, height: int) -> bytes:
    """A gray image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_images_and_links_are_shown(browser, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a b#1.png").write_bytes(png(30, 20))
    log = mh.Annotations.from_arrays(["a", "a", "b", "b"], [*"uvuv"], ["x", "y", "x", "y"])
    log = log.showing({"a": "a b#1.png", "b": "https://example.org/?q=<b>"})
    with Desk(mh.aggregate(log), tmp_path / "d") as desk, serving(desk, images=tmp_path / "photos") as client:
        browser.get_log("browser"), browser.get_log("performance")
        headings = {open_page(browser, client.address)}
        for _ in range(2):
            task = text(browser, "asked").removeprefix("Task ")
            if task == "a":
                size = "const i = document.querySelector('#item img'); return i && i.complete ? i.naturalWidth : 0"
                assert wait(browser, lambda code=size: browser.execute_script(code)) == 30
                assert browser.find_element("css selector", "#item img").get_attribute("alt") == "Image of task a"
            else:
                link = browser.find_element("css selector", "#item a")
                assert link.text == "https://example.org/?q=<b>"
                assert link.get_attribute("rel") == "noreferrer noopener"
            headings.add(answer(browser, "1"))
        assert {"Task a", "Task b"} <= headings
        assert_quiet(browser)
        browser.get("about:blank")


# ---------------------------------------------------------------------------------------------------------- looks


def test_names_and_texts_of_the_log_are_text(page, desk):
    answer(page, "1")
    for selector, n in (("script", 1), ("#item *, h1 *, #form img", 0)):
        assert len(page.find_elements("css selector", selector)) == n
    assert EVIL in text(page, "item")
    assert EVIL in text(page, "title")
    assert EVIL in page.title
    assert EVIL in page.execute_script("return document.querySelector('#form button').textContent")


def test_everything_has_a_name_for_screen_readers(page):
    answer(page, "1")
    nodes = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = ("button", "textbox", "progressbar", "region", "form", "complementary", "heading", "image", "link")
    names = [
        (one["role"]["value"], one.get("name", {}).get("value", "").strip()) for one in nodes if not one.get("ignored")
    ]
    unnamed = [one for one in names if one[0] in roles and not one[1]]
    assert unnamed == []
    assert {"Adjudicator", "Decided tasks", "Answer"} <= {name for _, name in names}
    assert ("button", "cat 2") in names or ("button", "cat2") in names
    status = page.find_element("id", "message")
    assert (status.get_attribute("role"), status.get_attribute("aria-live")) == ("status", "polite")
    assert page.execute_script("return document.documentElement.lang") == "en"


@pytest.mark.parametrize("width", [320, 390, 760])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(page, width):
    phone = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        answer(page, "1")
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        heights = page.execute_script(
            "return [...document.querySelectorAll('#form button')].map((b) => b.clientHeight)"
        )
        assert min(heights) >= 38  # a finger
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def luminance(color: str) -> float:
    parts = [int(one) / 255 for one in color[color.index("(") + 1 : -1].split(",")[:3]]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(page, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    try:
        answer(page, "1")
        pairs = page.execute_script(
            """
            const ground = (one) => {
                for (; one; one = one.parentElement) {
                    const color = getComputedStyle(one).backgroundColor;
                    if (!color.endsWith(", 0)")) return color;
                }
            };
            return [...document.querySelectorAll("h1, h2, label, button, dt, dd, td, th, p, #item, kbd")]
                .filter((one) => one.checkVisibility() && one.textContent.trim() && !one.disabled)
                .map((one) => [one.tagName, getComputedStyle(one).color, ground(one)]);
            """
        )
        assert len(pairs) > 20
        paper = luminance(page.execute_script("return getComputedStyle(document.documentElement).backgroundColor"))
        assert (paper < 0.2) == (scheme == "dark")
        for tag, ink, ground in pairs:
            low, high = sorted((luminance(ink), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (tag, ink, ground)
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
