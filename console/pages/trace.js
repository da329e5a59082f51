// Open a trace file: of the simulator, of the checker, or of a real group.

import {button, el, fill, withCode} from '../lib/dom.js';
import {number, plural, sentence} from '../lib/format.js';
import {label} from '../lib/tooltip.js';
import {headlineBox} from '../run/report.js';
import {judged} from '../run/verdict.js';
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

  function refuse(said) {
    fill(result, el('p', {class: 'notice bad', role: 'alert'}, withCode(said)));
  }

  function show(name, text, {id, header, report, unjudged, scene, truncated, replayable, why}) {
    const stage = el('div', {});
    const findings = report && judged(report);
    setTitle(name);
    fill(result,
      el('header', {class: 'run-title'},
        el('h2', {}, name),
        el('p', {class: 'muted'}, [header.algorithm, header.variant, plural(header.processes, 'process', 'processes'), plural(scene.records, 'record')].filter(Boolean).join(' · ')),
        findings && headlineBox(findings.headline),
        unjudged && el('p', {class: 'notice'}, withCode(`The trace cannot be judged: ${unjudged}`)),
        truncated && el('p', {class: 'notice'}, sentence(truncated.why))),
      stage,
      findings && el('section', {class: 'claims'}, el('h2', {}, 'Judged by its events'), verdicts(findings.rows, (seq) => viewer.select(seq))));
    const source = replayable ? {upload: id, otherwise: {trace: text}} : null;
    const viewer = createViewer(stage, {api, scene, source, why, name: `Space-time diagram of ${name}`});
    close = viewer.destroy;
    result.scrollIntoView({block: 'start'});
  }

  return () => {
    controller?.abort();
    close();
  };
}

/** What the judge looked at and found. The events of a violation can be chosen in the diagram. */
function verdicts(rows, choose) {
  const isNamed = rows.some(({resource}) => resource !== null && resource !== undefined);
  const tone = {held: 'good', violated: 'bad'};
  return el('div', {class: 'scroll'}, el('table', {},
    el('thead', {}, el('tr', {}, [isNamed && 'Resource', 'Property', 'Verdict', 'Checked', 'Found'].filter(Boolean).map((title) => el('th', {scope: 'col'}, title)))),
    el('tbody', {}, rows.map(({resource, property, verdict, counts, checked, detail, events = []}) => el('tr', {},
      isNamed && el('td', {}, resource ?? ''),
      el('th', {scope: 'row'}, label(property)),
      el('td', {}, el('span', {class: `tag ${tone[verdict] ?? ''}`}, verdict), counts === false && el('span', {class: 'muted'}, ' not promised')),
      el('td', {}, checked), el('td', {}, withCode(detail), events.map(({seq, t}) => [' ', button(`at ${number(t)}`, () => choose(seq), {class: 'link'})])))))));
}
