// SPDX-License-Identifier: Apache-2.0
// job.js - one job, live.
import {call, fileText, fileUrl, watch} from './api.js';
import {chart} from './chart.js';
import {axes, Curves} from './curves.js';
import {explanation} from './explain.js';
import {heatMap, Reports} from './ranks.js';
import {timelines} from './timeline.js';
import {accuracyOf, bytes, count, facts, h, isOver, notice, percent, saving, seconds, short, state, stateName, table, traffic, trainedSeconds} from './dom.js';

const phases = {QUEUED: 'queued', CAN_COMMIT: 'ask nodes', PRE_COMMIT: 'send packages', DO_COMMIT: 'start', RUNNING: 'train', COLLECTING: 'collect files', DONE: 'done'};
const EVERY_MS = 2000, LOG_BYTES = 20000, EVENTS = 200;

/** The address of "mlflow:http://…" as a link; anything else stays text. */
function trackerLink(tracker) {
  const url = tracker.slice(tracker.indexOf(':') + 1);
  return /^https?:\/\//.test(url) ? h('a', {href: url, rel: 'noreferrer'}, tracker) : tracker;
}

/** Returns the newer one of two lists of a job's files, to which files are only added. */
const newer = (a = [], b = []) => (a.length > b.length ? a : b);

export async function jobView(view, [id]) {
  let job = (await call('GetJob', {job_id: id})).job;
  const curves = new Curves(job), reports = new Reports();
  const reported = (job.spec?.program_metrics ?? []).filter((name) => name !== 'accuracy'); // that has a chart of its own
  const charts = [chart('Loss'), chart('Accuracy', percent), chart('Samples a second'), chart('Bytes on the wire', bytes), ...reported.map((name) => chart(name))];
  const axis = h('select', {id: 'axis'}, Object.keys(axes).map((a) => h('option', {value: a}, a)));
  const at = {head: h('div', {class: 'row'}), phases: h('ol', {class: 'phases', 'aria-label': 'Phases'}), facts: h('div'), message: h('p', {}), trackers: h('ul', {class: 'plain small'}),
    workers: h('div'), now: h('div'), heat: h('div'), events: h('ol', {class: 'small'}), files: h('div'), log: h('pre', {tabindex: 0}), link: h('span', {class: 'soft small'})};
  const act = (name, request, said) => async (e) => {
    e.target.disabled = true;
    try { await call(name, {job_id: id, ...request}); notice(said); } catch (error) { notice(error.message); }
    e.target.disabled = false;
  };
  const cancel = h('button', {class: 'danger', id: 'cancel', on: {click: act('CancelJob', {}, 'The job is being cancelled.')}}, 'Cancel');
  const checkpoint = h('button', {on: {click: act('TakeCheckpoint', {}, 'A checkpoint is being taken.')}}, 'Checkpoint');
  const changed = async () => {
    const {artifacts} = (await call('GetJob', {job_id: id})).job;
    job.artifacts = newer(artifacts, job.artifacts); // `job` is read after the wait: an event may have replaced it
    drawFiles();
  };
  const timeline = timelines(id, changed), why = explanation(id, changed);
  let timer = 0, logTimer = 0, isGone = false, isDue = false, drawTimer = 0;

  view.append(h('div', {class: 'row head'}, h('div', {}, h('h1', {}, id), h('div', {class: 'row'}, at.head, at.link)),
    h('div', {class: 'row'}, cancel, checkpoint, h('a', {class: 'button', href: `#/submit?from=${encodeURIComponent(id)}`}, 'Resubmit with changes'))),
  at.phases, at.message, at.facts, at.trackers, h('div', {class: 'row head'}, h('h2', {}, 'Curves'), h('div', {class: 'row'}, h('label', {for: 'axis'}, 'Against'), axis)),
  h('div', {class: 'grid'}, charts.map((c) => c.element)), h('section', {class: 'card'}, h('h2', {}, 'Workers'), at.workers, at.now, at.heat), why.element, timeline.element,
  h('div', {class: 'grid'}, h('section', {class: 'card'}, h('h2', {}, 'Events'), at.events),
    h('section', {class: 'card'}, h('h2', {}, 'Log'), at.log)),
  h('section', {class: 'card'}, h('h2', {}, 'Files'), at.files));

  function drawHead() {
    const p = job.progress ?? {}, now = stateName(job), names = Object.keys(phases), reached = names.indexOf(now);
    at.head.replaceChildren(state(job), job.owner ? h('span', {class: 'soft'}, job.owner) : '');
    at.phases.replaceChildren(...names.map((n, i) => h('li', {class: i < reached || now === 'DONE' ? 'past' : null, 'aria-current': n === now ? 'step' : null}, phases[n])));
    at.message.textContent = [job.reason, job.message].filter(Boolean).join(': ');
    const runs = (job.tracker_runs ?? []).map((r) => h('li', {}, 'Tracker ', trackerLink(r.tracker ?? ''), r.run_id ? `, run ${r.run_id}` : '',
      r.message ? `: ${r.message}` : ''));
    if (runs.map((r) => r.textContent).join('') !== at.trackers.textContent) at.trackers.replaceChildren(...runs); // links keep the focus
    const computes = Boolean(job.spec?.compute); // partitions, which have no loss
    at.facts.replaceChildren(facts(computes ? [['Partitions', `${count(p.step)} of ${count(p.total_steps)}`], ['Ran for', seconds(trainedSeconds(job))],
      ['Workers', `${count(p.workers_alive)} of ${count(p.workers_total)}`], ['Waits for', p.waiting_for || null], ['Restarts', job.restarts || null]] : [['Step', `${count(p.step)} of ${count(p.total_steps)}`], ['Epoch', p.epoch ?? '–'], ['Time left', isOver(job) ? null : seconds(p.eta_seconds ?? NaN)],
      ['Trained for', seconds(trainedSeconds(job))], ['Loss', short(job.result?.loss ?? p.loss ?? NaN)], ['Accuracy', percent(accuracyOf(job))], ['Samples a second', count(Math.round(p.samples_per_second ?? 0))],
      ['Traffic', traffic(p)], ['Against float32', saving(p)], ['Goodput', job.goodput ? percent(job.goodput) : null], ['Waits for', p.waiting_for || null], ['Restarts', job.restarts || null]]));
    cancel.hidden = isOver(job);
    checkpoint.hidden = cancel.hidden || computes;
    timeline.set(job, stateName(job) === 'RUNNING');
    why.set(stateName(job) === 'RUNNING', isOver(job), p.step > 0 && (job.artifacts ?? []).some((a) => a.name === 'summary.json'));
  }
  function drawCurves() {
    isDue = false;
    const x = axis.value, both = (f) => [{name: 'training', points: curves.line(f, x)}, {name: 'test', points: curves.testLine(f, x)}].filter((s, i) => i === 0 || s.points.length > 0);
    charts[0].set(both('loss'), x);
    charts[1].set(both('accuracy'), x);
    charts[2].set([{name: 'all workers', points: curves.line('speed', x)}], x);
    charts[3].set([{name: 'up and down', points: curves.line('bytes', x)}], x);
    reported.forEach((name, i) => charts[4 + i].set([{name: 'training', points: curves.metricLine(name, x)}], x));
  }
  const drawSoon = () => { if (!isDue) { isDue = true; drawTimer = setTimeout(drawCurves, 250); } };

  function drawFiles() {
    timeline.set(job, stateName(job) === 'RUNNING');
    at.files.replaceChildren((job.artifacts ?? []).length === 0 ? h('p', {class: 'soft'}, 'Files are here when the job is over.')
      : table(['File', 'Size', 'From'], job.artifacts.map((a) => [h('a', {href: fileUrl(id, a.name), download: a.name.replaceAll('/', '_')}, a.name), bytes(a.size), a.node_id ?? 'coordinator']), 'Files'));
  }
  async function drawWorkers() {
    const got = await call('GetJob', {job_id: id, workers: true});
    const rows = got.workers ?? [], spent = trainedSeconds(got.job);
    const {shares, most} = reports.take(rows, performance.now());
    at.workers.replaceChildren(rows.length === 0 ? h('p', {class: 'soft'}, 'No worker reports now.')
      : table(['Rank', 'Step', 'Behind', 'Loss', 'Computes now', 'Waits now', 'Waited', 'Share of time', 'Sent', 'Received', 'Waits now for'], rows.map((w) => {
        const now = shares.get(w.rank ?? 0);
        return [String(w.rank ?? 0), count(w.step), count(most - (w.step ?? 0)), short(w.loss ?? NaN), percent(now?.compute), percent(now?.wait),
          seconds(w.seconds_waiting ?? 0), percent((w.seconds_waiting ?? 0) / spent), bytes(w.bytes_up ?? 0), bytes(w.bytes_down ?? 0), w.waiting_for ?? '–'];
      }), 'Workers'));
    drawNow();
  }
  function drawNow() {
    const {columns} = reports, waits = reports.cells('waits'), behind = reports.cells('behind'), late = Math.max(1, ...behind.flat());
    if (columns.length < 2 || isOver(job)) { at.now.replaceChildren(); return; }
    const steps = `steps ${count(columns[0].step)} to ${count(columns.at(-1).step)} from left to right`;
    at.now.replaceChildren(h('p', {class: 'soft small'}, `Share of time that each rank waited, a line for each rank from 0 down, ${steps}; darkest: 100 %`),
      heatMap(waits, 1, `Share of waits by rank, ${steps}`),
      h('p', {class: 'soft small'}, `Steps behind the fastest rank, the same ${steps}; darkest: ${count(late)}`), heatMap(behind, late, `Staleness by rank, up to ${count(late)} steps, ${steps}`));
  }
  function drawHeat() {
    const {rounds} = curves;
    if (!rounds?.count) return;
    const waits = rounds.longest_wait_s, most = Math.max(...waits.flat(), 1e-9);
    at.heat.replaceChildren(h('h2', {}, 'Where the time went'), table(['Rank', 'Compute', 'Exchange', 'Wait'],
      waits.map((_, k) => [String(k), ...['compute_s', 'exchange_s', 'wait_s'].map((n) => seconds(rounds[n][k]))]), 'Time of each rank'),
      h('p', {class: 'soft small'}, `Waits, a line for each rank from 0 down, rounds 1 to ${rounds.count} from left to right; darkest: ${seconds(most)}`),
      heatMap(waits, most, `Longest wait by rank and round, up to ${seconds(most)}`));
  }
  async function drawLog() {
    try {
      const node = (job.placements ?? []).find((p) => p.role === 'NODE_ROLE_WORKER')?.node_id;
      if (node) {
        const text = await fileText(id, `LOG-${job.spec?.title ?? id.replace(/-[^-]*$/, '')}-N(${node}).jsonl`);
        at.log.textContent = text.slice(-LOG_BYTES).trim().split('\n').map((line) => {
          try { const l = JSON.parse(line); return `${l.time.slice(11, 19)} ${l.level} ${l.room}: ${l.msg}`; } catch { return line; }
        }).join('\n');
        at.log.scrollTop = at.log.scrollHeight;
      }
    } catch { /* the file does not exist yet */ }
    if (!isGone && !isOver(job)) logTimer = setTimeout(drawLog, 2 * EVERY_MS);
  }
  async function poll() {
    if (!document.hidden && !isOver(job)) await drawWorkers().catch(() => {});
    if (!isGone && !isOver(job)) timer = setTimeout(poll, EVERY_MS);
  }
  async function finish() {
    job = (await call('GetJob', {job_id: id})).job;
    curves.job = job;
    await curves.load();
    drawHead(); drawCurves(); drawFiles(); drawHeat();
    await Promise.allSettled([drawWorkers(), drawLog()]);
  }
  function onEvent(event) {
    job = {...event.job, spec: event.job.spec ?? job.spec, artifacts: newer(event.job.artifacts, job.artifacts),
      tracker_runs: event.job.tracker_runs ?? job.tracker_runs};
    curves.take(event);
    if (event.kind !== 'JOB_EVENT_KIND_PROGRESS') {
      const time = new Date(event.time).toLocaleTimeString(), r = job.result ?? {};
      const said = event.kind === 'JOB_EVENT_KIND_METRICS' ? `evaluation: ${Object.entries(r).map(([k, v]) => `${k} ${short(v)}`).join(', ')}`
        : [stateName(job).replaceAll('_', ' ').toLowerCase(), job.reason, job.message].filter(Boolean).join(' · ');
      at.events.append(h('li', {}, h('span', {class: 'soft'}, `${time} `), said));
      while (at.events.children.length > EVENTS) at.events.firstChild.remove();
    }
    drawHead(); drawSoon();
    if (isOver(job) && event.kind === 'JOB_EVENT_KIND_STATE') finish().catch((e) => notice(e.message));
  }

  drawHead(); drawFiles();
  await curves.load();
  drawCurves();
  axis.addEventListener('change', drawCurves);
  const stop = watch(id, onEvent, (isUp) => { at.link.textContent = isUp ? '' : 'The coordinator does not answer; trying again…'; });
  await poll();
  drawLog();
  return () => { isGone = true; stop(); [timer, logTimer, drawTimer].forEach(clearTimeout); charts.forEach((c) => c.destroy()); timeline.destroy(); why.destroy(); };
}
