"use strict";
// Draws each figure of the page from its JSON.
for (const place of document.querySelectorAll("[data-plot]")) {
  const { data, layout } = JSON.parse(document.getElementById(place.dataset.plot).textContent);
  Plotly.newPlot(place, data, layout, figureSettings);
}
