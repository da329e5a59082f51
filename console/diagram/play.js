// Stepping through the records of a scene, and playing them. Pure, except for the clock that is given.

import {indexOf} from './events.js';

/** The record of the step `by` events after the record `seq`. `seq` null: nothing is chosen, the whole run is shown. */
export function step(all, seq, by) {
  if (all.length === 0) return null;
  if (seq === null) return by > 0 ? all[0].seq : all.at(-1).seq;
  const at = indexOf(all, seq);
  // Between two events, one step back goes to the earlier one.
  const from = by < 0 && at >= 0 && all[at].seq < seq ? at + 1 : at;
  return all[Math.min(all.length - 1, Math.max(0, from + by))].seq;
}

/** Plays from the chosen record, or from the start if there is none or it is the last. */
export class Player {
  constructor({advance, changed, every = 600, clock = globalThis}) {
    Object.assign(this, {advance, changed, every, clock, timer: null});
  }

  get playing() {
    return this.timer !== null;
  }

  toggle() {
    if (this.playing) this.stop();
    else this.start();
  }

  start() {
    this.timer = this.clock.setInterval(() => {
      if (!this.advance()) this.stop();
    }, this.every);
    this.changed?.();
    if (!this.advance(true)) this.stop();
  }

  stop() {
    if (!this.playing) return;
    this.clock.clearInterval(this.timer);
    this.timer = null;
    this.changed?.();
  }

  /** Milliseconds per step. */
  pace(every) {
    this.every = every;
    if (this.playing) {
      this.clock.clearInterval(this.timer);
      this.timer = this.clock.setInterval(() => this.advance() || this.stop(), every);
    }
  }
}
