"use strict";
// The page of a desk. All text from the log is set as text, never as markup.

const $ = (id) => document.getElementById(id);
// One per window, and new after a reload: a copied tab must not share reservations.
const client = [...crypto.getRandomValues(new Uint8Array(12))].map((one) => one.toString(16).padStart(2, "0")).join("");
let session = null;
let task = null;
let busy = false;
let answer = null; // what is chosen but not sent: labels, spans
let cursor = 0, anchor = null, active = 0; // tokens

function make(tag, attributes = {}, ...content) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) one.addEventListener(name.slice(2), value);
    else one.setAttribute(name, value);
  }
  one.append(...content);
  return one;
}
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
const short = (number) => String(Number.isInteger(number) ? number : Number(number.toPrecision(6)));

/** A value from the server as people read it: ids, answers and votes of every kind. */
function show(value) {
  if (value === null) return session.form === "pair" ? "neither" : "none";
  if (typeof value === "number") return short(value);
  if (typeof value === "boolean" && session.form === "accept") return value ? "accepted" : "rejected";
  if (!Array.isArray(value)) return typeof value === "object" ? JSON.stringify(value) : String(value);
  if (!value.length) return "none";
  return value.map((one) => (session.form === "spans" && one !== null && typeof one === "object" ? showSpan(one) : show(one))).join(", ");
}

/** A span by its tag and its words, where the page still has them. */
function showSpan({ start, end, tag }) {
  const words = ((task && task.tokens) || []).filter((one) => start <= one[0] && one[1] <= end).map((one) => one[2]);
  return `${tag}: ${words.length ? `“${words.join(" ")}”` : `${start}–${end}`}`;
}

// ------------------------------------------------------------------------------------------------ the server

async function call(path, body) {
  const options = body === undefined ? {} :
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  for (let tries = 0; ; tries++) {
    let reply;
    try {
      reply = await fetch(path, options);
    } catch {
      // What was not acknowledged is sent again; a decision that is sent twice counts once.
      $("offline").textContent = "No connection to the desk. Your answer is kept here and sent when it is back.";
      $("offline").hidden = false;
      await pause(Math.min(1 + tries / 2, 5));
      continue;
    }
    if (reply.status === 503 || reply.status === 408) { await pause(1); continue; }
    $("offline").hidden = reply.status !== 401;
    if (reply.status === 401) $("offline").textContent = "The desk has another token now: open the address that it printed.";
    const content = await reply.json().catch(() => ({ error: `status ${reply.status}` }));
    if (!reply.ok) throw Object.assign(new Error(content.error || `status ${reply.status}`), { status: reply.status });
    return content;
  }
}

function say(text, bad = false) {
  $("message").textContent = text;
  $("message").classList.toggle("bad", bad);
}

/** Run one step at a time; errors are shown, and a task that is gone is replaced. */
async function step(work) {
  if (busy) return;
  busy = true;
  document.body.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    if (error.status === 409 && task !== null && work !== undo) {
      await fetchNext().catch(() => {});
    }
    say(error.message, true);
  } finally {
    busy = false;
    document.body.removeAttribute("aria-busy");
  }
}

// ------------------------------------------------------------------------------------------------ the work

async function start() {
  session = await call("/session");
  document.title = `${session.title || "Log"} – manyhands desk`;
  $("title").textContent = session.title || "Desk";
  let person = null;
  try { person = localStorage.getItem("manyhands-desk-by"); } catch { /* storage may be switched off */ }
  $("by").value = person || session.person;
  drawProgress(session.progress);
  $("keys").textContent = KEYS[session.form];
  await fetchNext();
}

