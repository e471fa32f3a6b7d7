// SPDX-License-Identifier: Apache-2.0
// ranks.js - what the ranks of a job do over time: heat maps, and the reports of a job that runs.
import {h} from './dom.js';

const COLUMNS = 240, LINE = 8;

/** Makes a heat map: cells[rank][column], 0 to most; a line for each rank from 0 down. */
export function heatMap(cells, most, label) {
  const width = Math.max(cells[0]?.length ?? 0, 1);
  const canvas = h('canvas', {class: 'heat', width, height: cells.length * LINE, role: 'img', 'aria-label': label});
  const pen = canvas.getContext('2d');
  cells.forEach((row, k) => row.forEach((v, x) => {
    pen.fillStyle = `rgba(208,96,32,${(v / most).toFixed(3)})`;
    pen.fillRect(x, k * LINE, 1, LINE - 1);
  }));
  return canvas;
}

/** Reports of the ranks, a column for each. There are at most COLUMNS: then neighbours become one, with the largest values. */
export class Reports {
  constructor() { this.columns = []; this.last = new Map(); this.at = 0; this.stride = 1; this.taken = 0; }

  /** Adds the workers' reports at `now`, in milliseconds. Returns, by rank, how the time since the last report was spent. */
  take(workers, now) {
    const most = Math.max(0, ...workers.map((w) => Number(w.step ?? 0))), least = Math.min(...workers.map((w) => Number(w.step ?? 0)));
    const elapsed = (now - this.at) / 1000, column = {step: least, waits: [], behind: []}, shares = new Map();
    for (const w of workers) {
      const rank = w.rank ?? 0, waited = w.seconds_waiting ?? 0, before = this.last.get(rank);
      const known = before != null && waited >= before && elapsed > 0;
      const wait = known ? Math.min(1, (waited - before) / elapsed) : 0;
      if (known) shares.set(rank, {wait, compute: 1 - wait});
      column.waits[rank] = wait;
      column.behind[rank] = most - Number(w.step ?? 0);
      this.last.set(rank, waited);
    }
    this.at = now;
    if (workers.length > 0) this.#add(column);
    return {shares, most};
  }

  #add(column) {
    if (this.taken > 0 && this.taken < this.stride) this.columns.push(merged(this.columns.pop(), column));
    else { this.columns.push(column); this.taken = 0; }
    this.taken += 1;
    if (this.columns.length < COLUMNS) return;
    this.columns = Array.from({length: COLUMNS / 2}, (_, i) => merged(this.columns[2 * i], this.columns[2 * i + 1]));
    this.stride *= 2;
    this.taken = this.stride;
  }

  /** Returns the values of one kind as cells[rank][column]. */
  cells(kind) {
    const ranks = Math.max(0, ...this.columns.map((c) => c[kind].length));
    return Array.from({length: ranks}, (_, k) => this.columns.map((c) => c[kind][k] ?? 0));
  }
}

function merged(a, b) {
  const larger = (kind) => Array.from({length: Math.max(a[kind].length, b[kind].length)}, (_, k) => Math.max(a[kind][k] ?? 0, b[kind][k] ?? 0));
  return {step: b.step, waits: larger('waits'), behind: larger('behind')};
}
