// SPDX-License-Identifier: Apache-2.0
// chart.js - a chart of several curves by dygraphs, with its own legend: names stay text.
import {h, short} from './dom.js';

/* global Dygraph */
// The library's own legend writes names as HTML and styles inline, which the page's policy forbids.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);
const colour = (i) => getComputedStyle(document.documentElement).getPropertyValue(`--c${i % 6}`).trim();

/** Makes a chart. set([{name, points: [[x, y], ...]}], xLabel) draws it. */
export function chart(title, format = short) {
  const at = h('div', {class: 'chart', role: 'img', 'aria-label': title});
  const legend = h('div', {class: 'legend'});
  const element = h('section', {class: 'card'}, h('h2', {}, title), at, legend);
  let graph = null, series = [], label = '';

  const showLegend = (x, values) => legend.replaceChildren(...series.map((s, i) => {
    const value = values?.[i] ?? s.points.findLast((p) => p[1] != null)?.[1];
    return h('span', {}, h('i', {class: `k${i % 6}`}), s.name, value == null ? '' : `  ${format(value)}`);
  }), ...(x == null ? [] : [h('span', {class: 'soft'}, `at ${label} ${short(x)}`)]));

  function set(next, xLabel) {
    series = next;
    label = xLabel;
    const rows = new Map();
    series.forEach((s, i) => s.points.forEach(([x, y]) => {
      if (!Number.isFinite(x)) return;
      if (!rows.has(x)) rows.set(x, [x, ...series.map(() => null)]);
      rows.get(x)[i + 1] = Number.isFinite(y) ? y : null;
    }));
    const data = [...rows.values()].sort((a, b) => a[0] - b[0]);
    const ys = data.flatMap((r) => r.slice(1)).filter((y) => y != null), end = (best) => format(ys.reduce((a, b) => best(a, b)));
    at.setAttribute('aria-label', `${title} by ${xLabel}: ${data.length} points${ys.length > 0 ? `, ${end(Math.min)} to ${end(Math.max)}` : ''}`);
    at.dataset.points = data.length;
    showLegend();
    if (data.length === 0 || series.length === 0) {
      graph?.destroy();
      graph = null;
      at.replaceChildren(h('p', {class: 'soft'}, 'Nothing to draw yet.'));
      return;
    }
    if (!at.isConnected) return;  // the view was left while the data came
    const shared = {
      file: data, labels: ['x', ...series.map((_, i) => `s${i}`)], colors: series.map((_, i) => colour(i)),
      drawPoints: data.length < 30, pointSize: 2.5,
    };
    if (graph && graph.numColumns() === series.length + 1) {
      graph.updateOptions(shared);
      return;
    }
    graph?.destroy();
    at.replaceChildren();
    graph = new Dygraph(at, data, {
      ...shared, legend: 'never', connectSeparatedPoints: true, strokeWidth: 1.8, gridLineColor: 'rgba(128,128,128,.22)',
      axisLineColor: 'rgba(128,128,128,.5)', highlightCircleSize: 3, labelsKMB: false,
      axes: {x: {valueFormatter: short, axisLabelFormatter: compact, drawGrid: false},
        y: {valueFormatter: format, axisLabelFormatter: (v) => format(v), axisLabelWidth: 62}},
      highlightCallback: (_, x, points) => {
        const values = series.map(() => null);
        points.forEach((p) => { values[Number(p.name.slice(1))] = p.yval; });
        showLegend(x, values);
      },
      unhighlightCallback: () => showLegend(),
    });
  }
  return {element, set, destroy: () => graph?.destroy()};
}

const compact = (v) => (Math.abs(v) >= 1e9 ? `${short(v / 1e9)}G` : Math.abs(v) >= 1e6 ? `${short(v / 1e6)}M`
  : Math.abs(v) >= 1e4 ? `${short(v / 1e3)}k` : short(v));
