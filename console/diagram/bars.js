// Draws the states that last: waiting, inside, leading, down, paused.

import {visible} from '../lib/format.js';
import {GUTTER, PALE_TEXT, SANS, hatch, line, text, widthOf} from './paint.js';

const THICK = {waiting: 5, inside: 16, leads: 10, down: 2, paused: 26};
/** A bar that is narrower than this has no round corners and no label. */
const NARROW = 6;

/** A pause may begin in the critical section, so it is drawn behind it, and wider. */
export const BEHIND = (kind) => kind === 'paused' || kind === 'down';

/** Draws the visible bars of the kinds for which `wanted(kind)` is true. */
export function drawBars(pen, wanted) {
  const {x, y, plan, left, right, laneHeight, view, lanes: [top, bottom]} = pen;
  const shrink = Math.min(1, laneHeight / 40);
  const narrow = new Map();
  plan.far.bars.at(1 / view.k).visible(left, right, (bar) => {
    const {kind} = bar.item;
    if (!wanted(kind) || bar.lane < top || bar.lane > bottom) return;
    const [from, to] = [x(bar.x0), Math.max(x(bar.x0) + 3, x(bar.x1))];
    const thick = (THICK[kind] ?? 8) * shrink;
    const box = {kind, from, to, thick, middle: y(bar.lane)};
    if (to - from < NARROW && !BEHIND(kind)) collect(narrow, box, bar, pen);
    else drawBar(bar, box, pen);
  });
  drawNarrow(narrow, pen);
}

/** Narrow bars of one look are filled together, and those within the same pixel once: there may be thousands. */
function collect(narrow, box, bar, {alpha}) {
  const look = `${box.kind}|${alpha(bar.seq)}`;
  const group = narrow.get(look) ?? {boxes: [], ends: new Map()};
  narrow.set(look, group);
  if (box.to <= (group.ends.get(bar.lane) ?? -Infinity) + 0.5) return;
  group.ends.set(bar.lane, box.to);
  group.boxes.push(box);
}

function drawNarrow(narrow, {context, colour}) {
  for (const [look, {boxes}] of narrow) {
    const [kind, alpha] = look.split('|');
    context.fillStyle = colour[kind] ?? colour.muted;
    context.globalAlpha = Number(alpha);
    // Whole pixels are filled faster than parts of pixels.
    for (const {from, to, thick, middle} of boxes) {
      context.fillRect(Math.round(from), Math.round(middle - thick / 2), Math.max(1, Math.round(to) - Math.round(from)), Math.round(thick));
    }
  }
  context.globalAlpha = 1;
}

function drawBar(bar, box, pen) {
  const {context, colour, alpha, laneHeight} = pen;
  const {kind, from, to, thick, middle} = box;
  const now = paleFrom(bar, box, pen);
  context.globalAlpha = alpha(bar.seq);
  context.fillStyle = colour[kind] ?? colour.muted;
  context.strokeStyle = context.fillStyle;
  if (kind === 'down') {
    context.fillStyle = colour.surface;
    context.fillRect(from, middle - 2, to - from, 4);
    context.setLineDash([2, 5]);
    context.lineWidth = 2;
    line(context, from, middle, to, middle);
    context.setLineDash([]);
  } else if (kind === 'paused') {
    hatch(context, from, middle - thick / 2, to - from, thick);
  } else {
    context.beginPath();
    context.roundRect(from, middle - thick / 2, to - from, thick, Math.min(3, thick / 2));
    context.fill();
    if (now < to) fade(box, now, pen);
  }
  if (bar.item.label && laneHeight >= 30) drawLabel(visible(bar.item.label), box, now, pen);
  context.globalAlpha = 1;
}

/** Where the pale part of a bar begins, which has not happened yet at the chosen moment; its end if there is none. */
function paleFrom(bar, {from, to}, {x, plan, seq}) {
  if (seq === null || bar.last <= seq) return to;
  return bar.seq > seq ? from : Math.min(to, Math.max(x(plan.xOf(seq)), from + 3));
}

/** A bar that goes on after the chosen moment is pale from there on. */
function fade({from, to, thick, middle}, now, {context, colour}) {
  if (now === from) return;
  context.globalAlpha = 0.72;
  context.fillStyle = colour.surface;
  context.fillRect(now, middle - thick / 2 - 0.5, to - now, thick + 1);
  context.globalAlpha = 1;
}

/** In the bar if there is room in its full or in its pale part, otherwise below it. The pale part has almost the colour of the page. */
function drawLabel(words, {from, to, middle, thick, kind}, now, {context, colour, labels}) {
  context.font = `600 10.5px ${SANS}`;
  const room = widthOf(context, words);
  const left = Math.max(from, GUTTER);
  const parts = [{from: left, to: now, hue: colour['on-accent'], alpha: 1}, {from: Math.max(left, now), to, hue: colour.ink, alpha: PALE_TEXT}];
  const part = kind === 'inside' && parts.find((one) => one.to - one.from > room + 8);
  const inside = part && (part.from + part.to) / 2;
  // The labels of arrows keep some distance, so that both can be read.
  if (part && labels.take({x: inside, y: middle, width: Math.min(part.to - part.from, room + 24), height: 12})) {
    context.globalAlpha = part.alpha;
    text(context, words, inside, middle, part.hue, '600 10.5px', 'center');
    return;
  }
  const at = (left + to) / 2;
  const below = middle + thick / 2 + 9;
  if (labels.take({x: at, y: below, width: room + 4, height: 12})) text(context, words, at, below, colour.muted, '10.5px', 'center', colour.surface);
}
