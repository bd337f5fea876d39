"""The desk over HTTP: work, errors, security, Label Studio's protocol, and the command."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from desks import PATIENCE, Client, serving

import manyhands as mh
from manyhands._base.write import write_table
from manyhands.cli import main
from manyhands.desk import Desk, export

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

CLASSES = ["cat", "dog", "</script><b>fish"]


@pytest.fixture(scope="module")
def log():
    crowd = mh.simulate(80, 8, 3, labels_per_task=3, ids="str", seed=2).log.to_frame()
    words = dict(zip(sorted(set(crowd["label"].to_pylist())), CLASSES, strict=True))
    frame = crowd.set_column(2, "label", pa.array([words[one] for one in crowd["label"].to_pylist()]))
    return frame.append_column("text", pa.array([f"<i>{one}</i> & more" for one in frame["task"].to_pylist()]))


@pytest.fixture(scope="module")
def model(log):
    contents = dict(zip(log["task"].to_pylist(), log["text"].to_pylist(), strict=True))
    return mh.MajorityVote().fit(mh.Annotations.from_frame(log).showing(contents))


@pytest.fixture
def client(model, tmp_path):
    with Desk(model, tmp_path / "log.desk") as desk, serving(desk, title="pets", person="ann") as client:
        yield client


# ---------------------------------------------------------------------------------------------------------- work


def test_a_task_is_asked_decided_taken_back_and_skipped(client):
    status, session = client.get("/session")
    assert (status, session["classes"], session["title"]) == (200, sorted(CLASSES), "pets")
    _, content = client.post("/next", client="w1")
    task = content["task"]
    assert set(task) == {"task", "row", "shown", "image"}
    assert task["shown"] == f"<i>{task['task']}</i> & more"
    status, outcome = client.post("/adjudicate", task=task["task"], answer="dog", by="ann", client="w1", note="blurred")
    assert (status, outcome["decision"]["answer"], outcome["decision"]["note"]) == (200, "dog", "blurred")
    assert len(outcome["votes"]) == 3
    assert outcome["progress"]["n_decided"] == 1
    assert client.get(f"/explain?task={task['task']}")[1]["decided"]["by"] == "ann"
    status, content = client.post("/undo", client="w1")
    assert (status, content["task"]["task"], content["progress"]["n_decided"]) == (200, task["task"], 0)
    status, content = client.post("/skip", task=task["task"], client="w1")
    assert (status, content["progress"]["n_skipped"]) == (200, 1)
    assert client.post("/next", client="w1")[1]["task"]["task"] != task["task"]


def test_votes_stay_hidden_until_the_decision_unless_the_desk_is_open(client, model, tmp_path):
    task = client.post("/next", client="w1")[1]["task"]["task"]
    assert client.get(f"/explain?task={task}")[0] == 409
    with Desk(model, tmp_path / "open") as desk, serving(desk, blind=False) as client2:
        content = client2.post("/next", client="w1")[1]["task"]
        assert len(content["votes"]) == 3
        assert content["answer"] in CLASSES
        assert client2.get(f"/explain?task={task}")[0] == 200


def test_concurrent_windows_decide_every_task_once(client):
    def work(window: str) -> list[str]:
        tasks = []
        while (task := client.post("/next", client=window)[1]["task"]) is not None:
            status, _ = client.post("/adjudicate", task=task["task"], answer="cat", by=window, client=window)
            assert status == 200
            tasks.append(task["task"])
        return tasks

    with ThreadPoolExecutor(8) as pool:
        tasks = [task for part in pool.map(work, [f"w{place}" for place in range(8)]) for task in part]
    assert len(tasks) == len(set(tasks)) == 80
    assert client.get("/progress")[1]["n_decided"] == 80


def test_images_come_from_the_folder_and_from_nowhere_else(tmp_path):
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "one.png").write_bytes(b"\x89PNG one")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "photos" / "link.png").symlink_to(tmp_path / "secret.png")
    names = ["a/one.png", "../secret.png", str(tmp_path / "secret.png"), "link.png", "a/missing.png", "a\0.png"]
    frame = {"task": list("abcdef"), "worker": ["w"] * 6, "label": ["x", "y"] * 3}
    contents = dict(zip("abcdef", names, strict=True))
    model = mh.MajorityVote().fit(mh.Annotations.from_frame(frame).showing(contents))
    with Desk(model, tmp_path / "d") as desk, serving(desk, images=tmp_path / "photos") as client:
        status, headers, body = client.raw("GET", "/image?task=a")
        assert (status, headers["content-type"], body) == (200, "image/png", b"\x89PNG one")
        assert [client.raw("GET", f"/image?task={task}")[0] for task in "bcdef"] == [404] * 5
        assert client.raw("GET", "/image?task=z")[0] == 404


# -------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"task": "t01", "answer": "bird"}, 422),
        ({"task": "t01", "answer": None}, 422),
        ({"task": "t01", "answer": {"a": [1]}}, 422),
        ({"task": "nowhere", "answer": "cat"}, 404),
        ({"task": {"a": 1}, "answer": "cat"}, 404),
        ({"task": None, "answer": "cat"}, 404),
        ({"answer": "cat"}, 422),
        ({"task": "t01"}, 422),
        ({"task": "t01", "answer": "cat", "by": 7}, 422),
        ({"task": "t01", "answer": "cat", "note": "x" * 10_001}, 422),
        ({"task": "t01", "answer": "cat", "by": "\ud800"}, 422),
    ],
)
def test_bad_decisions_are_answered_and_change_nothing(client, content, status):
    reply, body = client.post("/adjudicate", **content)
    assert reply == status
    assert body["error"]
    assert client.get("/progress")[1]["n_decided"] == 0


def test_what_was_decided_elsewhere_is_a_conflict(client):
    task = client.post("/next", client="w1")[1]["task"]["task"]
    assert client.post("/adjudicate", task=task, answer="cat", client="w2")[0] == 409
    client.post("/adjudicate", task=task, answer="cat", client="w1", by="ann")
    status, body = client.post("/adjudicate", task=task, answer="dog", client="w2")
    assert status == 409
    assert "ann" in body["error"]
    assert client.post("/undo", client="w9", by="bob")[0] == 409


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"client": NaN}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[]", "application/json", 422),
        (b"{}", "application/json", 422),
        (b'{"client": "w1"}', "text/plain", 415),
        (b"client=w1", "application/x-www-form-urlencoded", 415),
    ],
)
def test_bodies_that_are_not_json_objects_are_rejected(client, body, kind, status):
    reply, _, content = client.raw("POST", "/next", body, Content_Type=kind)
    assert reply == status
    assert json.loads(content)["error"]


def test_a_full_disk_is_reported_and_the_decision_can_be_sent_again(client, monkeypatch):
    import errno

    task = client.post("/next", client="w1")[1]["task"]["task"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        status, body = client.post("/adjudicate", task=task, answer="cat", client="w1")
    assert status == 507
    assert "No space left" in body["error"]
    assert client.get("/progress")[1]["n_decided"] == 0
    assert client.post("/adjudicate", task=task, answer="cat", client="w1")[0] == 200


# ------------------------------------------------------------------------------------------------------ security


@pytest.mark.parametrize("token", ["", "Bearer wrong", "Basic !!!", "Basic eDp5", "Bearer \xe9"])
def test_without_the_token_nothing_is_answered(client, token):
    for method, path in (("GET", "/session"), ("GET", "/page.js"), ("GET", "/openapi.json"), ("POST", "/next")):
        status, _, body = client.raw(method, path, b"{}" if method == "POST" else None, Authorization=token)
        assert status == 401, path
        assert b"token" in body
    assert client.raw("GET", "/", Authorization=token)[0] == 401
    assert client.raw("GET", "/?token=wrong", Authorization=token)[0] == 401
    assert client.raw("GET", "/health", Authorization=token)[0] == 200


def test_the_token_comes_as_basic_password_query_or_cookie(client):
    basic = base64.b64encode(f"label-studio:{client.token}".encode()).decode()
    assert client.get("/session", Authorization=f"Basic {basic}")[0] == 200
    assert client.get(f"/session?token={client.token}", Authorization="")[0] == 200
    status, headers, _ = client.raw("GET", f"/?token={client.token}", Authorization="")
    assert (status, headers["location"]) == (303, "/")  # the address bar does not keep it
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    status, _, page = client.raw("GET", "/", Authorization="", Cookie=cookie.partition(";")[0])
    assert status == 200
    assert client.token.encode() not in page


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:1", ""])
def test_other_hosts_are_not_answered(client, host):
    with socket.create_connection(("127.0.0.1", client.port), PATIENCE) as connection:
        line = f"GET /session HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {client.token}\r\n"
        connection.sendall(f"{line}Connection: close\r\n\r\n".encode())
        assert b" 421 " in connection.makefile("rb").readline()


def test_other_sites_cannot_send_requests(client):
    body = b'{"client": "w1"}'
    assert client.raw("POST", "/next", body, Origin="http://evil.example")[0] == 403
    assert client.raw("POST", "/next", body, Origin="null")[0] == 403
    assert client.raw("POST", "/next", body, Origin=f"http://127.0.0.1:{client.port}")[0] == 200


def test_a_body_of_a_gigabyte_is_not_read(client):
    for length in ("Content-Length: 1000000000", "Transfer-Encoding: chunked"):
        with socket.create_connection(("127.0.0.1", client.port), PATIENCE) as connection:
            head = f"POST /adjudicate HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nAuthorization: Bearer {client.token}"
            connection.sendall(f"{head}\r\nContent-Type: application/json\r\n{length}\r\n\r\n".encode())
            n_bytes, part = 0, b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
            try:
                while n_bytes < 100_000_000:
                    connection.sendall(part)
                    n_bytes += len(part)
            except OSError:
                pass  # the desk hung up
            assert n_bytes < 30_000_000  # what is under way, and 8 MB
    assert client.get("/progress")[0] == 200


def test_answers_forbid_frames_scripts_of_others_and_caches(client):
    for path in ("/", "/page.js", "/session", "/nowhere"):
        status, headers, _ = client.raw("GET", path)
        assert status == (404 if path == "/nowhere" else 200)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    assert client.raw("DELETE", "/session")[0] == 405


def test_the_page_asks_nothing_of_other_machines():
    folder = Path(mh.__file__).parent / "desk"
    for name in ("page.html", "page.css", "page.js"):
        addresses = re.findall(r"https?://[^\"'\s]*", (folder / name).read_text("utf-8"))
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, name
        assert "innerHTML" not in (folder / name).read_text("utf-8")


def test_only_this_machine_is_listened_to(client):
    from manyhands.desk.serve import _listening

    with _listening(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


# ------------------------------------------------------------------------------------------------- the interface


def test_the_document_describes_every_path(client):
    status, document = client.get("/openapi.json")
    assert (status, document["openapi"]) == (200, "3.1.0")
    for path, methods in document["paths"].items():
        for method in methods:
            content = b"{}" if method == "post" else None
            reply = client.raw(method.upper(), path, content)[0]
            assert str(reply) in methods[method]["responses"], (path, reply)
    # Answered only when many logs are aggregated at once.
    assert "503" in document["paths"]["/aggregate"]["post"]["responses"]


def test_only_connections_without_a_request_are_cut():
    from manyhands.desk.serve import _protocol

    class Transport:
        closed = False

        def is_closing(self) -> bool:
            return self.closed

        def close(self) -> None:
            self.closed = True

    for cycle, cut in [(object(), False), (None, True)]:
        connection = object.__new__(_protocol())
        connection.transport, connection.cycle = Transport(), cycle
        connection._end_unless_begun()
        assert connection.transport.closed == cut


def test_another_log_is_aggregated(client):
    rows = [{"task": task, "worker": worker, "label": "x"} for task in "ab" for worker in "uv"]
    status, content = client.post("/aggregate", rows=rows)
    assert status == 200
    assert [(one["task"], one["label"]) for one in content["answers"]] == [("a", "x"), ("b", "x")]
    assert [one["worker"] for one in content["workers"]] == ["u", "v"]
    for bad in ({}, {"rows": []}, {"rows": "x"}, {"rows": [{"a": 1}]}, {"rows": rows, "kind": 3}):
        assert client.post("/aggregate", **bad)[0] in (404, 422), bad
    assert client.post("/aggregate", rows=rows, kind="cats")[0] == 422
    assert client.post("/aggregate", rows=[{"task": {"a": 1}, "worker": "u", "label": "x"}])[0] == 422


CONFIG = '<View><Text name="t" value="$text"/><Choices name="pet" toName="t"><Choice value="cat"/></Choices></View>'


def test_label_studio_gets_predictions(client):
    assert "model_version" in client.post("/setup", project="1", schema=CONFIG)[1]
    tasks = [{"id": 7, "data": {"task": "t01"}}, {"id": "t02", "data": {"text": "…"}}, {"id": 999, "data": {}}]
    status, content = client.post("/predict", tasks=tasks, label_config=CONFIG)
    assert status == 200
    first, second, unknown = content["results"]
    assert first["result"][0]["from_name"] == "pet"
    assert first["result"][0]["to_name"] == "t"
    assert first["result"][0]["value"]["choices"][0] in CLASSES
    assert 0 < first["score"] <= 1
    assert second["result"][0]["type"] == "choices"
    assert unknown["result"] == []
    evil = '<!DOCTYPE a [<!ENTITY b "c">]><View>&b;</View>'
    for config in (evil, "<View", "<View/>", 7):
        assert client.post("/predict", tasks=tasks, label_config=config)[0] == 422, config
    assert client.post("/predict", tasks="x")[0] == 422
    assert client.post("/predict", tasks=[1])[0] == 422


def event(answer: str, **more: object) -> dict[str, object]:
    result = [{"from_name": "pet", "to_name": "t", "type": "choices", "value": {"choices": [answer]}}]
    annotation = {"result": result, "ground_truth": True, "completed_by": 3, **more}
    return {"action": "ANNOTATION_CREATED", "annotation": annotation, "task": {"id": "t01", "data": {}}}


def test_label_studio_reports_ground_truth(client):
    assert client.post("/webhook", **event("cat", ground_truth=False))[1]["recorded"] is False
    assert client.post("/webhook", action="TASKS_CREATED")[1]["recorded"] is False
    assert client.post("/webhook", **event("bird"))[0] == 422
    assert client.post("/webhook", **event("cat", result=[]))[0] == 422
    assert client.post("/webhook", **event("cat", result="x"))[0] == 422
    assert client.post("/webhook", **(event("cat") | {"task": {"id": "nowhere"}}))[0] == 404
    assert client.post("/webhook", **(event("cat") | {"task": 7}))[0] == 422
    assert client.get("/progress")[1]["n_decided"] == 0
    assert client.post("/webhook", **event("cat"))[1] == {"recorded": True}
    assert client.post("/webhook", **event("cat"))[1] == {"recorded": True}  # events are n_bytes again
    assert client.post("/webhook", **event("dog"))[0] == 409
    assert client.get("/explain?task=t01")[1]["decided"]["by"] == "3"


# --------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def folder(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(log, "log.parquet")
    return tmp_path


def start(*more: str) -> tuple[subprocess.Popen[str], Client]:
    command = [sys.executable, "-m", "manyhands", "desk", "log.parquet", "--show", "text", "--no-browser", "-q"]
    process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
    return process, Client(address)


def stop(process: subprocess.Popen[str], how: signal.Signals) -> int:
    process.send_signal(how)
    assert process.stdout is not None
    process.stdout.close()
    return process.wait(PATIENCE)


@pytest.mark.skipif(os.name == "nt", reason="there is no kill -9 on Windows")
def test_the_command_survives_kill_9_and_exports_what_was_decided(folder, capfd):
    process, client = start("--port", "0")
    tasks = []
    for _ in range(9):
        tasks.append(client.post("/next", client="w1")[1]["task"]["task"])
        assert client.post("/adjudicate", task=tasks[-1], answer="cat", by="ann", client="w1")[0] == 200
    assert main(["desk", "log.parquet", "--export", "gold.csv"]) == 0  # while the desk is open
    assert stop(process, signal.SIGKILL) == -signal.SIGKILL
    again, second = start("--port", str(client.port))
    assert second.address == client.address  # an open page reconnects
    assert second.get("/progress")[1]["n_decided"] == 9
    assert second.post("/next", client="w1")[1]["task"]["task"] not in tasks
    assert main(["desk", "log.parquet", "--no-browser", "--port", "0"]) == 2  # the journal is in use
    assert "open in another process" in capfd.readouterr().err
    assert stop(again, signal.SIGINT) in (0, 130)
    gold = pyarrow.csv.read_csv("gold.csv")
    assert sorted(gold["task"].to_pylist()) == sorted(tasks)
    for part, ending in (("labels", "csv"), ("trail", "parquet"), ("label-studio", "json"), ("argilla", "jsonl")):
        assert main(["desk", "log.parquet", "--show", "text", "--export", f"{part}.{ending}", "--part", part]) == 0
    back = mh.read("label-studio.json", worker_from_file=True)
    assert (back.n_tasks, back.classes.tolist()) == (9, ["cat"])
    records = [json.loads(line) for line in Path("argilla.jsonl").read_text("utf-8").splitlines()]
    assert sorted(one["id"] for one in records) == sorted(tasks)
    assert all(one["suggestions"]["label"] == {"value": "cat", "score": 1.0, "agent": "ann"} for one in records)


def test_the_design_of_a_journal_is_kept_by_later_commands(folder, model, capsys):
    with Desk(
        mh.aggregate(mh.read("log.parquet")), folder / "log.desk", choose="stratified", audit=0.5, seed=3
    ) as desk:
        task = desk.next("w1")["task"]
        desk.adjudicate(task, "cat", client="w1")
    assert main(["desk", "log.parquet", "--export", "gold.csv", "-q"]) == 0
    assert pyarrow.csv.read_csv("gold.csv").to_pylist() == [{"task": task, "label": "cat"}]
    assert main(["desk", "log.parquet", "--export", "gold.csv", "--next", "audit"]) == 2
    assert "stratified" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "x"], "--port"),
        (["--port", "99999"], "--port"),
        (["--images", "nowhere"], "nowhere"),
        (["--audit", "2"], "--audit"),
        (["--next", "best"], "--next"),
        (["--within", "1"], "within"),
        (["--export", "gold.csv"], "log.desk"),
        (["--export", "gold.txt"], "gold.txt"),
        (["--export", "gold.csv", "--part", "label-studio"], "gold.csv"),
        (["--show", "nothing"], "nothing"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_written(folder, capsys, arguments, message):
    assert main(["desk", "log.parquet", "--no-browser", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "log.desk").exists()


def test_a_taken_port_is_named(folder, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert main(["desk", "log.parquet", "--no-browser", "--port", port]) == 2
        assert port in capsys.readouterr().err
        assert not (folder / "log.desk").exists()
        (folder / "log.desk").mkdir()
        assert main(["desk", "log.parquet", "--no-browser", "--port", port]) == 2
    assert port in capsys.readouterr().err


def test_decisions_go_back_into_an_export_of_label_studio(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = Path(__file__).parents[1] / "data" / "exports" / "label_studio.json"
    (tmp_path / "export.json").write_bytes(source.read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # skipped answers
        votes = mh.read("export.json", question="mood")
    with Desk(mh.MajorityVote().fit(votes), tmp_path / "d", choose="audit") as desk:
        task = desk.next("w1")
        desk.adjudicate(task["task"], desk.question.proposed(task["row"]), client="w1")
        assert export(desk, "back.json", "label-studio", "export.json", "mood") == 1
    (record,) = json.loads(Path("back.json").read_text("utf-8"))
    assert record["annotations"][0]["ground_truth"] is True
    assert record["annotations"][0]["result"][0]["value"]
    assert "predictions" not in record