const KEYS = {
  choice: "Keys: 1–9 answer, S skip, U undo, N note.",
  labels: "Keys: 1–9 switch a label, Enter decides, S skip, U undo, N note.",
  number: "Keys: type the number, Enter decides, Alt+S skip, Alt+U undo, Alt+N note.",
  text: "Keys: type the text, Ctrl+Enter decides, Alt+S skip, Alt+U undo, Alt+N note.",
  pair: "Keys: 1 first, 2 second, 3 neither, S skip, U undo, N note.",
  spans: "Keys: ← → move, Shift+← → select, 1–9 mark, Delete unmark, Enter decides, S skip, U undo, N note.",
  accept: "Keys: 1 accept, 2 reject, S skip, U undo, N note.",
};

async function fetchNext() {
  const content = await call("/next", { client });
  drawProgress(content.progress);
  drawTask(content.task);
}

const by = () => $("by").value.trim();
const decide = (chosen) => step(async () => {
  if (task === null) return;
  const content = await call("/adjudicate", { task: task.task, answer: chosen, by: by(), client, note: $("note-text").value });
  drawLast(content);
  drawProgress(content.progress);
  say(`Decided: ${show(content.decision.answer)}`);
  await fetchNext();
});
async function skip() {
  if (task === null) return;
  drawProgress((await call("/skip", { task: task.task, by: by(), client, note: $("note-text").value })).progress);
  say("Skipped.");
  await fetchNext();
}
async function undo() {
  const content = await call("/undo", { by: by(), client });
  $("last").hidden = true;
  drawProgress(content.progress);
  drawTask(content.task);
  say("Taken back.");
}

function note() {
  const hidden = !$("note").hidden;
  $("note").hidden = hidden;
  $("noting").setAttribute("aria-expanded", String(!hidden));
  if (!hidden) $("note-text").focus();
}

// ------------------------------------------------------------------------------------------------ drawing

