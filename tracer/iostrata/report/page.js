// SPDX-License-Identifier: Apache-2.0
// Draws the stacked charts of the page from the data in it.
"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  const { word } = page;
  // Where microseconds have so many digits, nobody compares the marks of an axis.
  const long = (ns) => page.unit.name === "us" && ns >= 1e7;
  const unitFor = (ns) => (long(ns) ? { name: "ms", ns: 1e6, decimals: 3 } : page.unit);

  // uPlot draws lines: layer n is the area under the sum of the layers up to n, the
  // highest first, so that each hides what belongs to those below it.
  const stacked = (stack) => {
    const sums = [];
    stack.mean_ns.forEach((row, n) => {
      sums.push(row.map((ns, bin) => (stack.counts[bin] ? ns + (n ? sums[n - 1][bin] : 0) : null)));
    });
    return sums.reverse();
  };

  const draw = (box, width) => {
    const stack = page.charts[box.dataset.chart];
    const bins = stack.counts.length;
    const sums = stacked(stack);
    const unit = unitFor(Math.max(...sums[0]));
    const text = (ns) => (ns / unit.ns).toFixed(unit.decimals);
    const percent = box.dataset.chart !== "over_time";
    const middle = (bin) => (stack.edges[bin] + stack.edges[bin + 1]) / 2;
    const even = box.dataset.chart === "tail" || bins === 1;
    const xs = stack.counts.map((_, bin) => (even ? bin : middle(bin)));
    // All that there is shows whole bins; a part of it, by dragging, is shown as wished.
    const ends = even ? [-0.5, bins - 0.5] : [stack.edges[0], stack.edges[bins]];
    const whole = (low, high) => low <= xs[0] && high >= xs[bins - 1];
    const range = (bin) =>
      percent ? `p${stack.edges[bin]} to p${stack.edges[bin + 1]}`
              : `${stack.edges[bin].toFixed(3)} to ${stack.edges[bin + 1].toFixed(3)} s`;
    const legend = box.querySelector(".legend");
    const shown = page.layers.map((layer, n) => {
      const item = legend.children[n + 1].querySelector("b");
      return (bin) => { item.textContent = bin === null ? "" : text(stack.mean_ns[n][bin]); };
    });
    const head = legend.children[0];
    const plot = box.querySelector(".plot");
    // One bar a bin, around its middle; bars that stand alone have gaps, and are not too wide.
    const bars = uPlot.paths.bars({ size: even ? [0.86, 160] : [1] });
    const axis = { stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 },
                   ticks: { stroke: css("--line") } };
    const options = {
      width: width ?? Math.max(plot.clientWidth, 280), height: 300,
      scales: { x: { time: false, range: (u, low, high) => (whole(low, high) ? ends : [low, high]) },
                y: { range: (u, low, high) => [0, high * 1.05 || 1] } },
      axes: [
        { ...axis, size: 34, labelSize: 20, labelGap: 0,
          label: percent ? `${word}s, by latency` : `s since the first ${word}`,
          splits: even ? () => xs : undefined,
          values: (u, marks) => marks.map((x) => even ? range(x).replace(" to ", "–")
                                                     : percent ? `p${x}` : x) },
        { ...axis, size: 64, label: `${unit.name} a ${word}`,
          values: (u, marks) => marks.map((y) => y / unit.ns) },
      ],
      cursor: { points: { show: false }, drag: { x: !even, y: false } },
      series: [{}, ...page.layers.map((layer) => ({
        label: layer.name, fill: layer.colour, width: 0, points: { show: false }, paths: bars,
      })).reverse()],
      hooks: { setCursor: [(u) => {
        const bin = u.cursor.idx ?? null;
        const known = bin !== null && stack.counts[bin] > 0;
        head.textContent = known
          ? `${range(bin)}: ${stack.counts[bin]} ${word}s, mean ${text(stack.mean_ns.reduce((sum, row) => sum + row[bin], 0))} ${unit.name}`
          : `${unit.name} a ${word}; point at the chart, or use the arrow keys`;
        shown.forEach((show) => show(known ? bin : null));
      }] },
    };
    plot.replaceChildren();
    const chart = new uPlot(options, [xs, ...sums], plot);
    plot.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -bins, End: bins }[event.key];
      if (!step) return;
      event.preventDefault();
      const bin = Math.min(Math.max((chart.cursor.idx ?? -1) + step, 0), bins - 1);
      chart.setCursor({ left: chart.valToPos(xs[bin], "x"), top: 10 });
    };
  };

  // Where a table goes on behind its edge, that edge fades: a number cut in two is no number.
  const fade = () => document.querySelectorAll(".wide").forEach((box) => {
    const hidden = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("more", hidden > 1);
  });

  const all = (width) => document.querySelectorAll(".chart").forEach((box) => draw(box, width));
  let waiting = 0;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(all, 100); };
  all();
  fade();
  // Neither event bubbles.
  addEventListener("scroll", fade, true);
  addEventListener("toggle", fade, true);
  addEventListener("resize", fade);
  // A canvas is not laid out anew for paper: it is drawn for it, in the colours of paper.
  // Nobody can open anything there, so all is open.
  let closed = [];
  addEventListener("beforeprint", () => {
    document.body.classList.add("paper");
    all(660);
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => {
    document.body.classList.remove("paper");
    all();
    closed.forEach((part) => { part.open = false; });
  });
  addEventListener("resize", later);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
})();
