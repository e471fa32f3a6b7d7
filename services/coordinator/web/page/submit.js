// SPDX-License-Identifier: Apache-2.0
// submit.js - a form for a job: presets and choices from the coordinator, errors at their fields.
import {call} from './api.js';
import {flatten, h} from './dom.js';

// Field of JobSpec, label, kind of plugin or type, flag of psgd submit.
const fields = [
  ['preset', 'Preset', 'preset', '--preset'], ['title', 'Title', 'text', '--title'], ['workers', 'Workers', 'number', '--workers'], ['pservers', 'Parameter servers', 'number', '--pservers'],
  ['epochs', 'Epochs', 'number', '--epochs'], ['max_steps', 'Most steps', 'number', '--max-steps'], ['block_size', 'Block size', 'number', '--block-size'], ['seed', 'Seed', 'number', '--seed'],
  ['data.name', 'Data set', 'data', '--data'], ['data.train_limit', 'Training samples', 'number', '--train-limit'], ['model.preset', 'Network', 'network', '--model'], ['model.loss', 'Loss', 'loss', null],
  ['assignment.name', 'Assignment', 'assignment', '--assignment'],
  ['optimizer.rule.name', 'Optimizer', 'optimizer', '--optimizer'], ['optimizer.rule.params.lr', 'Learning rate', 'number', '--lr'],
  ['optimizer.schedule.name', 'Schedule of the learning rate', 'schedule', null], ['optimizer.clip.name', 'Clipping', 'clip', null], ['optimizer.local.name', 'Local optimizer', 'optimizer', null],
  ['update.name', 'Update', 'update', '--update'],
  ['consistency.name', 'Consistency', 'consistency', '--consistency'], ['codec.up.name', 'Codec up', 'codec', '--codec-up'], ['codec.down.name', 'Codec down', 'codec', '--codec-down'],
  ['exchange.name', 'Exchange', 'exchange', '--exchange'], ['straggler.name', 'Delay of workers', 'straggler', null], ['model.table.name', 'Sparse tables', 'table', null],
  ['checkpoint.every_steps', 'Checkpoint every', 'number', '--checkpoint-every'], ['stop_at.value', 'Stop at accuracy', 'number', null],
];