function drawProgress(now) {
  const a = now.accuracy;
  $("bar").max = now.n_tasks;
  $("bar").value = now.n_decided;
  const range = (low, high) => `${percent(low)} – ${percent(high)}`;
  const rows = [
    ["Decided", `${now.n_decided.toLocaleString("en-US")} of ${now.n_tasks.toLocaleString("en-US")}`],
    ["Changed", now.n_changed.toLocaleString("en-US")],
    ["Skipped", now.n_skipped.toLocaleString("en-US")],
    ["Random sample", a.n_sample.toLocaleString("en-US")],
  ];
  if (a.before !== null) {
    rows.push(["Accuracy before", percent(a.before)], ["95 % interval", range(a.before_low, a.before_high)]);
    rows.push(["Accuracy after", percent(a.after)], ["95 % interval", range(a.after_low, a.after_high)]);
  } else rows.push(["Accuracy", "no sample yet"]);
  if (now.effective_annotators !== null) rows.push(["Effective annotators", now.effective_annotators.toFixed(1)]);
  $("figures").replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function drawTask(next) {
  task = next;
  answer = null;
  $("note-text").value = "";
  if (!$("note").hidden) note();
  $("skip").disabled = task === null;
  if (task === null) {
    $("asked").textContent = "No task is left for this window.";
    $("item").replaceChildren();
    $("form").replaceChildren();
    $("asked").focus();
    return;
  }
  const form = session.form;
  const name = form === "pair" ? "Which is better?" : `Task ${String(task.task)}`;
  $("asked").textContent = name;
  $("item").replaceChildren(...drawItem());
  $("form").replaceChildren(...FORMS[form]());
  if (task.votes) $("form").append(make("div", { class: "open" }, drawVotes(task.votes)));
  const field = $("form").querySelector("input, textarea, #tokens");
  (field || $("asked")).focus();
}

function drawItem() {
  const image = () => make("img", { src: `/image?task=${encodeURIComponent(JSON.stringify(task.task))}`, alt: `Image of task ${String(task.task)}` });
  if (session.form === "accept") return [drawShapes(task.image ? image() : null)];
  const parts = [];
  if (task.image) parts.push(image());
  if (session.form === "spans") return parts;
  if (task.shown !== null && /^https?:\/\/\S+$/.test(task.shown)) {
    parts.push(make("a", { href: task.shown, target: "_blank", rel: "noreferrer noopener" }, task.shown));
  } else if (task.shown !== null && !task.image) parts.push(task.shown);
  return parts;
}

function drawShapes(image) {
  const frame = make("div", { class: image ? "canvas" : "canvas bare" });
  if (image) frame.append(image);
  const place = (width, height) => {
    if (task.mask) frame.append(drawMask(task.mask));
    else frame.append(drawBoxes(task.boxes, width, height));
  };
  if (image) image.addEventListener("load", () => place(image.naturalWidth, image.naturalHeight));
  else if (task.boxes && !task.boxes.length) return make("p", {}, "No boxes.");
  else {
    const edge = (names) => Math.max(1, ...(task.boxes || []).flatMap((one) => names.map((name) => one[name])));
    place(1.05 * edge(["x1", "x2"]), 1.05 * edge(["y1", "y2"]));
  }
  return frame;
}

function drawBoxes(boxes, width, height) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${boxes.length} boxes: ${boxes.map((one) => String(one.label ?? "box")).join(", ")}`);
  for (const one of boxes) {
    const box = document.createElementNS(space, "rect");
    const sides = { x: one.x1, y: one.y1, width: one.x2 - one.x1, height: one.y2 - one.y1 };
    for (const [name, value] of Object.entries(sides)) box.setAttribute(name, value);
    svg.append(box);
    if (one.label !== null && one.label !== undefined) {
      const text = document.createElementNS(space, "text");
      text.setAttribute("x", one.x1);
      text.setAttribute("y", one.y1);
      text.setAttribute("font-size", height / 28);
      text.textContent = String(one.label);
      svg.append(text);
    }
  }
  return svg;
}

function drawMask({ size: [height, width], counts }) {
  const canvas = make("canvas", { role: "img", "aria-label": "Mask" });
  canvas.width = width;
  canvas.height = height;
  const pixels = new ImageData(width, height);
  let place = 0;
  counts.forEach((count, run) => { // runs go down the columns, the first is outside
    for (let k = 0; k < count; k++, place++) {
      const at = 4 * ((place % height) * width + Math.floor(place / height));
      if (run % 2) pixels.data.set([214, 69, 56, 150], at);
    }
  });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas;
}

// ------------------------------------------------------------------------------------------------ forms

const key = (place) => (place < 9 ? [make("kbd", {}, String(place + 1))] : []);
const button = (text, place, work, more = {}) => make("button", { type: "button", onclick: work, ...more }, make("span", {}, text), ...key(place));

const FORMS = {
  choice() {
    const buttons = session.classes.map((one, place) => button(show(one), place, () => decide(one), { "data-place": place }));
    return session.classes.length > 20 ? [filter(buttons), ...buttons] : buttons;
  },
  labels() {
    answer = new Set();
    const buttons = session.classes.map((one, place) =>
      button(show(one), place, (event) => toggle(place, event.currentTarget), { "data-place": place, "aria-pressed": "false" }));
    const send = () => decide([...answer].map((place) => session.classes[place]));
    return [...(buttons.length > 20 ? [filter(buttons)] : []), ...buttons, decideButton(send)];
  },
  number() {
    const field = make("input", { id: "field", type: "text", inputmode: "decimal", autocomplete: "off" });
    const send = () => {
      const value = Number(field.value.trim().replace(",", "."));
      if (field.value.trim() === "" || !Number.isFinite(value)) { say("Type a number.", true); return; }
      decide(value);
    };
    const label = `Number (answers lie between ${short(session.low)} and ${short(session.high)})`;
    return [make("label", {}, label, field), decideButton(send)];
  },
  text() {
    const field = make("textarea", { id: "field", rows: "4", maxlength: "100000" });
    return [make("label", {}, "Text", field), decideButton(() => decide(field.value), "Ctrl+Enter")];
  },
  pair() {
    const [left, right] = task.task;
    return [button(show(left), 0, () => decide(left)), button(show(right), 1, () => decide(right)), button("Neither", 2, () => decide(null))];
  },
  accept() {
    return [button("Accept", 0, () => decide(true)), button("Reject", 1, () => decide(false))];
  },
  spans() {
    answer = [];
    cursor = active = 0;
    anchor = null;
    const tokens = make("div", { id: "tokens", tabindex: "0", role: "group", "aria-label": "Text: select tokens, then choose a tag", onmousedown: press, onmouseover: drag });
    task.tokens.forEach(([, , text], place) => tokens.append(make("span", { "data-token": place }, text), " "));
    const tags = session.classes.map((one, place) => button(one, place, () => { mark(one); tokens.focus(); }));
    const clear = make("button", { type: "button", onclick: () => { unmark(); tokens.focus(); } }, "Unmark", make("kbd", {}, "Del"));
    setTimeout(drawTokens);
    return [tokens, ...tags, clear, decideButton(() => decide(answer))];
  },
};

function decideButton(send, keys = "Enter") {
  return make("button", { type: "button", class: "main", id: "decide", onclick: send }, "Decide", make("kbd", {}, keys));
}
function filter(buttons) {
  const field = make("input", { type: "search", autocomplete: "off" });
  field.addEventListener("input", () => {
    const part = field.value.toLowerCase();
    for (const one of buttons) one.hidden = !one.firstChild.textContent.toLowerCase().includes(part);
  });
  field.addEventListener("keydown", (event) => {
    const first = buttons.find((one) => !one.hidden);
    if (event.key === "Enter" && first && field.value) { event.preventDefault(); first.click(); }
  });
  return make("label", {}, "Find a class", field);
}
function toggle(place, one) {
  if (!answer.delete(place)) answer.add(place);
  one.setAttribute("aria-pressed", String(answer.has(place)));
}

// ------------------------------------------------------------------------------------------------ tokens

const chosenTokens = () => (anchor === null ? [cursor, cursor] : [Math.min(anchor, cursor), Math.max(anchor, cursor)]);
function press(event) {
  const place = event.target.dataset.token;
  if (place === undefined) return;
  cursor = anchor = Number(place);
  drawTokens();
}
function drag(event) {
  if (event.buttons !== 1 || event.target.dataset.token === undefined) return;
  cursor = Number(event.target.dataset.token);
  drawTokens();
}
function mark(tag) {
  unmark();
  const [first, last] = chosenTokens();
  answer.push({ start: task.tokens[first][0], end: task.tokens[last][1], tag });
  answer.sort((a, b) => a.start - b.start);
  anchor = null;
  drawTokens();
  say(`Marked “${task.tokens.slice(first, last + 1).map((one) => one[2]).join(" ")}” as ${tag}`);
}
function unmark() {
  const [first, last] = chosenTokens();
  const start = task.tokens[first][0], end = task.tokens[last][1];
  answer = answer.filter((one) => one.end <= start || one.start >= end);
  drawTokens();
}
function drawTokens() {
  const [first, last] = chosenTokens();
  document.querySelectorAll("#tokens span").forEach((one, place) => {
    const [start, end, text] = task.tokens[place];
    const span = answer.find((each) => each.start <= start && end <= each.end);
    one.className = [place === cursor ? "here" : "", span ? "spanned" : "", anchor !== null && first <= place && place <= last ? "chosen" : ""].join(" ");
    one.replaceChildren(text, ...(span && span.end === end ? [make("sup", {}, span.tag)] : []));
  });
}
function tokenKeys(event) {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (move === undefined && event.key !== "Delete" && event.key !== "Backspace") return false;
  if (move === undefined) unmark();
  else {
    if (event.shiftKey && anchor === null) anchor = cursor;
    if (!event.shiftKey) anchor = null;
    cursor = Math.max(0, Math.min(task.tokens.length - 1, cursor + move));
    drawTokens();
  }
  return true;
}

// ------------------------------------------------------------------------------------------------ the votes

/** A vote on boxes or a mask in one cell. */
function asShape(vote) {
  if ("x1" in vote) {
    const { worker, x1, y1, x2, y2, label = null } = vote;
    if (x1 === null) return { worker, boxes: "none" };
    return { worker, boxes: `${label === null ? "" : `${label}: `}${short(x1)}, ${short(y1)} – ${short(x2)}, ${short(y2)}` };
  }
  const { size: [height, width], counts } = JSON.parse(vote.mask);
  const area = counts.reduce((sum, count, run) => sum + (run % 2 ? count : 0), 0);
  return { worker: vote.worker, mask: `${area.toLocaleString("en-US")} of ${(height * width).toLocaleString("en-US")} pixels` };
}

function drawVotes(votes) {
  const first = votes.slice(0, 200);
  const rows = session.form === "accept" ? first.map(asShape) : first;
  if (!rows.length) return make("p", {}, "No votes.");
  const names = Object.keys(rows[0]).sort((a, b) => (b === "worker") - (a === "worker"));
  const cut = (text) => (text.length > 160 ? `${text.slice(0, 160)}…` : text);
  return make("table", {}, make("caption", { hidden: "" }, "Votes"),
    make("thead", {}, make("tr", {}, ...names.map((one) => make("th", { scope: "col" }, one)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...names.map((one) => make("td", {}, cut(show(row[one]))))))));
}

function drawLast(content) {
  const { decision } = content;
  const same = JSON.stringify(decision.answer) === JSON.stringify(decision.before);
  const sure = content.confidence === null ? "" : ` (confidence ${content.confidence.toFixed(3)})`;
  $("reveal").replaceChildren(
    make("p", {}, `${session.form === "pair" ? "Pair" : "Task"} ${[decision.task].flat().join(" – ")}: `, make("strong", {}, show(decision.answer))),
    ...(session.form === "accept" ? [] : [make("p", { class: same ? "agreed" : "changed" },
      same ? `The annotators' answer is the same${sure}.` : `The annotators' answer was ${show(decision.before)}${sure}.`)]),
    drawVotes(content.votes));
  $("last").hidden = false;
}

// ------------------------------------------------------------------------------------------------ keys

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.ctrlKey && event.key !== "Enter" || event.metaKey) return;
  const typing = event.target.matches("input, textarea");
  const letter = event.key.toLowerCase();
  if (typing && !event.altKey) {
    if (event.target.id === "field" && event.key === "Enter" && (event.ctrlKey || event.target.matches("input"))) {
      event.preventDefault();
      $("decide").click();
    } else if (event.key === "Escape") {
      if (event.target.id === "note-text") note();
      $("asked").focus();
    }
    return;
  }
  const work = { s: () => step(skip), u: () => step(undo), n: note }[letter];
  if (work !== undefined) { event.preventDefault(); work(); return; }
  if (task === null || event.altKey) return;
  if (session.form === "spans" && tokenKeys(event)) { event.preventDefault(); return; }
  if (event.key === "Enter" && $("decide") && !event.target.matches("button")) { event.preventDefault(); $("decide").click(); return; }
  if (/^[1-9]$/.test(event.key)) {
    const one = [...$("form").querySelectorAll("button:not(.main):not([hidden])")].filter((each) => each.querySelector("kbd"))[Number(event.key) - 1];
    if (one && one.querySelector("kbd").textContent === event.key) { event.preventDefault(); one.click(); }
  }
});
$("form").addEventListener("submit", (event) => event.preventDefault());
$("skip").addEventListener("click", () => step(skip));
$("undo").addEventListener("click", () => step(undo));
$("noting").addEventListener("click", note);
$("by").addEventListener("change", () => { try { localStorage.setItem("manyhands-desk-by", by()); } catch { /* not kept */ } });
// A window that goes away gives its task back.
addEventListener("pagehide", () => {
  navigator.sendBeacon("/release", new Blob([JSON.stringify({ client })], { type: "application/json" }));
});
addEventListener("pageshow", (event) => { if (event.persisted) step(fetchNext); });
step(start);
