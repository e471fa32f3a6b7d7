// SPDX-License-Identifier: Apache-2.0
// jobs.js - the list of jobs: filter, search, choose some to compare.
import {call} from './api.js';
import {accuracyOf, h, isOver, notice, percent, saving, seconds, state, stateName, table, traffic, trainedSeconds} from './dom.js';

const EVERY_MS = 2000, ROWS = 50;
const groups = {all: 'All', active: 'Active', DONE: 'Done', FAILED: 'Failed', CANCELLED: 'Cancelled'};

export async function jobsView(view) {
  const chosen = new Set();
  const search = h('input', {type: 'search', id: 'search', placeholder: 'Title, id, codec, data…', 'aria-label': 'Search jobs'});
  const group = h('select', {id: 'group', 'aria-label': 'State'}, Object.entries(groups).map(([k, v]) => h('option', {value: k}, v)));
  const compare = h('button', {class: 'first', disabled: true, on: {click: () => {
    location.hash = `#/compare?jobs=${[...chosen].map(encodeURIComponent).join(',')}`;
  }}}, 'Compare');
  const list = h('div'), range = h('span', {class: 'soft', id: 'range'});
  const newer = h('button', {id: 'newer', on: {click: () => turn(-ROWS)}}, 'Newer jobs');
  const older = h('button', {id: 'older', on: {click: () => turn(ROWS)}}, 'Older jobs');
  view.append(h('div', {class: 'row head'}, h('h1', {}, 'Jobs'), h('div', {class: 'row'}, search, group, compare,
    h('a', {class: 'button', href: '#/submit'}, 'Submit a job'))), h('section', {class: 'card'}, list), h('div', {class: 'row'}, newer, older, range));
  let jobs = [], next = '', past = [], first = 0, timer = 0, isGone = false, isTurning = false;

  function matching() {
    const text = search.value.trim().toLowerCase();
    return [...jobs, ...past].filter((j) => (group.value === 'all' || stateName(j) === group.value ||
      (group.value === 'active' && !isOver(j))) && (!text || `${j.id} ${j.owner ?? ''} ${words(j)}`.toLowerCase().includes(text)));
  }

  /** Shows ROWS of the jobs that match: the page is as small for 1,000 jobs as for 50. */
  function draw() {
    const found = matching();
    first = Math.min(first, Math.max(0, Math.ceil(found.length / ROWS) - 1) * ROWS);
    const shown = found.slice(first, first + ROWS);
    newer.disabled = first === 0;
    older.disabled = !next && first + ROWS >= found.length;
    range.textContent = shown.length === 0 ? '' : `${first + 1} to ${first + shown.length} of ${found.length}${next ? ' or more' : ''}`;
    const active = document.activeElement?.id;
    list.replaceChildren(shown.length === 0 ? h('p', {class: 'soft'}, jobs.length === 0
      ? 'No job yet. Submit one here, or by psgd submit in a terminal.' : 'No job matches.')
      : table(['', 'Job', 'State', 'Progress', 'Time', 'Accuracy', 'Traffic', 'Against float32', 'Goodput'], shown.map(row), 'Jobs'));
    if (active) document.getElementById(active)?.focus();
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size < 2 ? 'Compare' : `Compare ${chosen.size}`;
  }

  function row(j) {
    const p = j.progress ?? {}, share = p.total_steps ? (p.step ?? 0) / p.total_steps : 0;
    const box = h('input', {type: 'checkbox', id: `choose-${j.id}`, 'aria-label': `Compare ${j.id}`, on: {change: (e) => {
      if (e.target.checked) chosen.add(j.id); else chosen.delete(j.id);
      draw();
    }}});
    box.checked = chosen.has(j.id);
    const link = h('a', {href: `#/job/${encodeURIComponent(j.id)}`, id: `job-${j.id}`}, j.id);
    return [box, h('td', {class: 'name'}, link, h('div', {class: 'soft small'}, words(j))), state(j),
      isOver(j) ? `${p.step ?? 0} steps` : h('span', {}, h('progress', {value: share, max: 1, 'aria-label': `Progress of ${j.id}`}), ' ',
        h('span', {class: 'small soft'}, percent(share), p.eta_seconds ? ` · ${seconds(p.eta_seconds)} left` : '')),
      seconds(trainedSeconds(j)), percent(accuracyOf(j)), traffic(p), saving(p),
      j.goodput ? percent(j.goodput) : '–'];
  }

  async function load() {
    try {
      const page = await call('ListJobs', {page_size: 100});
      jobs = page.jobs ?? [];
      if (past.length === 0) next = page.next_page_token ?? '';
      const known = new Set(jobs.map((j) => j.id));
      past = past.filter((j) => !known.has(j.id));
    } catch (e) {
      if (jobs.length === 0 && !isGone) list.replaceChildren(h('p', {class: 'error'}, e.message));
      return;
    }
    if (!isGone) draw();
  }

  async function again() {
    if (!document.hidden) await load();
    if (!isGone) timer = setTimeout(again, EVERY_MS);
  }

  /** Moves the shown rows by `by` jobs; asks the coordinator for older jobs until enough of them match. */
  async function turn(by) {
    if (isTurning) return;
    isTurning = true;
    try {
      while (next && !isGone && matching().length < first + by + ROWS) {
        const page = await call('ListJobs', {page_size: 100, page_token: next});
        past.push(...(page.jobs ?? []));
        next = page.next_page_token ?? '';
      }
    } catch (e) {
      notice(e.message);
    }
    isTurning = false;
    first = Math.max(0, first + by);
    if (!isGone) draw();
  }

  search.addEventListener('input', () => { first = 0; draw(); turn(0); });
  group.addEventListener('change', () => { first = 0; draw(); turn(0); });
  await again();
  return () => { isGone = true; clearTimeout(timer); };
}

function words(j) {
  const s = j.spec ?? {};
  return [s.model?.preset, s.data?.name, s.codec?.up?.name && `${s.codec.up.name}/${s.codec.down?.name}`, s.consistency?.name,
    s.workers && `${s.workers} worker${s.workers > 1 ? 's' : ''}`].filter(Boolean).join(' · ');
}
