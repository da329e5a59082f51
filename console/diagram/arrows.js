// Draws the messages: lines with heads, labels along them, and the chosen or hovered message on top.

import {visible} from '../lib/format.js';
import {along, turned} from './labels.js';
import {kindOf} from './layout.js';
import {strokes} from './merge.js';
import {SANS, widthOf} from './paint.js';

/** With more arrows than this in the window, labels would hide the arrows. */
const LABELLED_MAX = 160;
/** With more arrows than this in the window, lines are closer than their heads are wide: merged strokes without heads are drawn. */
const DETAIL_MAX = 400;
/** Of each kind at most so many sloped lines are drawn from far away: more would be one grey. */
const LINES_MAX = 800;
/** From far away lines are paler, so that the lanes and bars stand out. */
const FAR = 0.45;

/** Whether the window has too many arrows to draw each of them. */
export function isFar({plan, left, right}) {
  const [first, last] = plan.arrows.range(left, right);
  return last - first > DETAIL_MAX;
}

/** The messages of the chosen record, and the one under the pointer, above everything else. */
export function drawChosen(pen) {
  const {plan, seq, hover, colour, context} = pen;
  context.globalAlpha = 1;
  if (hover?.type === 'arrow') one(hover.placed, pen, colour.ink, 2.2);
  if (seq !== null) for (const arrow of plan.arrowsOf(seq)) one(arrow, pen, colour.accent, 2.2);
}

export function drawNear(pen) {
  const {plan, left, right, lanes: [top, bottom]} = pen;
  const seen = [];
  plan.arrows.visible(left, right, (arrow) => {
    if (Math.max(arrow.from, arrow.to) >= top && Math.min(arrow.from, arrow.to) <= bottom) seen.push(arrow);
  });
  const styles = new Map();
  for (const arrow of seen) {
    const style = styleOf(arrow, pen);
    const group = styles.get(style) ?? [];
    group.push(arrow);
    styles.set(style, group);
  }
  for (const [style, arrows] of styles) strokeAll(arrows, style, pen);
  if (pen.laneHeight >= 26 && seen.length <= LABELLED_MAX) drawLabels(seen, pen);
}

export function drawFar(pen) {
  const {plan, context, x, y, colour, alpha} = pen;
  context.lineWidth = 1;
  for (const {kind, levels} of plan.far.arrows) {
    const {lines, columns} = strokes(levels, {...pen, k: pen.view.k, most: LINES_MAX});
    context.strokeStyle = colour[kind];
    context.fillStyle = colour[kind];
    for (const shade of new Set([...lines, ...columns].map((arrow) => alpha(arrow.seq)))) {
      context.globalAlpha = FAR * shade;
      context.beginPath();
      for (const arrow of lines) {
        if (alpha(arrow.seq) !== shade) continue;
        context.moveTo(x(arrow.tail), y(arrow.from));
        context.lineTo(...end(arrow, x, y));
      }
      context.stroke();
      for (const {pixel, from, to, seq} of columns) if (alpha(seq) === shade) context.fillRect(pixel, y(from), 1, y(to) - y(from));
    }
  }
  context.globalAlpha = 1;
}

/** Arrows of one style are drawn in one stroke; the style is a text, so that it can be a key. */
function styleOf(arrow, {alpha, seq}) {
  const {item, lost, arrives, seq: sent, last} = arrow;
  const flying = seq !== null && sent <= seq && last > seq;
  const dash = !arrives && !lost ? 'open' : flying ? 'flying' : item.is_app ? 'app' : item.fate === 'duplicate' ? 'again' : 'solid';
  return `${kindOf(arrow)}|${dash}|${alpha(sent)}`;
}

const DASHES = {open: [2, 3], flying: [6, 4], app: [5, 3], again: [8, 2, 2, 2], solid: []};

