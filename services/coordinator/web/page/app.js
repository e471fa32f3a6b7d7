// SPDX-License-Identifier: Apache-2.0
// app.js - which view is shown, by the part of the address behind #.
import {call, logIn} from './api.js';
import {compareView} from './compare.js';
import {h} from './dom.js';
import {jobView} from './job.js';
import {jobsView} from './jobs.js';
import {nodesView} from './nodes.js';
import {submitView} from './submit.js';

const views = {jobs: jobsView, job: jobView, compare: compareView, nodes: nodesView, submit: submitView};
const main = document.getElementById('main');
let leave = null, turn = 0;

/** Asks for the user's token, in place of the view that needs one. */
function askToken()
{
    if (document.getElementById('token'))
        return;
    turn++;
    leave?.();
    leave = null;
    const token = h('input', {
        type : 'password',
        id : 'token',
        autocomplete : 'off',
        required : true,
        spellcheck : 'false'
    });
    const said = h('p', {class : 'error', role : 'alert'});
    const send = async (e) => {
        e.preventDefault();
        try {
            await logIn(token.value.trim());
            await greet();
            show();
        } catch (error) {
            said.textContent = error.message;
        }
    };
    main.replaceChildren(h(
        'section', {class : 'card'}, h('h1', {}, 'Log in'),
        h('p', {}, 'A token says who you are. ', h('code', {}, 'psgd token create'), ' makes one.'),
        h('form', {on : {submit : send}}, h('label', {for: 'token'
          }, 'Token'), token, h('button', {}, 'Log in')), said));
    token.focus();
}

async function greet()
{
    const info = await call('GetServerInfo');
    const out =
        h('button', {id : 'log-out', on : {click : () => logIn('').then(() => location.reload())}},
          'Log out');
    document.getElementById('server').replaceChildren(
        `${info.address} · version ${info.version} `,
        ...(location.protocol === 'https:' ? [ out ] : []));
}

async function show() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = (path || 'jobs').split('/').map(decodeURIComponent);
  const mine = ++turn;
  leave?.();
  leave = null;
  for (const a of document.querySelectorAll('#nav a')) {
    const at = a.getAttribute('href').slice(2);
    if (at === name || (at === 'jobs' && ['job', 'compare'].includes(name))) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  const view = h('div');
  main.replaceChildren(view);
  try {
    const done = await (views[name] ?? jobsView)(view, rest, new URLSearchParams(query));
    if (mine === turn) leave = done;
    else done?.();
  } catch (e) {
    view.replaceChildren(h('section', {class: 'card'}, h('h1', {}, 'This could not be shown'), h('p', {}, e.message),
      h('button', {on: {click: show}}, 'Try again')));
  }
  document.title = `${main.querySelector('h1')?.textContent ?? 'psgd'} · psgd`;
}

addEventListener('unauthenticated', askToken);
addEventListener('hashchange', () => show().then(() => { scrollTo(0, 0); main.focus({preventScroll: true}); }));
show();
greet().catch(() => {});
