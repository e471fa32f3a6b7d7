// SPDX-License-Identifier: Apache-2.0
// compare.js - curves of several jobs over each other, and what differs in their specifications.
import {call} from './api.js';
import {chart} from './chart.js';
import {axes, Curves} from './curves.js';
import {accuracyOf, flatten, h, percent, saving, seconds, state, table, traffic, trainedSeconds} from './dom.js';

const MOST = 6, EVERY_MS = 2000;

export async function compareView(view, _, query) {
  const ids = (query.get('jobs') ?? '').split(',').filter(Boolean).slice(0, MOST);
  const loss = chart('Training loss'), test = chart('Test accuracy', percent);
  const axis = h('select', {id: 'axis'}, Object.keys(axes).map((a) => h('option', {value: a}, a)));
  const results = h('div'), differing = h('div');
  let timer = 0, isGone = false;

  view.append(h('div', {class: 'row head'}, h('h1', {}, `Compare ${ids.length} jobs`),
    h('div', {class: 'row'}, h('label', {for: 'axis'}, 'Against'), axis)),
  h('div', {class: 'grid'}, loss.element, test.element),
  h('section', {class: 'card'}, h('h2', {}, 'Results'), results),
  h('section', {class: 'card'}, h('h2', {}, 'What differs'), differing));

  const jobs = await Promise.all(ids.map(async (id) => (await call('GetJob', {job_id: id})).job));
  const all = jobs.map((j) => new Curves(j));

  function draw() {
    const x = axis.value;
    loss.set(all.map((c) => ({name: c.job.id, points: c.line('loss', x)})), x);
    test.set(all.map((c) => ({name: c.job.id, points: c.tests.size > 0 ? c.testLine('accuracy', x) : c.line('accuracy', x)})), x);
  }
  results.append(table(['Job', 'State', 'Time', 'Accuracy', 'Traffic', 'Against float32'], jobs.map((j) => [
    h('a', {href: `#/job/${encodeURIComponent(j.id)}`}, j.id), state(j), seconds(trainedSeconds(j)), percent(accuracyOf(j)),
    traffic(j.progress), saving(j.progress)]), 'Results'));
  const specs = jobs.map((j) => flatten(j.spec ?? {}));
  const fields = [...new Set(specs.flatMap(Object.keys))].sort()
    .filter((f) => new Set(specs.map((s) => String(s[f] ?? ''))).size > 1);
  differing.append(fields.length === 0 ? h('p', {class: 'soft'}, 'Nothing: the specifications are the same.')
    : table(['Field', ...ids], fields.map((f) => [h('code', {}, f), ...specs.map((s) => String(s[f] ?? '–'))]), 'What differs'));

  axis.addEventListener('change', draw);
  async function load() {
    await Promise.all(all.map((c) => (c.isWhole ? c : c.load())));
    if (isGone) return;
    draw();
    timer = setTimeout(load, EVERY_MS);
  }
  await load();
  return () => { isGone = true; clearTimeout(timer); loss.destroy(); test.destroy(); };
}
