// SPDX-License-Identifier: Apache-2.0
// submit.js - a form for a job: presets and choices from the coordinator, errors at their fields.
import {call} from './api.js';
import {flatten, h} from './dom.js';

// Field of JobSpec, label, kind of plugin or type, flag of psgd submit.
const fields = [
  ['preset', 'Preset', 'preset', '--preset'], ['title', 'Title', 'text', '--title'], ['workers', 'Workers', 'number', '--workers'], ['pservers', 'Parameter servers', 'number', '--pservers'],
  ['epochs', 'Epochs', 'number', '--epochs'], ['max_steps', 'Most steps', 'number', '--max-steps'], ['block_size', 'Block size', 'number', '--block-size'], ['seed', 'Seed', 'number', '--seed'],
  ['data.name', 'Data set', 'data', '--data'], ['data.train_limit', 'Training samples', 'number', '--train-limit'], ['model.preset', 'Network', 'network', '--model'],
  ['optimizer.rule.name', 'Optimizer', 'optimizer', '--optimizer'], ['optimizer.rule.params.lr', 'Learning rate', 'number', '--lr'], ['update.name', 'Update', 'update', '--update'],
  ['consistency.name', 'Consistency', 'consistency', '--consistency'], ['codec.up.name', 'Codec up', 'codec', '--codec-up'], ['codec.down.name', 'Codec down', 'codec', '--codec-down'],
  ['exchange.name', 'Exchange', 'exchange', '--exchange'], ['checkpoint.every_steps', 'Checkpoint every', 'number', '--checkpoint-every'], ['stop_at.value', 'Stop at accuracy', 'number', null],
];

function put(spec, path, value) {
  const keys = path.split('.'), last = keys.pop();
  let at = spec;
  for (const k of keys) at = at[k] ??= {};
  at[last] = value;
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
  const button = h('button', {class: 'first', type: 'submit'}, 'Submit');

  function field([path, label, kind]) {
    const id = `f-${path.replaceAll('.', '-')}`, plugins = info.plugins.filter((p) => p.kind === kind), presets = kind === 'preset' ? listed.presets ?? [] : [];
    const help = h('p', {class: 'hint', id: `${id}-hint`}), error = h('p', {class: 'error', id: `${id}-error`});
    const shared = {id, name: path, 'aria-describedby': `${id}-hint ${id}-error`};
    const input = kind === 'number' || kind === 'text' ? h('input', {...shared, inputmode: kind === 'number' ? 'decimal' : null, autocomplete: 'off', spellcheck: 'false', placeholder: 'default'})
      : h('select', shared, h('option', {value: ''}, kind === 'preset' ? 'none' : 'default'), [...plugins, ...presets].map((p) => h('option', {value: p.name}, p.name)));
    if (flat[path] != null) input.value = flat[path];
    inputs.set(path, input);
    errors.set(path, error);
    const explain = () => {
      const p = [...plugins, ...presets].find((x) => x.name === input.value);
      help.textContent = p ? [p.summary, ...(p.params ?? []).slice(0, 4).map((n) => `${n.name}: ${n.default_value ?? 0} (${n.min ?? 0} to ${n.max ?? 0})`)].join('; ') : '';
    };
    input.addEventListener('input', () => { explain(); mark(path, ''); draw(); });
    explain();
    return h('div', {class: 'field'}, h('label', {for: id}, label), input, error, help);
  }
  function mark(path, text) {
    errors.get(path).textContent = text;
    if (text) inputs.get(path).setAttribute('aria-invalid', 'true');
    else inputs.get(path).removeAttribute('aria-invalid');
  }
  function read() {
    const spec = structuredClone(base);
    for (const [path, , kind] of fields) {
      const text = inputs.get(path).value.trim();
      if (text === '' && flat[path] == null) continue;
      if (text === String(flat[path] ?? '')) continue;
      const name = path.endsWith('.name') ? path.slice(0, -5) : null;
      if (name && flat[path] != null) put(spec, name, {}); // its numbers were those of another plugin
      put(spec, path, kind === 'number' && text !== '' && Number.isFinite(Number(text)) ? Number(text) : text === '' && kind === 'number' ? 0 : text);
    }
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
    h('form', {novalidate: true, on: {submit}}, h('section', {class: 'card'}, h('div', {class: 'form'}, fields.map(field)), h('p'), h('div', {class: 'row'}, button), other)),
    h('div', {class: 'grid'}, h('section', {class: 'card'}, h('h2', {}, 'The same in a terminal'), command), h('section', {class: 'card'}, h('h2', {}, 'The same as a file (job.yaml)'), file)));
  draw();
}
