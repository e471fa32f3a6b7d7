// SPDX-License-Identifier: Apache-2.0
// curves.js - the curves of a job: what the coordinator has seen of it, then the files of a job that is over, with
// evaluations and later progress from its events.
import {curves, fileText} from './api.js';
import {isOver} from './dom.js';

export const axes = {step: 'step', epoch: 'epoch', seconds: 'seconds', bytes: 'bytes'};
const POINTS = 1000;

function csv(text) {
  const lines = text.trim().split('\n'), names = lines[0].split(',');
  return lines.slice(1).map((line) => {
    const row = {};
    line.split(',').forEach((v, i) => { row[names[i]] = Number(v); });
    return row;
  });
}

/** Thins rows to pairs of the least and the greatest loss of each run of neighbours. */
export function thin(rows, most = POINTS) {
  if (rows.length <= most) return rows;
  const out = [], size = Math.ceil((2 * rows.length) / most);
  for (let i = 0; i < rows.length; i += size) {
    const part = rows.slice(i, i + size);
    const low = part.reduce((a, b) => (b.loss < a.loss ? b : a)), high = part.reduce((a, b) => (b.loss > a.loss ? b : a));
    out.push(...(low.step <= high.step ? [low, high] : [high, low]));
  }
  return out;
}

export class Curves {
  constructor(job) { this.job = job; this.training = []; this.tests = new Map(); }

  async load() {
    const seen = await curves(this.job.id).catch(() => ({step: []}));
    this.training = (seen.step ?? []).map((step, i) => ({
      step, epoch: seen.epoch[i], seconds: seen.seconds[i], loss: seen.loss_min[i], loss_max: seen.loss_max[i],
      accuracy: seen.accuracy[i], speed: seen.samples_per_second[i], bytes: seen.bytes_up[i] + seen.bytes_down[i],
    })).flatMap((p) => (p.loss_max > p.loss ? [p, {...p, step: p.step + 0.001, loss: p.loss_max}] : [p]));
    if (!isOver(this.job)) return this;
    const name = (kind) => (this.job.artifacts ?? []).map((a) => a.name).find((n) => n.startsWith(`${kind}-`) && n.endsWith('N(0).csv'));
    const [rounds, tests] = await Promise.all(['TR', 'EV'].map((k) => (name(k) ? fileText(this.job.id, name(k)) : '').valueOf()))
      .catch(() => ['', '']);
    if (rounds) {
      this.training = thin(csv(rounds).map((r) => ({step: r.step, epoch: r.epoch, seconds: r.time_s, loss: r.loss,
        accuracy: r.accuracy, speed: r.samples_per_s, bytes: r.bytes_up + r.bytes_down})));
      this.fromFiles = true;
    }
    if (tests) {
      csv(tests).forEach((r) => this.tests.set(r.step, {step: r.step, epoch: r.epoch, seconds: r.time_s, loss: r.loss,
        accuracy: r.accuracy, bytes: r.bytes_up + r.bytes_down}));
    }
    return this;
  }

  /** Takes an event of the job. */
  take(event) {
    const p = event.job?.progress;
    if (!p?.step) return;
    const point = {step: p.step, epoch: p.epoch, loss: p.loss, accuracy: p.accuracy, speed: p.samples_per_second,
      seconds: event.job.start_time ? (Date.parse(event.time) - Date.parse(event.job.start_time)) / 1000 : NaN,
      bytes: (p.bytes_up ?? 0) + (p.bytes_down ?? 0)};
    if (event.kind === 'JOB_EVENT_KIND_METRICS' && event.job.result) {
      this.tests.set(p.step, {...point, loss: event.job.result.loss, accuracy: event.job.result.accuracy});
    } else if (event.kind === 'JOB_EVENT_KIND_PROGRESS' && !(this.training.at(-1)?.step >= p.step)) {
      this.training.push(point);
      if (this.training.length > 2 * POINTS) this.training = thin(this.training);
    }
  }

  line(field, axis, from = this.training) { return from.map((p) => [p[axis], p[field]]); }
  testLine(field, axis) { return this.line(field, axis, [...this.tests.values()].sort((a, b) => a.step - b.step)); }
}
