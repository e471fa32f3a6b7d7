// SPDX-License-Identifier: Apache-2.0
// curves.js - the curves of a job: what the coordinator has seen of it, or its reports if it is over, with evaluations
// and later progress from its events.
import {curves} from './api.js';

export const axes = {step: 'step', epoch: 'epoch', seconds: 'seconds', bytes: 'bytes'};
const POINTS = 1000;

/** Returns rows with one loss each. A row of several steps becomes two: its least loss, midway from the row before, and its greatest, at its step. */
function rowsOf(all) {
  const bytes = all.bytes_up.map((b, i) => b + all.bytes_down[i]);
  const row = (i, isLeast) => {
    const x = (v) => (isLeast && v[i] != null ? ((v[i - 1] ?? 0) + v[i]) / 2 : v[i]);
    return {step: x(all.step), epoch: x(all.epoch), seconds: x(all.seconds), bytes: x(bytes),
      loss: (isLeast ? all.loss_min : all.loss_max)[i], accuracy: all.accuracy[i], speed: all.samples_per_second[i],
      metrics: Object.fromEntries(Object.entries(all.metrics ?? {}).map(([name, values]) => [name, values[i]]))};
  };
  return all.step.flatMap((_, i) => (all.loss_max[i] > all.loss_min[i] ? [row(i, true), row(i, false)] : [row(i, false)]));
}

/** Thins rows to pairs of the least and the greatest loss of each run of neighbours. */
function thin(rows, most = POINTS) {
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
    const seen = await curves(this.job.id).catch(() => null);
    if (!seen) return this;
    this.training = rowsOf(seen);
    this.isWhole = seen.tests !== undefined;
    this.rounds = seen.rounds;
    if (this.isWhole) this.tests = new Map(rowsOf(seen.tests).map((r) => [r.step, r]));
    return this;
  }

  /** Adds the evaluation or progress in an event of the job. */
  take(event) {
    const p = event.job?.progress;
    if (!p?.step) return;
    const point = {step: p.step, epoch: p.epoch, loss: p.loss, accuracy: p.accuracy, speed: p.samples_per_second, metrics: p.program_metrics ?? {},
      seconds: event.job.start_time ? (Date.parse(event.time) - Date.parse(event.job.start_time)) / 1000 : NaN,
      bytes: (p.bytes_up ?? 0) + (p.bytes_down ?? 0)};
    if (event.kind === 'JOB_EVENT_KIND_METRICS' && event.job.result) {
      this.tests.set(p.step, {...point, loss: event.job.result.loss, accuracy: event.job.result.accuracy});
    } else if (event.kind === 'JOB_EVENT_KIND_PROGRESS' && !(this.training.at(-1)?.step >= p.step)) {
      this.training.push(point);
      if (this.training.length > 2 * POINTS) this.training = thin(this.training);
    }
  }

  metricLine(name, axis) { return this.training.map((p) => [p[axis], p.metrics[name] ?? NaN]); }
  line(field, axis, from = this.training) { return from.map((p) => [p[axis], p[field]]); }
  testLine(field, axis) { return this.line(field, axis, [...this.tests.values()].sort((a, b) => a.step - b.step)); }
}
