// What a run looks like from far away. When many arrows, bars or marks fall on one pixel, one stroke shows them all. So a frame
// costs what its pixels need, however many events the run has. Pure functions.

import {Spans} from './spans.js';

/** With fewer items than this, merging gains nothing. */
const FEW = 500;
/** A level is kept only if it has at most this part of the items of the finer one. */
const GAIN = 0.75;
/** No window is narrower than this many pixels, so coarser cells than the run divided by it are never used. */
const PIXELS_MIN = 128;

/** The items of a run, and coarser copies of them. `merge(items, cell)` joins what falls into one cell of that width. */
export class Levels {
  constructor(spans, end, merge) {
    this.levels = [{cell: 0, spans}];
    const count = spans.items.length;
    if (count <= FEW) return;
    // Cells with less than one item each would join nothing.
    const first = 2 ** Math.floor(Math.log2(Math.max(1, end / count)));
    for (let cell = first; cell <= end / PIXELS_MIN; cell *= 2) {
      const finer = this.levels.at(-1).spans.items;
      const merged = merge(finer, cell);
      if (merged.length <= GAIN * finer.length) this.levels.push({cell, spans: new Spans(merged)});
    }
  }

  /** The items for cells of at most this width. */
  at(cell) {
    return this.levels.findLast((level) => level.cell <= cell).spans;
  }
}

/**
 * Arrows with the same ends, to within a cell, become one. An arrow that is narrower than a cell is upright, and upright arrows of
 * one cell become the lanes that they cover: `upright`, from the upper lane `from` to the lower lane `to`. The arrows are of one
 * kind, in the order of `x0`.
 */
export function mergeArrows(arrows, cell) {
  const merged = [];
  for (const group of cells(arrows, cell)) {
    const upright = [];
    const sloped = new Map();
    for (const arrow of group) {
      if (arrow.x1 - arrow.x0 < cell) {
        upright.push(arrow);
        continue;
      }
      const ends = `${arrow.from} ${arrow.to} ${Math.floor(arrow.head / cell)}`;
      const same = sloped.get(ends);
      sloped.set(ends, same ? {...same, ...times(same, arrow)} : arrow);
    }
    merged.push(...sloped.values(), ...covered(upright));
  }
  return merged;
}

/** The lanes that upright arrows cover, each once. */
function covered(upright) {
  const found = [];
  const stand = (arrow) => ({...arrow, from: Math.min(arrow.from, arrow.to), to: Math.max(arrow.from, arrow.to), upright: true});
  const spans = upright.map((arrow) => (arrow.upright ? arrow : stand(arrow)));
  for (const span of spans.sort((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last && span.from <= last.to) found[found.length - 1] = {...last, ...times(last, span), to: Math.max(last.to, span.to)};
    else found.push(span);
  }
  return found;
}

/** Bars of one process and one kind with less than a cell between them become one, unless both are wide. */
export function mergeBars(bars, cell) {
  const merged = [];
  const open = new Map();
  for (const bar of bars) {
    const key = `${bar.item.kind} ${bar.lane}`;
    const at = open.get(key);
    const last = merged[at];
    const wide = last && Math.min(last.x1 - last.x0, bar.x1 - bar.x0) > 4 * cell;
    if (last && bar.x0 - last.x1 < cell && !wide) {
      merged[at] = {...last, ...times(last, bar), item: {...last.item, label: ''}};
    } else {
      open.set(key, merged.push(bar) - 1);
    }
  }
  return merged;
}

/** Marks of one process and one kind in one cell become the first of them. */
export function mergeMarks(marks, cell) {
  const merged = [];
  for (const group of cells(marks, cell)) {
    const first = new Map();
    for (const mark of group) {
      const key = `${mark.item.kind} ${mark.lane}`;
      if (!first.has(key)) first.set(key, mark);
    }
    merged.push(...first.values());
  }
  return merged;
}

/** The range, the records and the number of two items that become one. */
function times(a, b) {
  return {x0: Math.min(a.x0, b.x0), x1: Math.max(a.x1, b.x1), seq: Math.min(a.seq, b.seq), last: Math.max(a.last, b.last), count: (a.count ?? 1) + (b.count ?? 1)};
}

/** Items in the order of `x0`, those of one cell together. */
function* cells(items, cell) {
  let group = [];
  let at = null;
  for (const item of items) {
    const its = Math.floor(item.x0 / cell);
    if (its !== at && group.length) {
      yield group;
      group = [];
    }
    at = its;
    group.push(item);
  }
  if (group.length) yield group;
}

/**
 * What to draw of the arrows that touch the range from `left` to `right`: at most `most` sloped `lines`, and `columns`, one for each
 * pixel and each run of lanes that upright arrows cover. `x` turns a position into a pixel, `k` is the number of pixels per
 * position, and lanes outside `lanes` are left out. With more than `most` lines every second, fourth, ... is drawn, counted from the
 * start of the run, so that panning does not exchange them.
 */
export function strokes(levels, {left, right, k, x, lanes: [top, bottom], most}) {
  const spans = levels.at(1 / k);
  const [from, to] = spans.range(left, right);
  const sloped = [];
  const upright = [];
  for (let at = from; at < to; at += 1) {
    const arrow = spans.items[at];
    if (arrow.x1 < left || Math.max(arrow.from, arrow.to) < top || Math.min(arrow.from, arrow.to) > bottom) continue;
    if (arrow.upright) upright.push(arrow);
    else sloped.push(at);
  }
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(sloped.length / most)));
  const lines = sloped.filter((at) => at % step === 0).map((at) => spans.items[at]);
  const columns = [];
  let group = [];
  let pixel = null;
  for (const arrow of upright) {
    const its = Math.round(x(arrow.tail));
    if (its !== pixel && group.length) columns.push(...covered(group).map((span) => ({...span, pixel})));
    if (its !== pixel) group = [];
    pixel = its;
    group.push(arrow);
  }
  columns.push(...covered(group).map((span) => ({...span, pixel})));
  return {lines, columns};
}
