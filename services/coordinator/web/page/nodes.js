// SPDX-License-Identifier: Apache-2.0
// nodes.js - the list of nodes: state, job, load and disk of each.
import {call} from './api.js';
import {bytes, h, table} from './dom.js';

const EVERY_MS = 2000;
const word = (text) => (text ?? '').replace(/^NODE_(ROLE|PHASE)_/, '').toLowerCase();

export async function nodesView(view) {
  const list = h('div');
  let timer = 0, isGone = false;
  view.append(h('h1', {}, 'Nodes'), h('section', {class: 'card'}, list));

  // What the node's process uses of processors and memory, and how many bytes its host receives and sends a second.
  const used = (l) => (l ? [`${(l.cpu ?? 0).toFixed(2)} of ${l.processors ?? 0}`, `${bytes(l.memory_bytes ?? 0)} of ${bytes(l.host_memory_bytes ?? 0)}`,
    `in ${bytes(l.received_bytes_per_second ?? 0)}/s, out ${bytes(l.sent_bytes_per_second ?? 0)}/s`] : ['–', '–', '–']);

  const row = (n) => [h('strong', {}, n.id), word(n.role), h('span', {class: `state ${n.alive ? 'DONE' : 'FAILED'}`}, n.alive ? 'alive' : n.left ? 'left' : 'lost'),
    n.job_id ? h('a', {href: `#/job/${encodeURIComponent(n.job_id)}`}, n.job_id) : '–', word(n.phase), n.address,
    n.disk ? `${bytes(n.disk.free_bytes)} free${n.disk.is_low ? ', too little' : ''}` : '–', n.version,
    ...used(n.load), n.certificate_expires ? new Date(n.certificate_expires).toLocaleString() : '–', (n.kernels ?? '').split(',')[0]];

  async function load() {
    if (!document.hidden) {
      const nodes = [];
      let token = '';
      do {
        const page = await call('ListNodes', {page_size: 1000, page_token: token});
        nodes.push(...(page.nodes ?? []));
        token = page.next_page_token ?? '';
      } while (token);
      if (isGone) return;
      list.replaceChildren(nodes.length === 0 ? h('p', {class: 'soft'}, 'No node has registered. Start psgd-worker and psgd-pserver with --coordinator.')
        : table(['Node', 'Role', 'State', 'Job', 'Phase', 'Address', 'Disk', 'Version', 'CPU', 'Memory', 'Network of its host', 'Certificate until', 'Processor'], nodes.map(row), 'Nodes'));
    }
    timer = setTimeout(() => load().catch(() => { timer = setTimeout(load, EVERY_MS); }), EVERY_MS);
  }
  await load();
  return () => { isGone = true; clearTimeout(timer); };
}
