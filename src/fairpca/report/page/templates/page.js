"use strict";
// Draws the page's figures from their JSON, as the controls say.
(() => {
  const places = [...document.querySelectorAll("[data-plot]")];
  const specs = new Map(
    places.map((place) => [place, JSON.parse(document.getElementById(place.dataset.plot).textContent)])
  );
  const boxes = [...document.querySelectorAll("#series input")];

  const shown = () => new Set(boxes.filter((box) => box.checked).map((box) => box.value));
  const wanted = (series, on) => !boxes.length || series === undefined || on.has(series);
  const keep = (list, good) => (Array.isArray(list) ? list.filter((_, i) => good[i]) : list);

  // A trace with only the points for which `good` holds.
  function thinned(trace, good) {
    const copy = { ...trace, x: keep(trace.x, good), y: keep(trace.y, good), text: keep(trace.text, good) };
    if (trace.marker) copy.marker = { ...trace.marker, size: keep(trace.marker.size, good) };
    for (const bars of ["error_x", "error_y"]) {
      if (trace[bars]) copy[bars] = { ...trace[bars], array: keep(trace[bars].array, good) };
    }
    return copy;
  }

  function onAxes(trace, axes) {
    const copy = { ...trace };
    for (const [letter, key] of Object.entries(axes)) {
      const column = trace.meta.columns[key];
      copy[letter] = column.v;
      if (column.sd && column.sd.some((sd) => sd !== null)) {
        copy["error_" + letter] = { type: "data", array: column.sd, thickness: 1, width: 2, color: faint(trace.line.color) };
      }
    }
    return copy;
  }

  const faint = (color) => color + "66"; // #rrggbb, and how opaque

  // Points that no other one beats on both axes; `better` is 1 where more is better, -1 where less.
  function unbeaten(traces, better) {
    const points = traces.flatMap((t) => t.x.map((x, i) => [x, t.y[i]])).filter(([x, y]) => x !== null && y !== null);
    const score = ([x, y]) => [x * (better.x || 1), y * (better.y || 1)];
    const scores = points.map(score);
    return traces.map((t) => {
      const good = t.x.map((x, i) => {
        if (x === null || t.y[i] === null) return false;
        const [a, b] = score([x, t.y[i]]);
        return !scores.some(([c, d]) => c >= a && d >= b && (c > a || d > b));
      });
      return thinned(t, good);
    });
  }

  function axesOf(panel) {
    const selects = [...panel.querySelectorAll("select[data-axis]")];
    return Object.fromEntries(selects.map((select) => [select.dataset.axis, select.value]));
  }

  function draw(place) {
    const { data, layout, choices } = specs.get(place);
    const panel = place.closest(".panel");
    const axes = axesOf(panel);
    const on = shown();
    let traces = data.map((trace) => {
      const series = trace.meta && trace.meta.series;
      if (Array.isArray(series)) return thinned(trace, series.map((name) => wanted(name, on)));
      return trace;
    });
    traces = traces.filter((t) => !t.meta || Array.isArray(t.meta.series) || wanted(t.meta.series, on));
    const next = structuredClone(layout);
    if (Object.keys(axes).length) {
      traces = traces.map((trace) => onAxes(trace, axes));
      const spread = panel.querySelector("[data-spread]");
      if (spread && !spread.checked) traces = traces.map(({ error_x, error_y, ...rest }) => rest);
      const best = panel.querySelector("[data-best]");
      const better = Object.fromEntries(Object.entries(axes).map(([l, key]) => [l, choices[key].better]));
      if (best && best.checked) traces = unbeaten(traces, better);
      for (const letter of ["x", "y"]) {
        const axis = (next[letter + "axis"] ??= {});
        label(axis, panel, letter, axes[letter], choices);
      }
      tell(panel, traces, axes, choices);
    }
    if (place.clientWidth < 600 && traces.length > 4) next.height += 18 * traces.length; // the legend
    place.dataset.drawn = "yes";
    Plotly.react(place, traces, next, figureSettings);
  }

  function label(axis, panel, letter, key, choices) {
    const scale = panel.querySelector(`[data-scale="${letter}"]`);
    if (scale && scale.checked) {
      axis.type = "log";
      delete axis.rangemode;
    }
    if (key === undefined) return;
    const { title, better } = choices[key];
    const arrows = letter === "x" ? ["← better", "better →"] : ["↓ better", "better ↑"];
    axis.title = { text: title + (better ? ` (${arrows[better > 0 ? 1 : 0]})` : "") };
  }

  function tell(panel, traces, axes, choices) {
    const names = ["y", "x"].filter((l) => l in axes).map((l) => choices[axes[l]].title);
    const points = traces.reduce((n, t) => n + t.y.filter((y) => y !== null).length, 0);
    panel.querySelector(".status").textContent = `${names.join(" against ")}: ${points} marks of ${traces.length} lines.`;
  }

  // Figures are drawn when they come near the view, for there may be many.
  const near = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && !target.dataset.drawn) draw(target);
    }
  }, { rootMargin: "600px" });

  function refresh() {
    const on = shown();
    for (const place of places) {
      const figure = place.closest("figure");
      figure.hidden = !wanted(figure.dataset.series, on);
      if (place.dataset.drawn && !figure.hidden) draw(place);
    }
  }

  for (const place of places) near.observe(place);
  for (const box of boxes) box.addEventListener("change", refresh);
  for (const button of document.querySelectorAll("[data-all]")) {
    button.addEventListener("click", () => {
      for (const box of boxes) box.checked = Boolean(button.dataset.all);
      refresh();
    });
  }
  for (const panel of document.querySelectorAll(".panel")) {
    for (const control of panel.querySelectorAll(".controls select, .controls input")) {
      control.addEventListener("change", () => panel.querySelectorAll("[data-plot]").forEach(draw));
    }
  }

  // On paper all figures are drawn, as wide as the paper, and all tables are open.
  const closed = new Set();
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      closed.add(details);
      details.open = true;
    }
    for (const place of places) {
      if (place.closest("figure").hidden) continue;
      if (!place.dataset.drawn) draw(place);
      Plotly.relayout(place, { width: 660, autosize: false });
    }
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    closed.clear();
    for (const place of places) {
      if (place.dataset.drawn) Plotly.relayout(place, { width: null, autosize: true });
    }
  });
})();
