// SPDX-License-Identifier: Apache-2.0
// explain.js - what bounds a job, and what would change it, as psgd explain says it.
import {call} from './api.js';
import {h, notice, percent, short, table} from './dom.js';

const FOR_MS = 5000, WIDTH = 1000, ROW = 16, RANKS = 32;
const SVG = 'http://www.w3.org/2000/svg';
const spent = [['computes', 0, (w) => w.compute_s - w.read_s], ['reads samples', 4, (w) => w.read_s], ['waits', 5, (w) => w.wait_s],
  ['the rest', 2, (w) => Math.max(0, w.seconds - w.compute_s - w.wait_s)]];
const ways = [['the way up', 0, 'up'], ['a server', 1, 'server'], ['the way down', 2, 'down'], ['coding', 3, 'codec']];

const legend = (parts) => h('div', {class: 'legend'}, parts.map(([text, k]) => h('span', {}, h('i', {class: `k${k}`}), text)));

/** Returns a picture with a bar for each row; a row is [[share, colour], ...]. */
function bars(rows, label) {
  const svg = document.createElementNS(SVG, 'svg');
  for (const [name, value] of Object.entries({class: 'bars', viewBox: `0 0 ${WIDTH} ${rows.length * ROW}`, height: rows.length * ROW, preserveAspectRatio: 'none', role: 'img', 'aria-label': label})) svg.setAttribute(name, value);
  rows.forEach((row, i) => {
    let x = 0;
    const whole = document.createElementNS(SVG, 'rect');
    for (const [name, value] of Object.entries({class: 'row', x: 0, y: i * ROW + 1, width: WIDTH, height: ROW - 3})) whole.setAttribute(name, value);
    svg.append(whole);
    for (const [share, k] of row) {
      const rect = document.createElementNS(SVG, 'rect'), width = Math.max(0, Math.min(share * WIDTH, WIDTH - x));
      for (const [name, value] of Object.entries({class: `t${k}`, x, y: i * ROW + 1, width, height: ROW - 3})) rect.setAttribute(name, value);
      svg.append(rect);
      x += width;
    }
  });
  return svg;
}

const full = (w) => ({steps: 0, seconds: 0, compute_s: 0, read_s: 0, wait_s: 0, bytes_up: 0, bytes_down: 0, step_ms: {}, ...w});
const ms = (s, w) => short(1000 * s / w.steps);

function ranks(said) {
  const all = (said.workers ?? []).map(full), kinds = Object.keys(all.find((w) => Object.keys(w.step_ms).length > 0)?.step_ms ?? {});
  return [legend(spent), bars(all.slice(0, RANKS).map((w) => spent.map(([, k, of]) => [of(w) / w.seconds, k])), 'Where the time of each rank goes, a line for each from 0 down'),
    table(['Rank', 'Node', 'Steps a second', 'Step, ms', 'Computes, ms', 'Reads samples, ms', 'Waits, ms'], all.map((w) => [String(w.rank ?? 0), w.node_id ?? '', short(w.steps / w.seconds),
      ms(w.seconds, w), ms(w.compute_s - w.read_s, w), ms(w.read_s, w), ms(w.wait_s, w)]), 'Where the time goes'),
    kinds.length === 0 ? null : h('p', {class: 'soft small'}, 'In the steps that were recorded; encoding, sending and decoding go on beside the rest:'),
    kinds.length === 0 ? null : table(['Rank', ...kinds.map((k) => `${k}, ms`)], all.filter((w) => Object.keys(w.step_ms).length > 0)
      .map((w) => [String(w.rank ?? 0), ...kinds.map((k) => short(w.step_ms[k]))]), 'Where a step goes')];
}

function exchange({exchange: x, forecasts = []}) {
  if (!x) return [];
  const shares = ways.map(([, k, name]) => [x.shares?.[name] ?? 0, k]);
  return [h('p', {class: 'soft small'}, 'Where a step goes after its workers have computed, as shares of the whole step:'), legend(ways.map(([text, k], i) => [`${text} ${percent(shares[i][0])}`, k])),
    bars([shares], `Of a step: ${ways.map(([text], i) => `${text} ${percent(shares[i][0])}`).join(', ')}`),
    forecasts.length === 0 ? null : h('p', {class: 'soft small'}, 'Foretold with other codecs, rounds or servers; what they do to the accuracy is not known:'),
    forecasts.length === 0 ? null : table(['Codec up', 'Codec down', 'Local steps', 'Servers', 'Steps a second'], forecasts.map((f) => [f.codec_up || 'as now', f.codec_down || 'as now',
      f.local_steps ? String(f.local_steps) : 'as now', f.times_servers > 1 ? 'twice' : 'as now', short(f.steps_per_second)]), 'Foretold')];
}

/** A card that explains a job. set() shows the button while it trains, and explains it by itself when it is over, if its files have times.
 * `changed` is called when the job may have another file. */
export function explanation(id, changed) {
  const said = h('div', {'aria-live': 'polite'}), button = h('button', {id: 'explain'}, 'Explain');
  const element = h('section', {class: 'card', hidden: true}, h('div', {class: 'row head'}, h('h2', {}, 'What bounds it'), button), said);
  let isAsking = false, isOver = false, isDone = false, isGone = false;

  async function ask(request) {
    try { return await call('ExplainJob', {job_id: id, ...request}); } catch (error) {
      if (error.status !== 403 || !request.record) throw error;
      return call('ExplainJob', {job_id: id, ...request, record: false}); // who may not record may look
    }
  }
  async function explain(request, isQuiet) {
    isAsking = button.disabled = true;
    try {
      const answer = await ask(request);
      if (isGone) return;
      said.replaceChildren(...[h('div', {id: 'because'}, (answer.sentences ?? []).map((s) => h('p', {}, s))), answer.exchange_unknown ? h('p', {class: 'soft small'}, `The exchange was not taken apart: ${answer.exchange_unknown}`) : null,
        ...exchange(answer), ...ranks(answer)].filter((c) => c != null));
      element.hidden = false;
      if (request.record) await changed();
    } catch (error) { if (!isQuiet) { said.replaceChildren(); notice(error.message); } }
    isAsking = button.disabled = false;
    lookBack();
  }
  const lookBack = () => { if (isOver && !isDone && !isAsking) { isDone = true; explain({}, true); } };
  button.addEventListener('click', () => {
    said.replaceChildren(h('p', {class: 'soft small'}, `Measuring for ${FOR_MS / 1000} s; if the exchange bounds the job, ten steps are then recorded…`));
    explain({for_ms: FOR_MS, record: true}, false);
  });
  return {
    element,
    set(trains, over, hasTimes) {
      button.hidden = !trains;
      if (trains) element.hidden = false;
      else if (said.childElementCount === 0) element.hidden = true;
      isOver = over && hasTimes;
      lookBack();
    },
    destroy() { isGone = true; },
  };
}
