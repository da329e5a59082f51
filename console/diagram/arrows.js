// Draws the messages: lines with heads, labels along them, and the chosen or hovered message on top.

import {visible} from '../lib/format.js';
import {along, turned} from './labels.js';
import {SANS} from './paint.js';

/** More labels than this would be unreadable, and placing them would cost the time of a frame. */
const LABELS_MAX = 500;
/** With more arrows than this in the window, lines are closer than pixels: only so many are drawn, and without heads. */
const DENSE = 2500;

export function drawArrows(pen) {
  const {plan, left, right, seq, hover, colour, context} = pen;
  const [first, last] = plan.arrows.range(left, right);
  const dense = last - first > DENSE;
  const seen = chosen(plan.arrows, left, right, dense ? Math.ceil((last - first) / DENSE) : 1, seq);
  const styles = new Map();
  for (const arrow of seen) {
    const style = styleOf(arrow, pen);
    const group = styles.get(style) ?? [];
    group.push(arrow);
    styles.set(style, group);
  }
  for (const [style, arrows] of styles) strokeAll(arrows, style, pen, dense);
  if (!dense && pen.laneHeight >= 26) drawLabels(seen, pen);
  for (const arrow of seen) {
    const current = seq !== null && (arrow.seq === seq || arrow.last === seq);
    if (current || (hover && hover.placed === arrow)) {
      context.globalAlpha = 1;
      one(arrow, pen, current ? colour.accent : colour.ink, 2.2);
    }
  }
}

/** Every `stride`-th visible arrow, and every lost message and every message of the chosen record. */
function chosen(arrows, left, right, stride, seq) {
  const found = [];
  let at = 0;
  arrows.visible(left, right, (arrow) => {
    at += 1;
    if (at % stride === 0 || arrow.lost || arrow.seq === seq || arrow.last === seq) found.push(arrow);
  });
  return found;
}

/** Arrows of one style are drawn in one stroke; the style is a text, so that it can be a key. */
function styleOf({item, lost, arrives, seq: sent, last}, {alpha, seq}) {
  const kind = lost ? 'lost' : item.is_app ? 'app' : 'message';
  const flying = seq !== null && sent <= seq && last > seq;
  const dash = !arrives && !lost ? 'open' : flying ? 'flying' : item.is_app ? 'app' : item.fate === 'duplicate' ? 'again' : 'solid';
  return `${kind}|${dash}|${alpha(sent)}`;
}

const DASHES = {open: [2, 3], flying: [6, 4], app: [5, 3], again: [8, 2, 2, 2], solid: []};

function strokeAll(arrows, style, {context, x, y, colour}, dense) {
  const [kind, dash, alpha] = style.split('|');
  context.strokeStyle = colour[kind];
  context.fillStyle = colour[kind];
  context.globalAlpha = Number(alpha) * (dense ? 0.55 : 1);
  context.lineWidth = dense ? 1 : 1.25;
  context.setLineDash(dense ? [] : DASHES[dash]);
  context.beginPath();
  for (const arrow of arrows) {
    const [x1, y1] = end(arrow, x, y);
    context.moveTo(x(arrow.tail), y(arrow.from));
    context.lineTo(x1, y1);
  }
  context.stroke();
  context.setLineDash([]);
  if (!dense) {
    context.beginPath();
    for (const arrow of arrows) head(context, arrow, x, y);
    if (dash === 'open') context.stroke();
    else context.fill();
    for (const arrow of arrows) if (arrow.lost) cross(context, ...end(arrow, x, y));
  }
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

const widths = new Map();

function drawLabels(seen, {context, x, y, colour, labels, alpha}) {
  let count = 0;
  const size = 10.5;
  context.font = `${size}px ${SANS}`;
  context.textAlign = 'center';
  context.textBaseline = 'alphabetic';
  context.lineJoin = 'round';
  const places = new Map();
  for (const arrow of seen) {
    if (count >= LABELS_MAX) break;
    const [x0, y0] = [x(arrow.tail), y(arrow.from)];
    const [x1, y1] = end(arrow, x, y);
    const words = visible(arrow.item.label);
    if (!widths.has(words)) widths.set(words, context.measureText(words).width);
    const room = widths.get(words);
    if (Math.hypot(x1 - x0, y1 - y0) < room + 14) continue;
    // Messages with the same ends are one line, so one label is enough.
    const place = `${x0}|${y0}|${x1}|${y1}|${words}`;
    if (places.has(place)) continue;
    places.set(place, true);
    const part = along(Math.abs(arrow.from - arrow.to), arrow.arrives);
    const angle = Math.atan2(y1 - y0, Math.max(1, x1 - x0));
    const at = [x0 + (x1 - x0) * part, y0 + (y1 - y0) * part];
    if (!labels.take(turned(at[0], at[1], room, size, angle))) continue;
    count += 1;
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
