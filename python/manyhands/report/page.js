"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 20;

  // Everything that comes from a log becomes text, never markup.
  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };

  const shown = (value) => {
    if (value === null) return "";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(3);
  };

  // Web addresses become links; everything else is text.
  const cell = (value, column) => {
    const td = make("td", undefined, { class: column.kind, "data-column": column.name });
    const link = column.name === "shown" && /^https?:\/\/[^\s]+$/.test(String(value));
    td.append(link ? make("a", value, { href: value, rel: "noopener noreferrer", target: "_blank" }) : shown(value));
    return td;
  };

  const compare = (place, sign) => (a, b) => {
    const [x, y] = [a[place], b[place]];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
  };

  const csv = (columns, rows) => {
    // A spreadsheet would run text that begins like this as a formula.
    const cell = (value) => {
      const text = value === null ? "" : typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [columns.map((c) => cell(c.name)), ...rows.map((row) => row.map(cell))].map((row) => row.join(",")).join("\r\n");
  };

  const searches = {};
  const showTable = (box, table) => {
    const state = { rows: table.rows, from: 0, sorted: null };
    const tools = make("div", undefined, { class: "tools" });
    const search = make("input", undefined, { type: "search", placeholder: "Search", "aria-label": `Search ${table.name}` });
    const earlier = make("button", "Previous", { type: "button" });
    const later = make("button", "Next", { type: "button" });
    const save = make("button", "Download", { type: "button" });
    const count = make("span", "", { class: "count", role: "status" });
    const wide = make("span", "Scroll sideways for more columns \u2192", { class: "wide", hidden: "" });
    tools.append(search, earlier, later, save, count, wide);
    // Focusable, so that the arrow keys scroll it sideways.
    const scroll = make("div", undefined, { class: "scroll", role: "region", tabindex: "0", "aria-label": `Table of ${table.name}` });
    const grid = make("table");
    const head = make("thead");
    const body = make("tbody");
    const line = make("tr");
    const heads = table.columns.map((column, place) => {
      const th = make("th", undefined, { scope: "col", title: column.about, class: column.kind });
      const button = make("button", column.title, { type: "button" });
      button.addEventListener("click", () => {
        const down = state.sorted === place ? !state.down : column.kind === "number";
        Object.assign(state, { sorted: place, down, from: 0 });
        draw();
      });
      th.append(button);
      return th;
    });
    line.append(...heads);
    head.append(line);
    grid.append(head, body);
    scroll.append(grid);

    const draw = () => {
      const wanted = search.value.toLowerCase();
      let rows = table.rows;
      if (wanted) rows = rows.filter((row) => row.some((value) => value !== null && String(value).toLowerCase().includes(wanted)));
      if (state.sorted !== null) rows = [...rows].sort(compare(state.sorted, state.down ? -1 : 1));
      state.rows = rows;
      heads.forEach((th, place) => {
        if (place === state.sorted) th.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
      });
      body.replaceChildren(
        ...rows.slice(state.from, state.from + PAGE).map((row) => {
          const tr = make("tr");
          tr.append(...row.map((value, place) => cell(value, table.columns[place])));
          return tr;
        }),
      );
      const last = Math.min(state.from + PAGE, rows.length);
      const more = table.n_rows > table.rows.length ? `, of ${table.n_rows.toLocaleString("en")} in ${table.file}` : "";
      count.textContent = rows.length ? `${state.from + 1}–${last} of ${rows.length.toLocaleString("en")}${more}` : "no rows match";
      earlier.disabled = state.from === 0;
      later.disabled = last >= rows.length;
    };
    search.addEventListener("input", () => { state.from = 0; draw(); });
    earlier.addEventListener("click", () => { state.from = Math.max(0, state.from - PAGE); draw(); });
    later.addEventListener("click", () => { state.from += PAGE; draw(); });
    save.addEventListener("click", () => {
      const link = make("a", undefined, { download: `${table.name}.csv` });
      link.href = URL.createObjectURL(new Blob([csv(table.columns, state.rows)], { type: "text/csv" }));
      link.click();
      URL.revokeObjectURL(link.href);
    });
    const legend = make("details");
    const list = make("dl");
    for (const column of table.columns) list.append(make("dt", column.title), make("dd", column.about));
    legend.append(make("summary", "What the columns mean"), list);
    box.append(tools, scroll, legend);
    draw();
    new ResizeObserver(() => { wide.hidden = scroll.scrollWidth <= scroll.clientWidth + 1; }).observe(scroll);
    searches[table.name] = (text) => { search.value = text; state.from = 0; draw(); };
  };

  const showMatrix = (place) => {
    const { classes, labels, matrices } = data.matrices;
    const grid = make("table", undefined, { class: "heat" });
    const head = make("tr");
    head.append(make("th", "correct \\ answered", { scope: "col" }), ...labels.map((name) => make("th", name, { scope: "col" })));
    const rows = matrices[place].map((row, i) => {
      const tr = make("tr");
      tr.append(make("th", classes[i], { scope: "row" }));
      tr.append(...row.map((value, j) => {
        const td = make("td", value.toFixed(2), { title: `correct: ${classes[i]}, answered: ${labels[j]}: ${value}` });
        const hue = i === j ? "43, 95, 179" : "190, 60, 45";
        td.style.background = `rgba(${hue}, ${0.06 + 0.75 * value})`;
        return td;
      }));
      return tr;
    });
    grid.append(head, ...rows);
    document.getElementById("matrix").replaceChildren(grid);
  };

  // Colors are CSS variables of the page, so that charts follow the color scheme and print in light colors.
  const showCharts = () => {
    const [ink, line, accent] = ["var(--ink)", "var(--line)", "var(--accent)"];
    const config = {
      background: "transparent",
      view: { stroke: line },
      axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, labelOverlap: "greedy", labelSeparation: 6 },
      legend: { labelColor: ink, titleColor: ink },
      range: { category: [accent, "var(--second)"] },
      mark: { color: accent },
    };
    for (const box of document.querySelectorAll("[data-chart]")) {
      const spec = { width: "container", height: 240, autosize: { type: "fit", contains: "padding" }, ...data.charts[box.dataset.chart] };
      window.vegaEmbed(box, spec, { mode: "vega-lite", actions: false, renderer: "svg", config }).catch((error) => box.replaceChildren(make("p", String(error))));
    }
  };

  for (const box of document.querySelectorAll("[data-table]")) showTable(box, data.tables[box.dataset.table]);
  if (data.matrices.workers) {
    const who = document.getElementById("who");
    who.append(...data.matrices.workers.map((name, place) => make("option", name, { value: place })));
    who.addEventListener("change", () => showMatrix(Number(who.value)));
    showMatrix(0);
  }
  // The name of a worker leads to the worker's row.
  for (const link of document.querySelectorAll("[data-worker]")) link.addEventListener("click", () => searches.workers(link.dataset.worker));
  showCharts();
})();
