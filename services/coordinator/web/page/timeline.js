// SPDX-License-Identifier: Apache-2.0
// timeline.js - a chart of one step: what every thread of a job did in it, and when, from a file TRACE-….json.gz.
import {call, fileUrl} from './api.js';
import {bytes, count, h, notice, short, table} from './dom.js';

const BYTES_MAX = 16 << 20, STEPS = 10, ROW = 20, GAP = 26, LEAST = 0.4;
const SVG = 'http://www.w3.org/2000/svg';
const colours = {step: 0, forward: 0, backward: 0, data: 4, encode: 1, decode: 1, sum: 2, send: 3, serve: 3, wait: 5, evaluate: 4};
const legend = [['computes', 0], ['encodes, decodes', 1], ['sums', 2], ['sends, serves', 3], ['reads data, evaluates', 4], ['waits', 5]];

const kindOf = (slice) => slice.name.split(' ')[0];

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text != null) element.append(text);
  return element;
}

/** Reads a timeline: its slices and arrows by step, and the names of its threads in order. */
async function read(id, name) {
  const answer = await fetch(fileUrl(id, name));
  if (!answer.ok) throw new Error(`${name}: the coordinator answered ${answer.status}`);
  const {traceEvents} = await new Response(answer.body.pipeThrough(new DecompressionStream('gzip'))).json();
  const processes = new Map(), threads = new Map(), steps = new Map(), arrows = [];
  const at = (step) => steps.get(step) ?? steps.set(step, {slices: [], arrows: new Map()}).get(step);
  for (const e of traceEvents) {
    if (e.ph === 'M' && e.name === 'process_name') processes.set(e.pid, e.args.name);
    else if (e.ph === 'M' && e.name === 'thread_name') threads.set(`${e.pid}.${e.tid}`, {pid: e.pid, name: e.args.name});
    else if (e.ph === 'X') at(e.args.step).slices.push(e);
    else if ('stf'.includes(e.ph)) arrows.push(e);
  }
  for (const e of arrows) {
    const step = steps.get(Number(String(e.id).split('.')[1]));
    step?.arrows.set(e.id, [...(step.arrows.get(e.id) ?? []), e]);
  }
  return {steps, rows: [...threads].sort(([a], [b]) => a.localeCompare(b, 'en', {numeric: true}))
    .map(([key, t]) => ({key, name: `${processes.get(t.pid) ?? t.pid}, ${t.name}`}))};
}

/** Joins neighbours of one kind that are narrower than a part of a pixel, so that a large model draws as fast as a small one. */
function thinned(slices, scale) {
  const out = [];
  for (const s of slices) {
    const last = out.at(-1);
    if (last && kindOf(last) === kindOf(s) && (s.ts - last.ts - last.dur) * scale < LEAST && s.dur * scale < 1) {
      last.dur = s.ts + s.dur - last.ts;
      last.name = kindOf(s);
    } else out.push({...s});
  }
  return out;
}

