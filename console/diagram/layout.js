// A scene with positions: what the canvas draws, before zoom and pan. Pure functions.

import {events, indexOf, ranks} from './events.js';
import {Levels, mergeArrows, mergeBars, mergeMarks} from './merge.js';
import {GAP, orderScale, timeScale} from './scale.js';
import {Spans} from './spans.js';

/**
 * Lays a scene out. `spacing` is `time` or `order`. All `x` are pixels at zoom 1, all `lane`s are indices of processes.
 */
export function layout(scene, spacing = 'time') {
  const all = events(scene);
  const place = spacing === 'order' ? byOrder(scene, all) : byTime(scene, all);
  const lanes = new Map(scene.processes.map((process, lane) => [process.id, lane]));
  const end = place.scale.width + GAP;
  const lane = (process) => lanes.get(process) ?? 0;
  const bars = scene.bars.map((bar) => {
    const x0 = place.x(bar.from);
    return {item: bar, lane: lane(bar.process), x0, x1: bar.to ? Math.max(x0, place.x(bar.to)) : end, seq: bar.from.seq, last: bar.to?.seq ?? Infinity};
  });
  const arrows = scene.arrows.map((arrow) => placeArrow(arrow, place, lane, end));
  const marks = scene.marks.map((mark) => {
    const x = place.x(mark);
    return {item: mark, lane: mark.process === null ? null : lane(mark.process), x, x0: x, x1: x, seq: mark.seq};
  });
  stack(marks);
  const violations = scene.violations.map((item) => ({item, x: place.x(item), seq: item.seq}));
  const xs = Float64Array.from(all, (event) => place.x(event));
  const spans = {bars: new Spans(bars), arrows: new Spans(arrows), marks: new Spans(marks)};
  return {
    spacing, scene, events: all, xs, byX: sorted(xs), end, scale: place.scale, ticks: place.ticks,
    ...spans, far: far(spans, end), violations, arrowsOf: byRecord(arrows),
    bands: bands(scene, place, end, lane),
    cycle: scene.cycle ? {x0: place.x(scene.cycle) - GAP / 4, x1: end} : null,
    laneOf: (process) => lanes.get(process) ?? null,
    xOf: (seq) => (indexOf(all, seq) < 0 ? 0 : xs[indexOf(all, seq)]),
  };
}

/** The kinds of arrows, which differ in colour, from the lowest to the topmost. */
export const kindOf = ({item, lost}) => (lost ? 'lost' : item.is_app ? 'app' : 'message');
export const KINDS = ['message', 'app', 'lost'];

/** What is drawn instead from far away, where many items fall on one pixel. */
function far({bars, arrows, marks}, end) {
  const ofKind = (kind) => new Spans(arrows.items.filter((arrow) => kindOf(arrow) === kind));
  return {
    arrows: KINDS.map((kind) => ({kind, levels: new Levels(ofKind(kind), end, mergeArrows)})),
    bars: new Levels(bars, end, mergeBars),
    marks: new Levels(marks, end, mergeMarks),
  };
}

/** The arrows that begin or end with a record. The last answer is kept, because many frames show the same record. */
function byRecord(arrows) {
  let known = {seq: null, found: []};
  return (seq) => {
    if (seq !== known.seq) known = {seq, found: arrows.filter((arrow) => arrow.seq === seq || arrow.last === seq)};
    return known.found;
  };
}

/** The events from left to right: by logical order that is not the order of their records. */
function sorted(xs) {
  const order = Uint32Array.from(xs.keys()).sort((a, b) => xs[a] - xs[b]);
  return {order, xs: Float64Array.from(order, (index) => xs[index])};
}

function byTime(scene, all) {
  const times = [...new Set(scene.moments.length ? scene.moments.map((moment) => moment.t) : all.map((event) => event.t))].sort((a, b) => a - b);
  const scale = timeScale(times, usualDelay(scene.arrows));
  const ticks = times.map((t, at) => ({x: scale.xs[at], t}));
  return {scale, ticks, x: ({t}) => scale.at(t)};
}

/** The median delay of the messages that arrived. */
function usualDelay(arrows) {
  const delays = Float64Array.from(arrows.filter((arrow) => arrow.end && arrow.fate === 'arrived'), (arrow) => arrow.end.t - arrow.start.t).sort();
  return delays.length ? delays[delays.length >> 1] : 0;
}

function byOrder(scene, all) {
  const {rank, columns} = ranks(scene, all);
  const scale = orderScale(columns);
  const ticks = Array.from({length: columns}, (_, column) => ({x: scale.at(column), t: column}));
  // A moment that draws nothing itself stands at the last event before it.
  const column = ({seq}) => rank.get(seq) ?? rank.get(all[Math.max(0, indexOf(all, seq))]?.seq) ?? 0;
  return {scale, ticks, x: (moment) => scale.at(column(moment))};
}

/** An arrow that does not arrive ends before the line of the receiver. */
function placeArrow(arrow, place, lane, end) {
  const x0 = place.x(arrow.start);
  const lost = arrow.fate?.lost;
  let x1 = arrow.end ? place.x(arrow.end) : Math.min(end, x0 + 0.75 * GAP);
  // A message that the network loses is lost when it is sent, so that its arrow would be upright and hide others.
  if (lost && x1 - x0 < 1) x1 = x0 + 0.4 * GAP;
  const from = lane(arrow.from);
  const to = lane(arrow.to);
  return {
    item: arrow, x0: Math.min(x0, x1), x1: Math.max(x0, x1), tail: x0, head: x1, from, to, lost: Boolean(lost),
    arrives: !lost && Boolean(arrow.end), seq: arrow.start.seq, last: arrow.end?.seq ?? Infinity,
  };
}

/** Marks of one process at one moment stand above each other. */
function stack(marks) {
  const heights = new Map();
  for (const mark of marks) {
    const key = `${mark.lane}/${mark.x}`;
    mark.level = heights.get(key) ?? 0;
    heights.set(key, mark.level + 1);
  }
}

/** The times during which links are cut: from a partition until the network heals. */
function bands(scene, place, end, lane) {
  const found = [];
  let open = null;
  const close = (x, seq) => {
    if (open) found.push({...open, x1: x, last: seq});
    open = null;
  };
  for (const mark of scene.marks) {
    if (mark.kind === 'heal') close(place.x(mark), mark.seq);
    if (mark.kind === 'partition') {
      const x = place.x(mark);
      if (open && open.x0 < x) close(x, mark.seq);
      const sides = new Map((mark.groups ?? []).flatMap((group, side) => group.map((process) => [lane(process), side])));
      open = {x0: x, text: open ? `${open.text}, ${mark.text}` : mark.text, sides: open?.sides.size ? open.sides : sides, seq: mark.seq};
    }
  }
  close(end, Infinity);
  return found;
}
