"use strict";
// What figures may do, on every page: nothing on the page opens another, asks for or sends anything.
const figureSettings = {
  responsive: true,
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  topojsonURL: "data:,",
  modeBarButtons: [
    ["toImage"],
    ["zoom2d", "pan2d"],
    ["zoomIn2d", "zoomOut2d", "autoScale2d", "resetScale2d"],
  ],
};

Object.defineProperty(window, "open", { value: () => null });
for (const kind of ["click", "auxclick"]) {
  // Links lead to places in the page, or save what was made in it.
  const stay = (event) => {
    const link = event.target.closest?.("a");
    const target = link && String(link.href.baseVal ?? link.href);
    const here = location.href.split("#")[0] + "#";
    if (target && !target.startsWith(here) && !/^(blob|data):/.test(target)) event.preventDefault();
  };
  addEventListener(kind, stay, true);
}
