// SPDX-License-Identifier: Apache-2.0
// dom.js - elements from data, and numbers as people read them. Text is always a text node.

/** Makes an element: h('a', {href, class, on: {click}}, children...). Children that are null or false are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === 'on') for (const [event, fn] of Object.entries(value)) element.addEventListener(event, fn);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(9).filter((c) => c != null && c !== false));
  return element;
}

export const facts = (pairs) => h('dl', {class: 'facts'},
  pairs.filter(([, v]) => v != null).map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v))));

export const table = (heads, rows, caption) => h('div', {class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption},
  h('table', {}, h('thead', {}, h('tr', {}, heads.map((t) => h('th', {scope: 'col'}, t)))),
    h('tbody', {}, rows.map((r) => h('tr', {}, r.map((c) => (c instanceof HTMLTableCellElement ? c : h('td', {}, c))))))));

export function notice(text) {
  const at = document.getElementById('notice');
  at.replaceChildren(h('p', {}, text));
  clearTimeout(notice.timer);
  notice.timer = setTimeout(() => at.replaceChildren(), 6000);
}

export const stateName = (job) => (job.state ?? '').replace('JOB_STATE_', '');
export const isOver = (job) => ['DONE', 'FAILED', 'CANCELLED'].includes(stateName(job));
export const state = (job) => h('span', {class: `state ${stateName(job)}`}, stateName(job).replaceAll('_', ' ').toLowerCase());

export function bytes(n) {
  if (n == null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (n = Number(n); n >= 1024 && i < 4; i++) n /= 1024;
  return `${n >= 100 || i === 0 ? n.toFixed(0) : n.toFixed(1)} ${units[i]}`;
}
export function seconds(s) {
  if (!Number.isFinite(s)) return '–';
  if (s < 60) return `${s < 10 ? s.toFixed(1) : s.toFixed(0)} s`;
  const m = Math.floor(s / 60);
  return m < 60 ? `${m} min ${Math.floor(s % 60)} s` : `${Math.floor(m / 60)} h ${m % 60} min`;
}
export const percent = (x) => (Number.isFinite(x) ? `${(100 * x).toFixed(1)} %` : '–');
export const count = (n) => Number(n ?? 0).toLocaleString('en');
export const short = (x) => (Number.isFinite(x) ? Number(x.toPrecision(4)).toString() : '–');

const sent = (p) => Number(p?.bytes_up ?? 0) + Number(p?.bytes_down ?? 0);
const plain = (p) => Number(p?.bytes_up_float32 ?? 0) + Number(p?.bytes_down_float32 ?? 0);
export const traffic = (p) => (sent(p) > 0 ? bytes(sent(p)) : '–');
export const saving = (p) => (sent(p) > 0 && plain(p) > 0 ? `${(plain(p) / sent(p)).toFixed(1)}× less` : '–');
export const accuracyOf = (job) => job.result?.accuracy ?? (job.progress?.step ? job.progress.accuracy ?? NaN : NaN);
export function trainedSeconds(job) {
  if (!job.start_time) return NaN;
  return ((job.end_time ? Date.parse(job.end_time) : Date.now()) - Date.parse(job.start_time)) / 1000;
}
/** A specification as a flat object: {"codec.up.name": "int8"}. */
export function flatten(value, at = '', out = {}) {
  if (value !== null && typeof value === 'object' && !(Array.isArray(value) && value.every((v) => typeof v !== 'object'))) {
    for (const [k, v] of Object.entries(value)) {
      flatten(v, Array.isArray(value) ? `${at}[${k}]` : at ? `${at}.${k}` : k, out);
    }
  } else {
    out[at] = Array.isArray(value) ? value.join(',') : value;
  }
  return out;
}