function strokeAll(arrows, style, {context, x, y, colour}) {
  const [kind, dash, alpha] = style.split('|');
  context.strokeStyle = colour[kind];
  context.fillStyle = colour[kind];
  context.globalAlpha = Number(alpha);
  context.lineWidth = 1.25;
  context.setLineDash(DASHES[dash]);
  context.beginPath();
  for (const arrow of arrows) {
    const [x1, y1] = end(arrow, x, y);
    context.moveTo(x(arrow.tail), y(arrow.from));
    context.lineTo(x1, y1);
  }
  context.stroke();
  context.setLineDash([]);
  context.beginPath();
  for (const arrow of arrows) head(context, arrow, x, y);
  if (dash === 'open') context.stroke();
  else context.fill();
  for (const arrow of arrows) if (arrow.lost) cross(context, ...end(arrow, x, y));
  context.globalAlpha = 1;
  context.lineWidth = 1;
}

function one(arrow, {context, x, y}, hue, width) {
  const [x1, y1] = end(arrow, x, y);
  context.strokeStyle = hue;
  context.fillStyle = hue;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x(arrow.tail), y(arrow.from));
  context.lineTo(x1, y1);
  context.stroke();
  context.beginPath();
  head(context, arrow, x, y, 1.3);
  context.fill();
  context.lineWidth = 1;
}

/** The end of an arrow; one that does not arrive ends before the line of the receiver. */
function end(arrow, x, y) {
  const [y0, y1] = [y(arrow.from), y(arrow.to)];
  return [x(arrow.head), arrow.arrives ? y1 : y1 - Math.sign(y1 - y0) * 12];
}

function head(context, arrow, x, y, size = 1) {
  const [x0, y0] = [x(arrow.tail), y(arrow.from)];
  const [x1, y1] = end(arrow, x, y);
  const angle = Math.atan2(y1 - y0, x1 - x0);
  const point = (turn, far) => [x1 - far * Math.cos(angle + turn), y1 - far * Math.sin(angle + turn)];
  context.moveTo(...point(0.38, 9 * size));
  context.lineTo(x1, y1);
  context.lineTo(...point(-0.38, 9 * size));
}

function cross(context, x, y) {
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x - 4, y - 4);
  context.lineTo(x + 4, y + 4);
  context.moveTo(x - 4, y + 4);
  context.lineTo(x + 4, y - 4);
  context.stroke();
  context.lineWidth = 1.25;
}

function drawLabels(seen, {context, x, y, colour, labels, alpha}) {
  const size = 10.5;
  context.font = `${size}px ${SANS}`;
  context.textAlign = 'center';
  context.textBaseline = 'alphabetic';
  context.lineJoin = 'round';
  const places = new Map();
  for (const arrow of seen) {
    const [x0, y0] = [x(arrow.tail), y(arrow.from)];
    const [x1, y1] = end(arrow, x, y);
    const words = visible(arrow.item.label);
    const room = widthOf(context, words);
    if (Math.hypot(x1 - x0, y1 - y0) < room + 14) continue;
    // Messages with the same ends are one line, so one label is enough.
    const place = `${x0}|${y0}|${x1}|${y1}|${words}`;
    if (places.has(place)) continue;
    places.set(place, true);
    const part = along(Math.abs(arrow.from - arrow.to), arrow.arrives);
    const angle = Math.atan2(y1 - y0, Math.max(1, x1 - x0));
    const at = [x0 + (x1 - x0) * part, y0 + (y1 - y0) * part];
    if (!labels.take(turned(at[0], at[1], room, size, angle))) continue;
    context.globalAlpha = alpha(arrow.seq);
    context.save();
    context.translate(...at);
    context.rotate(angle);
    context.strokeStyle = colour.surface;
    context.lineWidth = 3;
    context.strokeText(words, 0, -3);
    context.fillStyle = arrow.lost ? colour.lost : arrow.item.is_app ? colour.app : colour.ink;
    context.fillText(words, 0, -3);
    context.restore();
  }
  context.globalAlpha = 1;
  context.lineWidth = 1;
}
