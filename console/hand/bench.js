// The workbench for one group: drawing, lists, lamps, branches, states, log, diagram. The pages "by hand" and "challenge"
// both mount it.

import {createDiagram} from '../diagram/diagram.js';
import {el, fill, withCode} from '../lib/dom.js';
import {createStructure} from '../structure/structure.js';
import {actor, deliver, drop, duplicate, key, parts, words} from './action.js';
import {createBranches} from './branches.js';
import {createDistance} from './distance.js';
import {keyHelp, listenKeys} from './keyboard.js';
import {createLamps} from './lamps.js';
import {createLog} from './log.js';
import {createMessages} from './messages.js';
import {createProcesses} from './processes.js';
import {createSession} from './session.js';
import {createStates} from './states.js';
import {createToolbar} from './toolbar.js';
import {pathTo} from './tree.js';

/**
 * `spec`, `rules`, `tree`, `paused`: the run. `goal`: `{property, entries}`, what the checker looks for; it looks for any violation without.
 * `onState(state, steps)` is called with each shown state, `addressOf({tree, paused})` gives its link.
 */
export function createBench({spec, rules, tree, paused: firstPaused, goal = {}, onState, addressOf, replace}) {
  const paused = new Set(firstPaused);
  const view = {chosen: null, selected: null, hint: null, paused, arrangement: 'fixed'};
  /** The shown answer of the server, the one of the step before, and the keys of the actions that are possible. */
  let state = null;
  let before = null;
  let allowed = new Set();
  /** Of the diagram. By hand, time counts steps. */
  let spacing = 'time';

  const problem = el('p', {class: 'notice bad', role: 'alert', hidden: true});
  const session = createSession({spec, rules, tree, onShow: show, onProblem: tell, onBusy: (is) => views.toolbar.busy(is)});
  const diagramBox = el('div');
  const views = {
    toolbar: createToolbar({onStart: () => session.goTo(0), onBack: session.back, onForward: session.forward, onArrange: arrange}),
    structure: createStructure({onMessage: (id) => act(deliver(id)), onProcess: toggle, onPoint: choose}),
    lamps: createLamps(),
    messages: createMessages({onAction: act, onChoose: choose}),
    processes: createProcesses({onAction: act, onSelect: select, onPause: pause}),
    states: createStates({onSelect: select}),
    log: createLog({onGo: (index) => session.goTo(pathTo(session.tree, session.tree.current)[index])}),
    branches: createBranches(session),
    distance: createDistance({question, onHint: hint}),
    diagram: createDiagram(diagramBox, {name: 'The run so far', compact: true, onSpacing: (chosen) => (spacing = chosen)}),
  };
  const {toolbar, structure, lamps, messages, processes, states, log, branches, distance, diagram} = views;
  const element = arrangeParts({problem, ...views, diagramBox});

  function tell(text) {
    problem.hidden = !text;
    fill(problem, withCode(text));
  }

  function act(action) {
    // A second click may come before the answer to the first; the shown lists are then no longer true.
    if (session.isAhead()) return;
    const who = state && actor(action, state.pending);
    if (who !== null && paused.has(who)) return;
    if (allowed.has(key(action))) session.step(action);
  }

  function choose(id) {
    if (view.chosen === id) return;
    view.chosen = id;
    mark();
  }

  function select(id) {
    view.selected = id;
    lists();
    structure.show(state, view, false);
  }

  function toggle(id) {
    if (state) select(id === view.selected ? null : id);
  }

  function pause(id) {
    if (!paused.delete(id)) paused.add(id);
    note();
    lists();
    structure.show(state, view, false);
  }

  function arrange(arrangement) {
    view.arrangement = arrangement;
    structure.show(state, view, true);
  }

  function question() {
    return {spec, rules, actions: session.actions(), ...goal};
  }

  /** Shows the step that the checker would take, and returns its text. */
  function hint(action) {
    view.hint = action;
    // These buttons are in the part of a process that is shut at first.
    const {name, fields} = parts(action);
    if (['suspect', 'trust', 'app'].includes(name)) select(fields.by ?? fields.from);
    mark();
    const message = messageOf(action);
    if (message !== null) messages.reveal(message);
    return state.enabled.find((offered) => key(offered.action) === key(action))?.text ?? words(action);
  }

  /** Writes the run into the address, so that a link shows the same. */
  function note() {
    replace(addressOf({tree: session.tree, paused}));
  }

  function lists() {
    if (!state) return;
    messages.show(state, {paused, allowed});
    processes.show(state, view);
    states.show(state, before, view);
    mark();
  }

  function mark() {
    if (!state) return;
    messages.mark(view.chosen, messageOf(view.hint));
    const hinted = view.hint && key(view.hint);
    for (const one of element.querySelectorAll('[data-action]')) one.classList.toggle('hinted', one.dataset.action === hinted);
    structure.show(state, {...view, hint: messageOf(view.hint)}, false);
  }

  function show(answer, {before: former, moving}) {
    if (answer !== null) {
      state = answer;
      before = former;
      allowed = new Set(state.enabled.map(({action}) => key(action)));
      if (!state.pending.some(({id}) => id === view.chosen)) view.chosen = null;
      if (!state.processes.some(({id}) => id === view.selected)) view.selected = null;
      view.hint = null;
      distance.reset();
      lamps.show(state.lamps);
      structure.show(state, view, moving);
      lists();
      branches.show(session.tree);
      log.show(state.log);
      diagram.show(state.scene, {spacing, keep: true});
      note();
      onState?.(state, session.tree.nodes[session.tree.current].depth);
    }
    const hasFathers = state?.processes.some(({picture}) => picture.some(({name}) => name === 'father'));
    toolbar.show(session.tree, {hasFathers});
    // Where the server refuses the group there is nothing to show but the refusal.
    element.classList.toggle('refused', state === null);
  }

  const withChosen = (make) => () => view.chosen !== null && act(make(view.chosen));
  const unlisten = listenKeys({
    pending: () => state?.pending ?? [],
    chosen: () => view.chosen,
    choose(id) {
      choose(id);
      messages.focus(id);
    },
    go: {
      deliver: withChosen(deliver),
      drop: withChosen(drop),
      duplicate: withChosen(duplicate),
      back: session.back,
      forward: session.forward,
      start: () => session.goTo(0),
      nothing() {
        choose(null);
        if (view.selected !== null) select(null);
      },
    },
  });
  session.start();

  return {
    element,
    destroy() {
      unlisten();
      session.stop();
      distance.reset();
      structure.destroy();
      diagram.destroy();
    },
  };
}

/** The message that an action is about, or null. */
function messageOf(action) {
  const {name, fields} = action ? parts(action) : {};
  return ['deliver', 'drop', 'duplicate'].includes(name) ? fields.message : null;
}

function arrangeParts({problem, toolbar, structure, lamps, messages, processes, states, log, branches, distance, diagramBox}) {
  return el(
    'div',
    {class: 'bench'},
    problem,
    lamps.element,
    el(
      'div',
      {class: 'bench-grid'},
      el('section', {class: 'stage card', 'aria-label': 'The group'}, toolbar.element, structure.element),
      el('aside', {class: 'panel', 'aria-label': 'What can happen next'}, messages.element, processes.element, distance.element, keyHelp()),
      branches.element,
      states.element,
      log.element,
    ),
    el('section', {class: 'bench-diagram'}, el('h2', {}, 'The run so far'), diagramBox),
  );
}
