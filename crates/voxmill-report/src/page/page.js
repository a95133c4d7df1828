"use strict";
// Zooms charts. Everything is drawn already; only single steps are drawn here, once few enough are in view.
(() => {
  const WIDTH = 1000, HEIGHT = 100;
  // More in view would be finer than the screen.
  const MOST_STEPS = 1500;
  // The page's own words.
  const said = document.body.dataset;
  const SVG = "http://www.w3.org/2000/svg";

  // Steps as `single_steps.rs` writes them.
  function decode(script) {
    const text = atob(script.textContent.trim());
    let at = 0;
    const next = () => {
      let value = 0, factor = 1;
      for (;;) {
        const byte = text.charCodeAt(at++);
        value += (byte & 127) * factor;
        if (byte < 128) return value;
        factor *= 128;
      }
    };
    const unfold = (value) => (value % 2 ? -(value + 1) / 2 : value / 2);
    const shapes = script.dataset.shapes.split(" · ");
    const steps = [];
    let end = 0, number = 0;
    while (at < text.length) {
      end += unfold(next()) / 1e3;
      const [gap, waited, train] = [next() / 1e4, next() / 1e4, next() / 1e4];
      number += 1 + unfold(next());
      const shape = next();
      steps.push({ end, gap, waited, train, number, shape: shapes[shape - 1] || "" });
    }
    return steps;
  }

  function clock(seconds, span) {
    if (span < 60) return `${+seconds.toFixed(span < 1 ? 3 : span < 10 ? 2 : 1)} s`;
    const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
    const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
  }

  const label = (value, unit, span) =>
    unit === "seconds" ? clock(value, span) : (+value.toFixed(2)).toLocaleString("en");

  function ticks(from, to, unit) {
    const least = (to - from) / 5;
    const power = 10 ** Math.floor(Math.log10(least));
    let step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least * 0.999);
    if (unit === "seconds" && least > 1) {
      const round = [2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 86400];
      step = round.find((n) => n >= least) || step;
    }
    if (unit === "count") step = Math.max(1, step);
    const all = [];
    for (let n = Math.ceil(from / step); n * step <= to; n++) all.push(n * step);
    return all;
  }

  class Group {
    constructor(name, figures) {
      this.figures = figures;
      const of = figures[0].dataset;
      this.whole = [Number(of.from), Number(of.to)];
      this.view = [...this.whole];
      this.unit = of.unit;
      const data = document.querySelector(`script.steps[data-group="${name}"]`);
      this.steps = data ? decode(data) : [];
      this.outputs = [];
      for (const figure of figures) this.prepare(figure);
      this.show();
    }

    prepare(figure) {
      const bar = document.createElement("div");
      bar.className = "zoom";
      const button = (text, name, act) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = text;
        button.title = name;
        button.setAttribute("aria-label", name);
        button.addEventListener("click", act);
        bar.append(button);
      };
      button("+", said.zoomIn, () => this.zoom(0.5));
      button("−", said.zoomOut, () => this.zoom(2));
      button("◀", said.earlier, () => this.move(-0.5));
      button("▶", said.later, () => this.move(0.5));
      button("⟷", said.whole, () => this.set(...this.whole));
      const output = document.createElement("output");
      bar.append(output);
      this.outputs.push(output);
      figure.querySelector(".lane, .row").before(bar);
      for (const plot of figure.querySelectorAll(".plot")) {
        plot.setAttribute("tabindex", "0");
        plot.addEventListener("keydown", (event) => this.key(event));
        plot.addEventListener("dblclick", () => this.set(...this.whole));
        this.drag(plot, output);
      }
    }

    at(plot, event) {
      const box = plot.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      return this.view[0] + share * (this.view[1] - this.view[0]);
    }

    drag(plot, output) {
      let from = null, picked = null;
      plot.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || event.pointerType === "touch") return;
        from = this.at(plot, event);
        plot.setPointerCapture(event.pointerId);
        picked = document.createElementNS(SVG, "rect");
        picked.setAttribute("class", "picked");
        picked.setAttribute("height", HEIGHT);
        plot.append(picked);
      });
      plot.addEventListener("pointermove", (event) => {
        const here = this.at(plot, event);
        output.textContent = this.words(here);
        if (from === null) return;
        const [a, b] = [this.x(Math.min(from, here)), this.x(Math.max(from, here))];
        picked.setAttribute("x", a);
        picked.setAttribute("width", b - a);
      });
      const end = (event) => {
        if (from === null) return;
        const to = this.at(plot, event);
        const moved = Math.abs(this.x(to) - this.x(from)) / (this.x(this.view[1]) - this.x(this.view[0]));
        picked.remove();
        if (moved > 0.01) this.set(Math.min(from, to), Math.max(from, to));
        from = null;
      };
      plot.addEventListener("pointerup", end);
      plot.addEventListener("pointercancel", () => { if (picked) picked.remove(); from = null; });
      plot.addEventListener("pointerleave", () => { output.textContent = this.range(); });
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const acts = {
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5),
        "-": () => this.zoom(2), "−": () => this.zoom(2),
        ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25),
        "0": () => this.set(...this.whole), Home: () => this.set(...this.whole),
      };
      if (acts[event.key]) {
        event.preventDefault();
        acts[event.key]();
      }
    }

    x(value) {
      return WIDTH * (value - this.whole[0]) / (this.whole[1] - this.whole[0]);
    }

    zoom(factor) {
      const [from, to] = this.view, middle = (from + to) / 2, half = (to - from) / 2 * factor;
      this.set(middle - half, middle + half);
    }

    move(share) {
      const [from, to] = this.view, by = (to - from) * share;
      this.set(from + by, to + by);
    }

    // Within the whole, and never closer than a few steps.
    set(from, to) {
      const [first, last] = this.whole, all = last - first;
      const least = this.unit === "count" ? Math.min(all, 4) : all * 1e-5;
      let span = Math.min(all, Math.max(least, to - from));
      from = Math.min(Math.max(first, from + (to - from - span) / 2), last - span);
      this.view = [from, from + span];
      this.show();
    }

    show() {
      const [from, to] = this.view;
      const box = `${this.x(from)} 0 ${this.x(to) - this.x(from)} ${HEIGHT}`;
      const seen = this.seen();
      for (const figure of this.figures) {
        for (const plot of figure.querySelectorAll(".plot")) {
          plot.setAttribute("viewBox", box);
          this.detail(plot, seen);
        }
        const axis = figure.querySelector(".xaxis");
        axis.replaceChildren(...ticks(from, to, this.unit).map((tick) => {
          const span = document.createElement("span");
          span.style.left = `${100 * (tick - from) / (to - from)}%`;
          span.textContent = label(tick, this.unit, to - from);
          return span;
        }));
      }
      for (const output of this.outputs) output.textContent = this.range();
    }

    range() {
      const [from, to] = this.view;
      if (to - from >= 0.9999 * (this.whole[1] - this.whole[0])) return "";
      return `${label(from, this.unit, to - from)} – ${label(to, this.unit, to - from)}`;
    }

    // The first step that ends after a moment.
    find(time) {
      let low = 0, high = this.steps.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.steps[middle].end < time) low = middle + 1; else high = middle;
      }
      return low;
    }

    seen() {
      if (!this.steps.length) return null;
      const first = this.find(this.view[0]), last = this.find(this.view[1]);
      return last - first < MOST_STEPS ? this.steps.slice(first, last + 1) : null;
    }

    detail(plot, seen) {
      const group = plot.querySelector(".detail");
      if (!group) return;
      plot.querySelector(".overview").style.display = seen ? "none" : "";
      const boxes = (kind, span) => {
        const path = document.createElementNS(SVG, "path");
        path.setAttribute("class", `bars ${kind}`);
        path.setAttribute("d", seen.map((step) => {
          const [from, to] = span(step);
          // A hair's breadth between steps, so that each is seen.
          const [a, b] = [this.x(from), this.x(to)], less = (b - a) * 0.02;
          return b > a ? `M${a} ${HEIGHT}H${b - less}V5H${a}z` : "";
        }).join(""));
        return path;
      };
      group.replaceChildren(...(seen ? [
        boxes("c1", (s) => [s.end - s.train, s.end]),
        boxes("c4", (s) => [s.end - s.train - s.waited, s.end - s.train]),
        boxes("c7", (s) => [s.end - s.train - s.waited - s.gap, s.end - s.train - s.waited]),
      ] : []));
    }

    words(time) {
      const here = label(time, this.unit, this.view[1] - this.view[0]);
      const step = this.unit === "seconds" ? this.steps[this.find(time)] : null;
      if (!step) return here;
      const ms = (seconds) => `${(1e3 * seconds).toFixed(1)} ms`;
      return `${here}: ${said.step} ${step.number.toLocaleString("en")} (${step.shape}), ` +
        `${said.gap} ${ms(step.gap)}, ${said.waited} ${ms(step.waited)}, ${said.train} ${ms(step.train)}`;
    }
  }

  const groups = new Map();
  for (const figure of document.querySelectorAll("figure.chart[data-group]")) {
    const name = figure.dataset.group;
    groups.set(name, [...(groups.get(name) || []), figure]);
  }
  for (const [name, figures] of groups) new Group(name, figures);
})();
