// Run an algorithm and look at the run.

import {createDiagram} from '../diagram/diagram.js';
import {button, copy, el, fill, select} from '../lib/dom.js';
import {number, sentence} from '../lib/format.js';
import {VERSION, address, runAddress, specOf} from '../lib/route.js';
import {explained} from '../lib/tooltip.js';
import {createControls, refusal} from '../run/controls.js';
import {createMoment} from '../run/moment.js';
import {facts, headline, reportOf} from '../run/report.js';
import {besides, groupOf, inVariant, promisedBy} from '../run/spec.js';

const FIRST = {algorithm: 'ricart-agrawala', n: 3, entries: 9};

export function mount(root, {query, about}, {api, replace, setTitle}) {
  const state = {spec: null, beside: query.beside ?? '', scenario: query.scenario ?? '', spacing: query.spacing === 'order' ? 'order' : 'time', seq: query.seq === undefined ? null : Number(query.seq)};
  const algorithms = new Map(about.algorithms.map((algorithm) => [algorithm.name, algorithm]));
  let controller = null;
  let diagrams = [];
  let moment = null;
  // The diagram whose moments the panel shows, and how to change it.
  let watched = 0;
  let watch = () => {};

  const title = el('h1', {});
  const intro = el('div', {class: 'intro'});
  const problem = el('p', {class: 'notice bad', role: 'alert', hidden: true});
  const result = el('div', {class: 'result'});
  const controls = createControls(about, {
    run: (spec) => { Object.assign(state, {scenario: '', seq: null}); start(spec); },
    scenario: (name) => play(name),
  });
  const assumed = el('p', {class: 'muted about'});
  fill(root, el('div', {class: 'run-head'}, el('div', {}, title, intro), assumed), controls.element, problem, result);

  function play(name) {
    const story = about.scenarios.find((scenario) => scenario.name === name);
    if (!story) return name && refuse(`There is no scenario "${name}".`);
    Object.assign(state, {scenario: name, seq: null, beside: ''});
    return start(story.spec);
  }

  function refuse(sentence) {
    problem.hidden = !sentence;
    fill(problem, sentence && refusal(sentence, () => {
      state.scenario = '';
      start({...state.spec, 'ignore-assumptions': true});
    }));
  }

  function introduce() {
    const algorithm = algorithms.get(state.spec.algorithm);
    const story = about.scenarios.find(({name}) => name === state.scenario);
    fill(title, story ? story.title : state.spec.algorithm, !story && algorithm?.broken && el('span', {class: 'tag bad'}, 'broken on purpose'));
    setTitle(story ? story.title : state.spec.algorithm);
    fill(intro, el('p', {class: 'lead'}, explained(story ? story.story.trim() : sentence(algorithm?.summary))));
    fill(assumed, algorithm && [story && [el('b', {}, algorithm.name), '. '], facts(inVariant(algorithm, state.spec.variant)), ' ', el('a', {href: address('algorithm', [algorithm.name])}, `About ${algorithm.name}`)]);
  }

  function note() {
    const more = {beside: state.beside, seq: state.seq, spacing: state.spacing === 'order' ? 'order' : undefined};
    replace(state.scenario ? address('run', [], {v: VERSION, scenario: state.scenario, ...more}) : runAddress(state.spec, more));
  }

  async function start(spec) {
    state.spec = spec;
    controller?.abort();
    controller = new AbortController();
    const {signal} = controller;
    const algorithm = algorithms.get(spec.algorithm);
    const others = algorithm ? besides(spec, algorithm, about.algorithms) : [];
    const other = others.find(({value}) => value === state.beside);
    if (!other) state.beside = '';
    controls.show(spec, state.scenario);
    introduce();
    refuse(null);
    note();
    clear();
    controls.busy(true);
    fill(result, el('p', {class: 'busy', role: 'status'}, 'The run is being simulated.'));
    try {
      const specs = other ? [spec, other.spec] : [spec];
      const runs = await Promise.all(specs.map((its) => api.post('/api/run', {spec: its}, {signal})));
      show(specs, runs, others, other?.tags ?? []);
    } catch (error) {
      if (api.isAbort(error)) return;
      fill(result);
      refuse(error.message);
    } finally {
      if (controller?.signal === signal) controls.busy(false);
    }
  }

  function clear() {
    moment?.destroy();
    for (const diagram of diagrams) diagram.destroy();
    diagrams = [];
    moment = null;
  }

  function show(specs, runs, others, tags) {
    const side = el('aside', {'aria-label': 'The chosen moment'});
    const pairs = runs.map((run, at) => ({run, spec: specs[at], element: el('div', {}), algorithm: inVariant(algorithms.get(specs[at].algorithm), specs[at].variant), name: [specs[at].algorithm, tags[at]?.[1]].filter(Boolean).join(', ')}));
    const titled = (at) => [specs[at].algorithm, el('span', {class: `tag ${tags[at][0]}`}, tags[at][1])];
    const beside = besideBox(others);
    fill(result,
      pairs.length > 1 && beside,
      el('div', {class: `run-grid ${pairs.length > 1 ? 'two' : ''}`},
        pairs.map(({run, element, algorithm, name}, at) => el('section', {class: 'run-one', 'aria-label': name},
          el('header', {class: 'run-title'}, pairs.length > 1 && el('h2', {}, titled(at)), headline(run.report, promisedBy(algorithm, about.algorithms)), toViolation(run.scene, at), pairs.length === 1 && beside,
          run.truncated && el('p', {class: 'notice'}, `The diagram shows the first ${number(run.truncated.shown)} of ${number(run.truncated.total)} records. ${run.truncated.why ?? ''}`)),
          element)), side),
      el('div', {class: `below ${pairs.length > 1 ? 'two' : ''}`}, pairs.map(({run, algorithm}, at) => el('div', {}, pairs.length > 1 && el('h2', {class: 'below-name'}, titled(at)), reportOf(run, promisedBy(algorithm, about.algorithms))))),
      reproduce(specs, runs));
    moment = createMoment(side, {api});
    watch = (at) => {
      watched = at;
      moment.of({spec: specs[at]}, runs[at].scene);
    };
    diagrams = pairs.map(({run, name, element}, at) => {
      const diagram = createDiagram(element, {
        name: `Space-time diagram of ${name}`, compact: pairs.length > 1,
        onSelect: (seq) => chosen(at, seq),
        onSpacing: (spacing) => { state.spacing = spacing; note(); },
      });
      diagram.show(run.scene, {spacing: state.spacing, seq: at === 0 && Number.isFinite(state.seq) ? state.seq : null});
      return diagram;
    });
    watch(0);
    if (Number.isFinite(state.seq) && state.seq !== null) moment.at(state.seq);
  }

  /** A violation may lie far to the right, so that a click leads to it. */
  function toViolation({violations}, at) {
    if (violations.length === 0) return null;
    // First what the headline tells: a promise that is broken.
    const {seq} = violations.find((violation) => violation.is_broken_promise) ?? violations[0];
    return button('Show where', () => {
      diagrams[at].select(seq);
      chosen(at, seq);
    }, {class: 'link'});
  }

  function chosen(at, seq) {
    if (watched !== at) watch(at);
    moment.at(seq);
    if (at === 0) {
      state.seq = seq;
      note();
    }
  }

  /** Broken and cured, or the detector on and off, side by side: the choice of the other run. */
  function besideBox(others) {
    const beside = others.length > 0 && select([{value: '', text: 'nothing'}, ...others.map(({value, text}) => ({value, text}))], state.beside, (value) => {
      state.beside = value;
      start(state.spec);
    });
    if (!beside) return null;
    beside.id = 'beside';
    return el('div', {class: 'beside'}, el('label', {for: 'beside'}, 'Side by side with'), beside);
  }

  function reproduce(specs, runs) {
    const link = button('Copy link', () => copy(location.href, link), {class: 'button'});
    return el('section', {class: 'again', 'aria-label': 'Do it again'},
      el('h2', {}, 'Do it again'),
      runs.map((run) => {
        const copying = button('Copy', () => copy(run.command, copying), {class: 'button', 'aria-label': 'Copy the command'});
        return el('p', {class: 'command'}, el('code', {tabindex: '0'}, run.command), copying);
      }),
      el('div', {class: 'row'}, link, el('a', {class: 'button', href: address('hand', [], {v: VERSION, spec: JSON.stringify(groupOf(specs[0]))})}, 'Step a new group by hand')));
  }

  const given = specOf(query);
  if (given.error) refuse(given.error);
  if (given.error || (!given.spec && state.scenario && !about.scenarios.some(({name}) => name === state.scenario))) {
    state.spec = FIRST;
    controls.show(FIRST);
    introduce();
    if (!given.error) refuse(`There is no scenario "${state.scenario}".`);
  } else if (state.scenario) {
    const {seq, beside} = state;
    const story = about.scenarios.find(({name}) => name === state.scenario);
    Object.assign(state, {seq, beside});
    start(story.spec);
  } else {
    start(given.spec ?? FIRST);
  }

  return () => {
    controller?.abort();
    clear();
  };
}
