// Finds what lies in a range of positions without looking at everything. Pure.

import {firstAtLeast} from './scale.js';

/** Items with `x0 <= x1`. `visible(left, right)` visits the items that touch the range, in the order of `x0`. */
export class Spans {
  constructor(items) {
    this.items = [...items].sort((a, b) => a.x0 - b.x0);
    this.starts = Float64Array.from(this.items, (item) => item.x0);
    // The farthest end so far: an item that begins before the range can reach into it only from here on.
    this.reach = new Float64Array(this.items.length);
    let reach = -Infinity;
    this.items.forEach((item, at) => {
      reach = Math.max(reach, item.x1);
      this.reach[at] = reach;
    });
  }

  /** The indices [from, to) of items that may touch the range. */
  range(left, right) {
    const from = firstAtLeast(this.reach, left);
    let to = firstAtLeast(this.starts, right);
    while (to < this.items.length && this.starts[to] <= right) to += 1;
    return [from, Math.max(from, to)];
  }

  visible(left, right, visit) {
    const [from, to] = this.range(left, right);
    for (let at = from; at < to; at += 1) {
      const item = this.items[at];
      if (item.x1 >= left) visit(item);
    }
  }
}
