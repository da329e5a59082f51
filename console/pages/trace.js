// Open a trace file: of the simulator, of the checker, or of a real group.

import {el, fill} from '../lib/dom.js';
import {list, number, plural} from '../lib/format.js';
import {headline} from '../run/report.js';
import {promisedBy} from '../run/spec.js';
import {promises} from '../run/verdict.js';
import {createViewer} from '../run/viewer.js';

const BYTES_MAX = 64 * 1024 * 1024;

export function mount(root, {about}, {api, setTitle}) {
  setTitle('Open a trace');
  const input = el('input', {type: 'file', id: 'trace-file', accept: '.ndjson,.jsonl,.json,.txt,application/x-ndjson', on: {change: () => input.files[0] && open(input.files[0])}});
  const result = el('div', {});
  const drop = el('div', {class: 'drop', on: {
    dragover: (event) => { event.preventDefault(); drop.classList.add('over'); },
    dragleave: () => drop.classList.remove('over'),
    drop: (event) => {
      event.preventDefault();
      drop.classList.remove('over');
      if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
    },
  }}, el('p', {}, el('b', {}, 'Drop a trace here')), el('p', {class: 'muted'}, 'NDJSON, up to 64 MiB. It stays on this machine.'), input, el('label', {class: 'button', for: 'trace-file'}, 'Choose a file'));
  const limit = about.limits?.trace_bytes ?? BYTES_MAX;
  let controller = null;
  let close = () => {};
  fill(root, el('h1', {}, 'Open a trace'),
    el('p', {class: 'lead'}, 'Look at a run that was recorded elsewhere: by ', el('code', {}, 'baton sim --trace'), ', by ', el('code', {}, 'baton check --trace'), ', or by the members of a real group (', el('code', {}, 'baton trace merge'), ' makes one trace of theirs).'),
    drop, result);

  async function open(file) {
    close();
    controller?.abort();
    controller = new AbortController();
    const {signal} = controller;
    if (file.size > limit) return refuse(`This file has ${number(file.size / 1024 / 1024, 1)} MiB; the lab reads at most ${number(limit / 1024 / 1024, 0)} MiB.`);
    fill(result, el('p', {class: 'busy', role: 'status'}, 'The trace is being read.'));
    try {
      const text = await file.text();
      const answer = await api.post('/api/trace', text, {signal, type: 'application/x-ndjson'});
      show(file.name, text, answer);
    } catch (error) {
      if (!api.isAbort(error)) refuse(error.message);
    }
    return undefined;
  }

  function refuse(sentence) {
    fill(result, el('p', {class: 'notice bad', role: 'alert'}, sentence));
  }

  function show(name, text, {header, report, scene, replayable, why}) {
    const algorithm = about.algorithms.find((known) => known.name === header.algorithm);
    const stage = el('div', {});
    const judgedBy = promisedBy(algorithm, about.algorithms);
    const {rows} = promises(report, judgedBy.promises);
    const judged = rows.filter(({verdict}) => verdict !== 'unchecked');
    setTitle(name);
    fill(result,
      el('header', {class: 'run-title'},
        el('h2', {}, name),
        el('p', {class: 'muted'}, [header.algorithm, header.variant, plural(header.processes, 'process', 'processes'), plural(scene.records, 'record')].filter(Boolean).join(' · ')),
        headline(report, judgedBy),
        el('p', {class: 'muted'}, judged.length > 0 && `Judged by its events: ${list(judged.map(({property, verdict}) => `${property} ${verdict}`))}.`)),
      stage);
    close = createViewer(stage, {api, scene, source: replayable ? {trace: text} : null, why, name: `Space-time diagram of ${name}`});
    result.scrollIntoView({block: 'start'});
  }

  return () => {
    controller?.abort();
    close();
  };
}