function picture(file, step, width) {
  const {slices, arrows} = file.steps.get(step), from = Math.min(...slices.map((s) => s.ts)), to = Math.max(...slices.map((s) => s.ts + s.dur));
  const scale = (width - 2) / Math.max(to - from, 1), x = (ts) => 1 + (ts - from) * scale;
  const rows = file.rows.filter((r) => slices.some((s) => `${s.pid}.${s.tid}` === r.key)), top = new Map(rows.map((r, i) => [r.key, 18 + i * (ROW + GAP)]));
  const height = 22 + rows.length * (ROW + GAP);
  const svg = draw('svg', {class: 'timeline', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Step ${step}: ${short((to - from) / 1000)} ms on ${rows.length} threads`});
  for (const r of rows) {
    const y = top.get(r.key), mine = slices.filter((s) => `${s.pid}.${s.tid}` === r.key).sort((a, b) => a.ts - b.ts || b.dur - a.dur);
    svg.append(draw('text', {x: 1, y: y - 5}, r.name), draw('rect', {class: 'row', x: 1, y, width: width - 2, height: ROW}));
    const whole = mine.filter((s) => s.cat === 'worker' && s.name === 'step');
    for (const s of [...whole, ...thinned(mine.filter((m) => !whole.includes(m)), scale)]) {
      const rect = draw('rect', {class: whole.includes(s) ? 'whole' : `t${colours[kindOf(s)] ?? 0}`, x: x(s.ts), y, width: Math.max(s.dur * scale, LEAST), height: ROW});
      const whom = s.args.waits_for?.length ? ` for ${s.args.waits_for.join(', ')}` : '';
      rect.append(draw('title', {}, `${s.name}${whom}: ${short(s.dur / 1000)} ms, from ${short((s.ts - from) / 1000)} ms`));
      svg.append(rect);
    }
  }
  for (const points of arrows.values()) {
    const path = points.sort((a, b) => 'stf'.indexOf(a.ph) - 'stf'.indexOf(b.ph)).filter((p) => top.has(`${p.pid}.${p.tid}`))
      .map((p) => `${x(p.ts)},${top.get(`${p.pid}.${p.tid}`) + ROW / 2}`);
    if (path.length > 1) svg.append(draw('polyline', {class: 'arrow', points: path.join(' ')}));
  }
  svg.append(draw('text', {x: 1, y: height - 4}, '0 ms'), draw('text', {x: width - 1, y: height - 4, 'text-anchor': 'end'}, `${short((to - from) / 1000)} ms`));
  return svg;
}

/** Time of each thread by kind of work, for those who cannot see the chart. */
function sums(file, step) {
  const {slices} = file.steps.get(step), kinds = [...new Set(slices.map(kindOf))].filter((k) => k !== 'step' || slices.some((s) => s.cat === 'server' && s.name === k));
  return table(['Thread', ...kinds.map((k) => `${k}, ms`)], file.rows.map((r) => [r.name, ...kinds.map((k) =>
    short(slices.filter((s) => `${s.pid}.${s.tid}` === r.key && kindOf(s) === k && !(s.cat === 'worker' && k === 'step')).reduce((t, s) => t + s.dur, 0) / 1000))]), 'Times of the step');
}

/** A card for the timelines of a job. set(job) shows those that it has; `changed` is called when one was recorded. */
export function timelines(id, changed) {
  const files = h('select', {id: 'timeline'}), steps = h('select', {id: 'step'}), at = h('div', {id: 'step-chart'}), said = h('p', {class: 'soft small'});
  const record = h('button', {id: 'record'}, `Record ${STEPS} steps`);
  const pick = h('div', {class: 'row'}, h('label', {for: 'timeline'}, 'Timeline'), files, h('label', {for: 'step'}, 'Step'), steps);
  const element = h('section', {class: 'card'}, h('div', {class: 'row head'}, h('h2', {}, 'A step'), h('div', {class: 'row'}, pick, record)), said, at);
  let names = '', file = null, shown = '', width = 0;

  function show() {
    const step = Number(steps.value);
    if (!file?.steps.has(step) || !at.isConnected) return;
    at.replaceChildren(h('div', {class: 'legend'}, legend.map(([text, k]) => h('span', {}, h('i', {class: `k${k}`}), text))),
      picture(file, step, Math.max(at.clientWidth, 280)), h('details', {class: 'small'}, h('summary', {}, 'As a table'), sums(file, step)));
  }
  async function load() {
    const name = files.value;
    if (!name || name === shown) return;
    shown = name;
    said.textContent = 'Reading…';
    try {
      const got = await read(id, name);
      if (name !== shown) return; // another one was chosen meanwhile
      file = got;
      const all = [...file.steps.keys()].sort((a, b) => a - b), threadsOf = (s) => new Set(file.steps.get(s).slices.map((e) => `${e.pid}.${e.tid}`)).size;
      steps.replaceChildren(...all.map((s) => h('option', {value: s}, count(s))));
      steps.value = all.reduce((a, s) => (threadsOf(s) > threadsOf(a) ? s : a), all[0]); // a node that heard of it late has not recorded the first ones
      said.textContent = '';
      show();
    } catch (error) {
      if (name !== shown) return;
      shown = ''; // it may be chosen again
      said.textContent = error.message;
    }
  }
  record.addEventListener('click', async () => {
    record.disabled = true;
    said.textContent = `Recording ${STEPS} steps, a little ahead…`;
    try {
      const {name} = await call('TraceJob', {job_id: id, steps: STEPS});
      await changed();
      files.value = name;
      await load();
    } catch (error) { said.textContent = ''; notice(error.message); }
    record.disabled = false;
  });
  files.addEventListener('change', load);
  steps.addEventListener('change', show);
  const resized = new ResizeObserver(() => { if (element.clientWidth !== width) { width = element.clientWidth; show(); } });
  resized.observe(element);
  return {
    element,
    set(job, trains) {
      const all = (job.artifacts ?? []).filter((a) => /^TRACE-.*\.json\.gz$/.test(a.name)), small = all.filter((a) => Number(a.size) <= BYTES_MAX);
      record.hidden = !trains || job.spec?.trace != null;
      pick.hidden = small.length === 0;
      element.hidden = record.hidden && all.length === 0;
      if (all.length > small.length) said.textContent = `A timeline of more than ${bytes(BYTES_MAX)}: download it and open it at ui.perfetto.dev`;
      if (all.map((a) => a.name).join('|') === names) return;
      names = all.map((a) => a.name).join('|');
      const before = files.value;
      files.replaceChildren(...small.map((a) => h('option', {value: a.name}, a.name)));
      files.value = small.some((a) => a.name === before) ? before : small.at(-1)?.name ?? '';
      load();
    },
    destroy() { resized.disconnect(); },
  };
}
