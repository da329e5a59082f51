// The workbench for one group: drawing, lists, lamps, branches, states, log, diagram. The pages "by hand" and "challenge"
// both mount it.

import {createDiagram} from '../diagram/diagram.js';
import {button, copy, el, fill} from '../lib/dom.js';
import {icon} from '../lib/icons.js';
import {createStructure} from '../structure/structure.js';
import {actor, deliver, drop, duplicate, key, parts, words} from './action.js';
import {createBranches} from './branches.js';
import {createDistance} from './distance.js';
import {HELP, command, moved} from './keys.js';
import {createLamps} from './lamps.js';
import {createLog} from './log.js';
import {createMessages} from './messages.js';
import {createProcesses, createStates} from './processes.js';
import {createSession} from './session.js';
import {pathTo} from './tree.js';

/**
 * `spec`, `rules`, `tree`, `paused`: the run. `property`: what the checker looks for, or null for any.
 * `onState(state, steps)` is called with each shown state, `addressOf({tree, paused})` gives its link.
 */
export function createBench({spec, rules, tree, paused: firstPaused, property = null, onState, addressOf, replace}) {
  const paused = new Set(firstPaused);
  const view = {chosen: null, selected: null, hint: null, paused, arrangement: 'fixed'};
  let state = null;
  let before = null;
  let allowed = new Set();

  const problem = el('p', {class: 'notice bad', role: 'alert', hidden: true});
  const busy = el('span', {class: 'busy bench-busy', hidden: true}, 'The group moves …');
  const session = createSession({
    spec,
    rules,
    tree,
    onProblem: (text) => {
      problem.hidden = !text;
      problem.textContent = text ?? '';
    },
    onBusy: (is) => {
      busy.hidden = !is;
    },
    onShow: shown,
  });

  const act = (action) => {
    const who = state && actor(action, state.pending);
    if (who !== null && paused.has(who)) return;
    if (allowed.has(key(action))) session.step(action);
  };
  const choose = (id) => {
    if (view.chosen === id) return;
    view.chosen = id;
    mark();
  };
  const select = (id) => {
    view.selected = id;
    lists();
    structure.show(state, view, false);
  };
  const pause = (id) => {
    if (!paused.delete(id)) paused.add(id);
    note();
    lists();
    structure.show(state, view, false);
  };

  const structure = createStructure({
    onMessage: (id) => act(deliver(id)),
    onProcess: (id) => state && select(id === view.selected ? null : id),
    onPoint: choose,
  });
  const lamps = createLamps();
  const messages = createMessages({onAction: act, onChoose: choose});
  const processes = createProcesses({onAction: act, onSelect: select, onPause: pause});
  const states = createStates({onSelect: select});
  const log = createLog({onGo: (index) => session.goTo(pathTo(session.tree, session.tree.current)[index])});
  const branches = createBranches({
    onGo: session.goTo,
    onRename: session.rename,
    onRemove: session.remove,
    textOf: session.textOf,
    isBroken: session.isBroken,
  });
  const distance = createDistance({
    question: () => ({spec, rules, actions: session.actions(), ...(property ? {property} : {})}),
    onHint: hinted,
  });

  const backButton = button([icon('back'), 'Back'], session.back, {class: 'button small', title: 'Backspace'});
  const forwardButton = button([icon('forward'), 'Forward'], session.forward, {class: 'button small', title: 'Right arrow'});
  const startButton = button([icon('first'), 'Start'], () => session.goTo(0), {class: 'button small', title: 'Home'});
  const counter = el('span', {class: 'step-counter'});
  const linkButton = button('Copy link', () => copy(location.href, linkButton), {class: 'button small'});
  const arrange = el(
    'span',
    {class: 'segments', hidden: true},
    [
      ['fixed', 'Circle'],
      ['fathers', 'Tree of fathers'],
    ].map(([value, text]) =>
      button(
        text,
        () => {
          view.arrangement = value;
          arranged();
          structure.show(state, view, true);
        },
        {'aria-pressed': String(value === 'fixed'), data: {value}},
      ),
    ),
  );
  const arranged = () => {
    for (const one of arrange.children) one.setAttribute('aria-pressed', String(one.dataset.value === view.arrangement));
  };
  const keys = el(
    'details',
    {class: 'keys'},
    el('summary', {}, 'Keys'),
    el(
      'dl',
      {},
      HELP.map(([name, text]) => [el('dt', {}, el('kbd', {}, name)), el('dd', {}, text)]),
    ),
  );
  const diagramBox = el('div');
  const diagram = createDiagram(diagramBox, {name: 'The run so far', compact: true});

  const element = el(
    'div',
    {class: 'bench'},
    problem,
    lamps.element,
    el(
      'div',
      {class: 'bench-main'},
      el(
        'section',
        {class: 'stage card', 'aria-label': 'The group'},
        el(
          'div',
          {class: 'stage-tools'},
          el('div', {class: 'tool-group'}, startButton, backButton, forwardButton),
          counter,
          busy,
          arrange,
          linkButton,
        ),
        structure.element,
      ),
      el('aside', {class: 'panel', 'aria-label': 'What can happen next'}, messages.element, processes.element, distance.element, keys),
    ),
    branches.element,
    el('div', {class: 'bench-lower'}, states.element, log.element),
    el('section', {class: 'bench-diagram'}, el('h2', {}, 'The run so far'), diagramBox),
  );

  /** Writes the run into the address, so that a link shows the same. */
  function note() {
    replace(addressOf({tree: session.tree, paused}));
  }

  function lists() {
    if (!state) return;
    messages.show(state, {paused, allowed});
    processes.show(state, view);
    states.show(state, before, view);
    messages.mark(view.chosen, view.hint);
  }

  function mark() {
    messages.mark(view.chosen, view.hint);
    if (state) structure.show(state, view, false);
  }

  /** Shows the step that the checker would take, and returns its text. */
  function hinted(action) {
    const message = action && ['deliver', 'drop', 'duplicate'].includes(parts(action).name) ? parts(action).fields.message : null;
    const changed = view.hint !== message;
    view.hint = message;
    if (changed) mark();
    if (message !== null) messages.reveal(message);
    return action ? (state?.enabled.find((offered) => key(offered.action) === key(action))?.text ?? words(action)) : '';
  }

  function shown(answer, {before: former, moving}) {
    if (answer === null) return buttons();
    state = answer;
    before = former;
    allowed = new Set(state.enabled.map(({action}) => key(action)));
    if (!state.pending.some(({id}) => id === view.chosen)) view.chosen = null;
    if (!state.processes.some(({id}) => id === view.selected)) view.selected = null;
    view.hint = null;
    distance.reset();
    lamps.show(state.lamps);
    arrange.hidden = !state.processes.some(({picture}) => picture.some(({name}) => name === 'father'));
    structure.show(state, view, moving);
    lists();
    branches.show(session.tree);
    log.show(state.log);
    diagram.show(state.scene, {spacing: 'order', keep: true});
    buttons();
    note();
    onState?.(state, session.tree.nodes[session.tree.current].depth);
    return undefined;
  }

  function buttons() {
    const {nodes, current} = session.tree;
    backButton.disabled = startButton.disabled = nodes[current].parent === null;
    forwardButton.disabled = nodes[current].last === null;
    fill(counter, el('b', {}, String(nodes[current].depth)), nodes[current].depth === 1 ? ' step' : ' steps');
  }

  const go = {
    deliver: () => view.chosen !== null && act(deliver(view.chosen)),
    drop: () => view.chosen !== null && act(drop(view.chosen)),
    duplicate: () => view.chosen !== null && act(duplicate(view.chosen)),
    back: session.back,
    forward: session.forward,
    start: () => session.goTo(0),
    nothing: () => {
      choose(null);
      if (view.selected !== null) select(null);
    },
  };

  function onKey(event) {
    if (!state || event.defaultPrevented) return;
    const at = event.target instanceof Element ? event.target : document.body;
    const inField = at.closest('input, select, textarea, canvas, [contenteditable], .diagram');
    const wanted = command(event, {inField: Boolean(inField), onButton: Boolean(at.closest('button, a, summary, [role=button]'))});
    if (!wanted) return;
    if (wanted.choose !== undefined && wanted.choose >= state.pending.length) return;
    if (wanted.choose !== undefined) choose(state.pending[wanted.choose].id);
    else if (wanted.move !== undefined) {
      if (state.pending.length === 0 || at.closest('[role=region]')) return;
      choose(moved(state.pending, view.chosen, wanted.move));
    } else go[wanted.go]();
    messages.reveal(view.chosen);
    event.preventDefault();
  }

  document.addEventListener('keydown', onKey);
  const started = session.start();
  return {
    element,
    started,
    destroy() {
      document.removeEventListener('keydown', onKey);
      session.stop();
      distance.reset();
      structure.destroy();
      diagram.destroy();
    },
  };
}
