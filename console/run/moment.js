// The state of each process at the chosen moment, and what the step did. Asks the server a little after the reader stops moving.

import {cell} from '../hand/picture.js';
import {debounce, el, fill, withCode} from '../lib/dom.js';
import {plural, time} from '../lib/format.js';
import {legend} from './legend.js';
import {createShape} from './shape.js';

const WAIT = 90;

export function createMoment(element, {api, brief = false}) {
  let source = null;
  let scene = null;
  let missing = null;
  let before = null;
  let controller = null;
  const shape = createShape({api});
  let drawable = Promise.resolve();
  element.classList.add('moment');

  const ask = debounce(async (seq) => {
    controller?.abort();
    controller = new AbortController();
    element.classList.add('asking');
    try {
      const {signal} = controller;
      const moment = await question(seq, signal);
      await drawable;
      if (signal.aborted) return;
      element.classList.remove('asking');
      show(moment);
      before = moment;
    } catch (error) {
      if (api.isAbort(error)) return;
      element.classList.remove('asking');
      fill(element, el('h2', {}, 'This moment'), el('p', {class: 'notice'}, withCode(error.message)));
    }
  }, WAIT);

  /** The server may have forgotten an upload; then the trace itself is sent. */
  async function question(seq, signal) {
    const {otherwise, ...request} = source;
    try {
      return await api.post('/api/moment', {...request, seq}, {signal});
    } catch (error) {
      if (!otherwise || error.status !== 404) throw error;
      return api.post('/api/moment', {...otherwise, seq}, {signal});
    }
  }

  function idle() {
    ask.cancel();
    controller?.abort();
    before = null;
    const invitation = missing ? withCode(`The states of the processes cannot be shown: ${missing}.`) : 'Click the diagram, step, or press play. This panel then shows the state of each process in the words of the algorithm, and what the step did.';
    fill(element, el('h2', {}, missing ? 'How to read it' : 'Choose a moment'), el('p', {class: 'muted'}, invitation), shape.element, !brief && scene && legend(scene));
    shape.show(null);
  }

  function show(moment) {
    const {seq, t, text, processes, pending} = moment;
    const old = before && Math.abs(before.seq - seq) < 50 ? before.processes : null;
    fill(element,
      el('h2', {}, time(t, scene.unit), el('span', {class: 'muted'}, ` after record ${seq}`)),
      el('ol', {class: 'did', 'aria-label': 'What the step did'}, text.length ? text.map((line) => el('li', {}, line)) : el('li', {class: 'muted'}, 'Nothing that a process can see.')),
      shape.element,
      el('div', {class: 'processes'}, processes.map((process) => processCard(process, old?.find(({id}) => id === process.id)))),
      pending && el('details', {class: 'pending'}, el('summary', {}, `${plural(pending.length, 'message')} under way`), el('ul', {}, pending.slice(0, 100).map((message) => el('li', {class: 'mono'}, message.text)))));
    // A far jump is not shown as a movement.
    shape.show(moment, old !== null);
    element.dataset.seq = seq;
  }

  idle();
  return {
    /** What the moments are of: `{spec}`, `{trace}` or `{upload, otherwise}`; null if they cannot be asked for, and `why`. `itsScene` is the run. */
    of(request, itsScene, why = null) {
      source = request;
      missing = why?.replace(/\.$/, '') ?? null;
      scene = itsScene;
      idle();
      drawable = shape.of(request, itsScene).then(() => !element.isConnected || before || shape.show(null));
    },
    at(seq) {
      if (seq === null || !source) idle();
      else ask(seq);
    },
    destroy() {
      ask.cancel();
      controller?.abort();
      shape.destroy();
    },
  };
}

function processCard(process, old) {
  const states = [!process.up && ['down', 'down'], process.inside && ['inside', 'inside'], process.waiting && ['waiting', 'waits'], process.leader === process.id && ['leads', 'leads']].filter(Boolean);
  const [tone, word] = states[0] ?? ['idle', process.role === 'helper' ? 'helper' : ''];
  const rows = process.picture.map((part) => {
    const {text, empty} = cell(part);
    const past = old?.picture.find(({name}) => name === part.name);
    const changed = old && (!past || cell(past).text !== text);
    return [el('dt', {}, part.name), el('dd', {class: `${empty ? 'muted' : ''} ${changed ? 'changed' : ''}`}, text)];
  });
  const facts = [process.leader !== null && process.leader !== undefined && process.leader !== process.id && `follows P${process.leader}`, process.suspects?.length && `suspects ${process.suspects.map((id) => `P${id}`).join(', ')}`, process.ready === false && process.up && 'not ready'].filter(Boolean);
  return el('section', {class: `process ${tone}`, 'aria-label': `P${process.id}`},
    el('h3', {}, `P${process.id}`, word && el('span', {class: 'word'}, word)),
    facts.length > 0 && el('p', {class: 'facts-line'}, facts.join(' · ')),
    el('dl', {}, rows));
}