function put(spec, path, value) {
  const keys = path.split('.'), last = keys.pop();
  let at = spec;
  for (const k of keys) at = Object.hasOwn(at, k) ? at[k] : (at[k] = {});
  at[last] = value;
}
/** Returns the path of the numbers (params) of the plugin that is chosen at a field. */
const numbersOf = (path) => `${path.replace(/\.[^.]*$/, '')}.params`;
// A loss has no numbers of its own; model.params are those of the network.
const hasNumbers = (path) => path !== 'model.loss';
/** Reads lines of path = value. Throws an Error for a line that is none. */
function parseMore(text) {
  return text.split('\n').map((l) => l.trim()).filter(Boolean).map((line) => {
    const [, path, value] = /^([a-z]\w*(?:\.[a-z]\w*)*)\s*=\s*(.+)$/.exec(line) ?? [];
    if (!path) throw new Error(`“${line}” is not path = value, such as timeouts.step_ms = 5000`);
    try { return [path, JSON.parse(value)]; } catch { return [path, value]; }
  });
}
const quote = (text) => (/^[\w.,=:/-]+$/.test(text) ? text : `'${String(text).replaceAll("'", `'\\''`)}'`);
const scalar = (v) => (Array.isArray(v) ? `[${v.map(scalar).join(', ')}]` : typeof v === 'string' && !/^[A-Za-z_][\w./-]*$/.test(v) ? JSON.stringify(v) : String(v));
function yaml(value, indent = '') {
  return Object.entries(value).map(([k, v]) => (v !== null && typeof v === 'object' && !Array.isArray(v)
    ? `${indent}${k}:\n${yaml(v, `${indent}  `)}` : `${indent}${k}: ${v !== null && typeof v === 'object' ? JSON.stringify(v) : scalar(v)}\n`)).join('');
}

export async function submitView(view, _, query) {
  const [info, listed] = await Promise.all([call('GetServerInfo'), call('ListPresets')]);
  const from = query.get('from'), base = from ? (await call('GetJob', {job_id: from})).job.spec : {};
  const flat = flatten(base), inputs = new Map(), errors = new Map();
  const command = h('pre', {id: 'command'}), file = h('pre'), other = h('p', {class: 'error', role: 'alert'});
  const moreError = h('p', {class: 'error', id: 'f-more-error'});
  const more = h('textarea', {id: 'f-more', rows: 3, spellcheck: 'false', 'aria-describedby': 'f-more-hint f-more-error', placeholder: 'timeouts.step_ms = 5000', on: {input: () => { moreError.textContent = ''; draw(); }}});
  const button = h('button', {class: 'first', type: 'submit'}, 'Submit');

  const plugin = (kind, name) => info.plugins.find((p) => p.kind === kind && p.name === name);
  function number(path, p) {
    const id = `f-${path.replaceAll('.', '-')}`, error = h('p', {class: 'error', id: `${id}-error`});
    const range = `${p.default_value ?? 0}; ${p.min ?? 0} to ${p.max ?? 0}${p.integer ? ', whole' : ''}`;
    const input = h('input', {id, name: path, 'aria-describedby': `${id}-hint ${id}-error`, inputmode: 'decimal', autocomplete: 'off', placeholder: String(p.default_value ?? 0)});
    input.addEventListener('input', () => { mark(path, ''); draw(); });
    inputs.set(path, input);
    errors.set(path, error);
    return h('div', {class: 'field'}, h('label', {for: id}, p.name), input, error, h('p', {class: 'hint', id: `${id}-hint`}, `${p.help ?? ''} (default ${range})`));
  }
  /** Shows the numbers of the plugin that is chosen at a field. */
  function showNumbers(at, path, kind, name) {
    const base = numbersOf(path), own = fields.map(([p]) => p);
    for (const key of [...inputs.keys()].filter((k) => k.startsWith(`${base}.`) && !own.includes(k))) { inputs.delete(key); errors.delete(key); }
    const params = (plugin(kind, name)?.params ?? []).filter((p) => !own.includes(`${base}.${p.name}`));
    at.replaceChildren(...params.map((p) => number(`${base}.${p.name}`, p)));
    if (name === flat[path]) params.forEach((p) => { inputs.get(`${base}.${p.name}`).value = flat[`${base}.${p.name}`] ?? ''; });
    at.hidden = params.length === 0;
  }
  function showPreset(name) {
    const set = flatten((listed.presets ?? []).find((p) => p.name === name)?.spec ?? {});
    for (const [path, , kind] of fields) {
      const input = inputs.get(path), said = set[path] == null ? 'default' : `${set[path]} (preset)`;
      if (input.tagName === 'INPUT') input.placeholder = said;
      else if (kind !== 'preset') input.options[0].textContent = said;
    }
  }

  function field([path, label, kind]) {
    const id = `f-${path.replaceAll('.', '-')}`, plugins = info.plugins.filter((p) => p.kind === kind), presets = kind === 'preset' ? listed.presets ?? [] : [];
    const numbers = h('div', {class: 'numbers', hidden: true}), help = h('p', {class: 'hint', id: `${id}-hint`}), error = h('p', {class: 'error', id: `${id}-error`});
    const shared = {id, name: path, 'aria-describedby': `${id}-hint ${id}-error`};
    const input = kind === 'number' || kind === 'text' ? h('input', {...shared, inputmode: kind === 'number' ? 'decimal' : null, autocomplete: 'off', spellcheck: 'false', placeholder: 'default'})
      : h('select', shared, h('option', {value: ''}, kind === 'preset' ? 'none' : 'default'), [...plugins, ...presets].map((p) => h('option', {value: p.name}, p.name)));
    if (flat[path] != null) input.value = flat[path];
    inputs.set(path, input);
    errors.set(path, error);
    const explain = () => {
      const p = [...plugins, ...presets].find((x) => x.name === input.value);
      help.textContent = p?.summary ?? '';
      if (plugins.length > 0 && hasNumbers(path)) showNumbers(numbers, path, kind, input.value);
    };
    input.addEventListener('input', () => { explain(); if (kind === 'preset') showPreset(input.value); mark(path, ''); draw(); });
    explain();
    return h('div', {class: 'field'}, h('label', {for: id}, label), input, error, help, numbers);
  }
  function mark(path, text) {
    errors.get(path).textContent = text;
    if (text) inputs.get(path).setAttribute('aria-invalid', 'true');
    else inputs.get(path).removeAttribute('aria-invalid');
  }
  function read() {
    const spec = structuredClone(base);
    const kinds = new Map(fields.map(([p, , kind]) => [p, kind]));
    for (const [path, input] of inputs) {
      const text = input.value.trim(), kind = kinds.get(path) ?? 'number';
      if (text === String(flatten(spec)[path] ?? '')) continue;
      if (flat[path] != null && hasNumbers(path) && info.plugins.some((p) => p.kind === kind)) { // its numbers were those of another plugin
        const at = path.split('.').slice(0, -1).reduce((s, k) => s?.[k], spec);
        if (at) delete at.params;
      }
      if (text === '' && !kinds.has(path)) { // an unset number of a plugin is its default
        delete path.split('.').slice(0, -1).reduce((s, k) => s?.[k], spec)?.[path.split('.').at(-1)];
      } else put(spec, path, kind !== 'number' ? text : text === '' ? 0 : Number.isFinite(Number(text)) ? Number(text) : text);
    }
    try {
      for (const [path, value] of parseMore(more.value)) put(spec, path, value);
    } catch { /* the text is malformed; submit() shows that */ }
    return spec;
  }
  function draw() {
    const spec = read(), shown = flatten(spec), known = new Map(fields.map(([p, , , flag]) => [p, flag]));
    const parts = Object.entries(shown).map(([p, v]) => (p === 'stop_at.value' ? `--stop-at ${quote(`${shown['stop_at.metric'] ?? 'accuracy'}=${v}`)}`
      : known.get(p) ? `${known.get(p)} ${quote(v)}` : p.startsWith('stop_at') ? null : `--set ${quote(`${p}=${v}`)}`)).filter(Boolean);
    command.textContent = from ? 'psgd submit job.yaml --watch' : ['psgd submit', ...parts, '--watch'].join(' ');
    file.textContent = yaml(spec) || '# every default';
  }
  async function submit(e) {
    e.preventDefault();
    other.textContent = '';
    errors.forEach((_, path) => mark(path, ''));
    moreError.textContent = '';
    try { parseMore(more.value); } catch (error) {
      moreError.textContent = error.message;
      more.focus();
      return;
    }
    button.disabled = true;
    try {
      const {job} = await call('SubmitJob', {spec: read(), request_id: crypto.randomUUID?.() ?? ''});
      location.hash = `#/job/${encodeURIComponent(job.id)}`;
      return;
    } catch (error) {
      const rest = [];
      let first = null;
      for (const v of error.violations ?? []) {
        const at = v.field.replace(/^spec\./, ''), path = inputs.has(at) ? at : inputs.has(`${at}.name`) ? `${at}.name` : null;
        if (path) { mark(path, v.description); first ??= path; } else rest.push(`${v.field}: ${v.description}`);
      }
      if (!first || rest.length > 0) other.textContent = rest.length > 0 ? rest.join('; ') : error.message;
      if (first) inputs.get(first).focus();
    }
    button.disabled = false;
  }

  view.append(h('h1', {}, from ? `Resubmit ${from}` : 'Submit a job'), h('p', {class: 'soft'}, 'A field that is left out takes the number of the preset, or its default.'),
    h('form', {novalidate: true, on: {submit}}, h('section', {class: 'card'}, h('div', {class: 'form'}, fields.map(field)),
      h('div', {class: 'field'}, h('label', {for: 'f-more'}, 'Other fields'), more, moreError,
        h('p', {class: 'hint', id: 'f-more-hint'}, 'A line each: path = value. psgd info fields lists every path.')), h('p'), h('div', {class: 'row'}, button), other)),
    h('div', {class: 'grid'}, h('section', {class: 'card'}, h('h2', {}, 'The same in a terminal'), command), h('section', {class: 'card'}, h('h2', {}, 'The same as a file (job.yaml)'), file)));
  draw();
}
