// SPDX-License-Identifier: Apache-2.0
// api.js - calls of CoordinatorService.

export class CallError extends Error {
  constructor(status, error) {
    super(error?.message ?? `the coordinator answered ${status}`);
    this.status = status;
    this.reason = error?.reason;
    this.violations = error?.violations ?? [];
  }
}

/** Calls a method with a request as JSON. Throws CallError. */
export async function call(method, request = {}) {
  let answer;
  try {
    answer = await fetch(`/api/v1/${method}`, {
      method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(request),
    });
  } catch {
    throw new CallError(0, {message: 'the coordinator does not answer'});
  }
  return (await checked(answer)).json();
}

/** Returns an answer, or throws CallError if it is an error. If the user has to log in, app.js asks for the token. */
async function checked(answer)
{
    if (answer.ok)
        return answer;
    if (answer.status === 401)
        dispatchEvent(new Event('unauthenticated'));
    throw new CallError(answer.status, (await answer.json().catch(() => ({}))).error);
}

/** Has the browser keep a token ('': forget it) for all calls. Throws CallError. */
export const logIn = (token) => call('login', {token});

export async function curves(jobId) {
    return (await checked(await fetch(`/api/v1/curves?job_id=${encodeURIComponent(jobId)}`)))
        .json();
}

export const fileUrl = (jobId, name) =>
  `/api/v1/ReclaimLogs?job_id=${encodeURIComponent(jobId)}&name=${encodeURIComponent(name)}`;

export async function fileText(jobId, name) {
    return (await checked(await fetch(fileUrl(jobId, name)))).text();
}

/** Follows a job's events until it is over or the function that is returned is called. Resumes after a lost connection. While the page is hidden, no connection is open. */
export function watch(jobId, onEvent, onLink) {
  let source = null, last = 0, isOver = false;
  const open = () => {
    if (source || isOver || document.hidden) return;
    source = new EventSource(`/api/v1/WatchJob?job_id=${encodeURIComponent(jobId)}&after_sequence=${last}`);
    source.onopen = () => onLink(true);
    source.onmessage = (e) => {
      last = Number(e.lastEventId) || last;
      onEvent(JSON.parse(e.data));
    };
    source.addEventListener('end', () => { isOver = true; close(); });
    source.onerror = () => {
      onLink(false);
      close();
      setTimeout(open, 1000);
    };
  };
  const close = () => { source?.close(); source = null; };
  const visible = () => (document.hidden ? close() : open());
  document.addEventListener('visibilitychange', visible);
  open();
  return () => { isOver = true; close(); document.removeEventListener('visibilitychange', visible); };
}
