// The space-time diagram as a component: a toolbar, the canvas, an overview of the whole run, and one line of text about the
// chosen record.

import {el, fill} from '../lib/dom.js';
import {hide, show as showTip} from '../lib/tooltip.js';
import {colours, onThemeChange} from './colours.js';
import {describe} from './describe.js';
import {BOTTOM, TOP, draw} from './draw.js';
import {inWords, indexOf} from './events.js';
import {hit, seqAt} from './hit.js';
import {listen} from './input.js';
import {layout} from './layout.js';
import {createOverview} from './overview.js';
import {GUTTER} from './paint.js';
import {Player, step} from './play.js';
import {createToolbar} from './toolbar.js';
import {clamp, fit, opening, pan, reveal, toPixel, toPosition, zoom} from './view.js';
import {number, time} from '../lib/format.js';

const MARGIN = 36;
const LANE_MIN = 24;
const LANE_MAX = 92;

/**
 * Makes a diagram in `element`. `onSelect(seq)` is called when the reader chooses a record, with null if all of the run is shown.
 * `name` tells two diagrams on one page apart for a screen reader. A `bare` diagram is a picture without controls.
 */
export function createDiagram(element, {onSelect = () => {}, onSpacing = () => {}, name = 'Space-time diagram', compact = false, bare = false} = {}) {
  const canvas = el('canvas', {class: 'diagram-canvas', tabindex: '0', role: 'application', 'aria-roledescription': 'space-time diagram', 'aria-label': `${name}. Arrow keys move, plus and minus zoom, comma and period step, space plays.`});
  const stage = el('div', {class: 'diagram-stage'}, canvas);
  const now = el('p', {class: 'diagram-now', 'aria-live': 'polite'});
  const context = canvas.getContext('2d');
  const state = {plan: null, view: {x: 0, k: 1}, seq: null, hover: null, scrollY: 0, width: 0, height: 0, laneHeight: 40, colour: colours(document.documentElement)};
  const bounds = () => ({end: state.plan?.end ?? 1, width: Math.max(50, state.width - GUTTER), margin: MARGIN});
  const change = (view) => {
    state.view = view;
    redraw();
  };

  const player = new Player({
    advance: (first) => advance(first),
    changed: () => toolbar.playing(player.playing),
  });
  const actions = {
    play: () => state.plan && player.toggle(),
    step: (by) => { player.stop(); choose(step(state.plan?.events ?? [], state.seq, by)); },
    first: () => { player.stop(); choose(state.plan?.events[0]?.seq ?? null); },
    last: () => { player.stop(); choose(state.plan?.events.at(-1)?.seq ?? null); },
    whole: () => { player.stop(); choose(null); },
    zoom: (factor, at = (state.width - GUTTER) / 2) => change(zoom(state.view, factor, at, bounds())),
    fit: () => change(fit(bounds().end, bounds().width, MARGIN)),
    pan: (dx, dy = 0) => {
      state.scrollY = Math.max(0, Math.min(contentHeight() - state.height, state.scrollY + dy));
      change(pan(state.view, dx, bounds()));
    },
    to: (x) => change(clamp({x: x - bounds().width / state.view.k / 2, k: state.view.k}, bounds())),
    spacing: (spacing) => { api.show(state.plan.scene, {spacing, keep: true}); onSpacing(spacing); },
    pace: (milliseconds) => player.pace(milliseconds),
    pointAt: (px, py) => pointAt(px, py),
    clickAt: (px, py) => clickAt(px, py),
    leave: () => pointAt(null),
  };
  const toolbar = createToolbar(actions, {compact});
  const overview = createOverview(actions);
  element.classList.add('diagram');
  element.classList.toggle('bare', bare);
  if (bare) {
    canvas.removeAttribute('tabindex');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', name);
  }
  fill(element, !bare && toolbar.element, stage, !bare && overview.canvas, !bare && now);

  /** One step of playing; false at the end. */
  function advance(first) {
    const all = state.plan.events;
    const at = state.seq === null ? -1 : indexOf(all, state.seq);
    if (at + 1 >= all.length) {
      if (!first || all.length === 0) return false;
      choose(all[0].seq);
      return true;
    }
    choose(all[at + 1].seq);
    return at + 2 < all.length;
  }

  function choose(seq, tell = true) {
    if (!state.plan || seq === state.seq) return;
    state.seq = seq;
    if (seq !== null) state.view = reveal(state.view, state.plan.xOf(seq), bounds());
    say();
    redraw();
    if (tell) onSelect(seq);
  }

  function say() {
    const {plan, seq} = state;
    const all = plan.events;
    const at = seq === null ? -1 : indexOf(all, seq);
    element.dataset.seq = seq ?? '';
    toolbar.position(at + 1, all.length, at < 0 ? null : time(all[at].t, plan.scene.unit));
    if (all.length === 0) return fill(now, 'Nothing has happened yet.');
    return fill(now, at < 0 ? `${number(all.length)} events, ${number(plan.scene.arrows.length)} messages. Choose a moment, or press play.` : [el('b', {}, time(all[at].t, plan.scene.unit)), ' ', inWords(all[at])]);
  }

  function contentHeight() {
    return TOP + BOTTOM + state.laneHeight * (state.plan?.scene.processes.length ?? 1);
  }

  /** The canvas is as high as its lanes need, up to a part of the window. */
  function measure() {
    const lanes = state.plan?.scene.processes.length ?? 1;
    const most = Math.max(300, Math.min(640, innerHeight * (compact ? 0.42 : 0.56)));
    state.laneHeight = Math.min(LANE_MAX, Math.max(LANE_MIN, (most - TOP - BOTTOM) / lanes));
    state.width = Math.max(160, stage.clientWidth);
    state.height = Math.min(contentHeight(), most);
    state.scrollY = Math.max(0, Math.min(contentHeight() - state.height, state.scrollY));
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(state.width * ratio);
    canvas.height = Math.round(state.height * ratio);
    canvas.style.height = `${state.height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  let pending = 0;
  function redraw() {
    if (pending || !state.plan) return;
    pending = requestAnimationFrame(() => {
      pending = 0;
      draw(context, state);
      overview.draw(state, bounds());
    });
  }

  const toX = (x) => GUTTER + toPixel(state.view, x);
  const toY = (lane) => TOP + state.laneHeight * (lane + 0.5) - state.scrollY;
  const pointer = (px, py) => ({px, py, toX, toY, at: (pixel) => toPosition(state.view, pixel - GUTTER)});

  function pointAt(px, py) {
    if (!state.plan) return;
    const over = px === null || px < GUTTER ? null : hit(state.plan, pointer(px, py));
    if (over?.placed === state.hover?.placed) {
      if (!over) hide(canvas);
      return;
    }
    state.hover = over;
    canvas.classList.toggle('over', Boolean(over));
    redraw();
    if (!over) return hide(canvas);
    const box = canvas.getBoundingClientRect();
    return showTip(describe(over, state.plan.scene.unit), {x: box.left + px + 10, y: box.top + py}, canvas);
  }

  function clickAt(px, py) {
    if (!state.plan || px < GUTTER) return;
    player.stop();
    choose(seqAt(state.plan, pointer(px, py)));
  }

  const stopListening = bare ? () => {} : listen(canvas, actions);
  const observer = new ResizeObserver(() => {
    if (stage.clientWidth === Math.round(state.width)) return;
    measure();
    if (state.plan) change(bare ? fit(bounds().end, bounds().width, MARGIN) : clamp(state.view, bounds()));
  });
  observer.observe(stage);
  const stopTheme = onThemeChange(() => {
    state.colour = colours(document.documentElement);
    overview.forget();
    redraw();
  });

  const api = {
    /** Shows a scene. `keep` keeps the chosen record and the part of the run that is shown. */
    show(scene, {spacing = state.plan?.spacing ?? 'time', keep = false, seq = null} = {}) {
      const old = state.plan;
      state.plan = layout(scene, spacing);
      state.hover = null;
      overview.forget();
      measure();
      if (!keep || !old) {
        player.stop();
        state.seq = seq;
        state.scrollY = 0;
        state.view = bare ? fit(bounds().end, bounds().width, MARGIN) : opening(state.plan.end, bounds().width, MARGIN);
      } else if (seq !== null) {
        state.seq = seq;
      }
      state.view = clamp(state.view, bounds());
      if (state.seq !== null) state.view = reveal(state.view, state.plan.xOf(state.seq), bounds());
      toolbar.spacing(spacing);
      const {arrows, violations} = scene;
      Object.assign(element.dataset, {events: state.plan.events.length, arrows: arrows.length, violations: violations.length, spacing});
      say();
      redraw();
    },
    /** Chooses a record without telling `onSelect`. */
    select(seq) {
      choose(seq, false);
    },
    get seq() {
      return state.seq;
    },
    get view() {
      return {...state.view};
    },
    destroy() {
      player.stop();
      stopListening();
      stopTheme();
      observer.disconnect();
      cancelAnimationFrame(pending);
      hide(canvas);
      element.replaceChildren();
    },
  };
  return api;
}
