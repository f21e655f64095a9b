/* Slow motion: the lanes' own stream, played later, at a twentieth of the lanes' clocks, so that a draft can be seen
   before it is judged. Under prefers-reduced-motion nothing moves by itself: a key or a button goes one turn on. */
sd.slow = (() => {
  const FACTOR = 20, UNTIMED = 0.03; // seconds a step is given where an engine tells none
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let on = false;

  /* A lane's player. pend(entry): its drafts are made; judge(entry): the target has judged them; drawn(): look again. */
  function player(lane, { pend, judge, drawn }) {
    let queue = [], at = 0, seen = null, pended = false, looping = false;
    const time = (entry) => entry.t ?? at + UNTIMED;

    function next() {
      const entry = queue.shift();
      at = Math.max(at, time(entry));
      pended = false;
      judge(entry);
    }

    function draft() {
      if (!queue.length || pended) return;
      pended = true;
      pend(queue[0]);
    }

    function play(until) {
      at = Math.max(at, until);
      while (queue.length && time(queue[0]) <= at) next();
      draft();
      drawn();
    }

    function loop(now) {
      if (!on || still.matches || !queue.length) return void (looping = false);
      play(at + Math.min(now - (seen ?? now), 250) / 1000 / FACTOR);
      seen = now;
      requestAnimationFrame(loop);
    }

    function start() {
      if (still.matches) return draft();
      if (looping) return;
      looping = true;
      seen = null;
      requestAnimationFrame(loop);
    }

    function flush() {
      while (queue.length) next();
      drawn();
    }

    /* One turn by key: a draft appears, or is judged. The baseline goes as far as the other lane's clock. */
    function turn() {
      if (!on || !queue.length || lane !== "speculative") return;
      if (!pended && queue[0].n) draft();
      else next();
      drawn();
      sd.emit("slow-clock", queue.length ? at : Infinity);
    }

    sd.on("slow-turn", turn);
    sd.on("slow-clock", (clock) => { if (on && lane !== "speculative") play(clock); });
    return {
      push(entry) {
        if (!on) return judge(entry);
        queue.push(entry);
        start();
      },
      flush,
      begin() {
        queue = [];
        at = 0;
        pended = false;
      },
    };
  }

  return {
    player,
    get on() { return on; },
    get byKey() { return on && still.matches; },
    set(wanted) {
      on = wanted;
      sd.emit("slow", on);
    },
  };
})();
