// Charts over time, drawn anew with every look. A chart is given points {at, ...} and knows how to read them.

const LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 24;

/** What charts over time share: the axes, the cursor that follows the pointer, and what is written below it. */
class TimeChart {
  constructor(id, { height = 220, label }) {
    this.figure = document.getElementById(id);
    this.plot = this.figure.querySelector(".plot");
    this.height = height;
    this.label = label;
    this.points = [];
    this.pointer = null;
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => { this.pointer = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  show(points, width) {
    this.points = points;
    this.width = width;
    this.draw();
  }

  point(event) {
    this.pointer = event.clientX - this.plot.getBoundingClientRect().left;
    this.draw();
  }

  /** The place of the point below the pointer, or of the newest. */
  get place() {
    if (this.pointer === null) return this.points.length - 1;
    const away = this.points.map((point) => Math.abs(this.x(point.at + this.width / 2) - this.pointer));
    return away.indexOf(Math.min(...away));
  }

  draw() {
    const room = this.plot.clientWidth;
    if (!this.points.length || room < 100) {
      this.plot.replaceChildren(element("p", {}, "Nothing yet"));
      return;
    }
    const first = this.points[0].at, last = this.points.at(-1).at + this.width;
    this.x = (at) => LEFT + ((at - first) / (last - first)) * (room - LEFT - RIGHT);
    this.right = room - RIGHT;
    const picture = shape("svg", { viewBox: `0 0 ${room} ${this.height}`, height: this.height, role: "img", "aria-label": this.label(this.points) });
    this.scaleY();
    picture.append(...this.grid(first, last, room), ...this.marks());
    if (this.pointer !== null) {
      const at = this.x(this.points[this.place].at + this.width / 2);
      picture.append(shape("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: this.height - BOTTOM }));
    }
    this.plot.replaceChildren(picture);
    this.tell();
  }

  grid(first, last, room) {
    const bottom = this.height - BOTTOM;
    const rows = this.ticks.flatMap(([value, text]) => [
      shape("line", { class: "grid", x1: LEFT, x2: this.right, y1: this.y(value), y2: this.y(value) }),
      shape("text", { x: LEFT - 8, y: this.y(value) + 4, "text-anchor": "end" }, text),
    ]);
    const times = roundTimes(first, last, Math.max(2, Math.min(8, room / 110)));
    const columns = times.map(([at, text]) => {
      const anchor = this.x(at) > room - 30 ? "end" : this.x(at) < LEFT + 20 ? "start" : "middle";
      return shape("text", { x: this.x(at), y: this.height - 6, "text-anchor": anchor }, text);
    });
    return [...rows, shape("line", { class: "axis", x1: LEFT, x2: this.right, y1: bottom, y2: bottom }), ...columns];
  }

  /** Heights in the picture for values between two. */
  spread(low, high, along = (value) => value) {
    const top = along(high), bottom = along(low), space = this.height - TOP - BOTTOM;
    this.y = (value) => TOP + ((top - Math.min(top, Math.max(bottom, along(value)))) / (top - bottom)) * space;
  }
}

/** Lines with bands. Each series: {name, look, value(point), half(point), text(point)}; nothing where value is null. */
class LineChart extends TimeChart {
  constructor(id, options) {
    super(id, options);
    this.series = options.series;
    this.scale = options.scale;
    this.legend = this.figure.querySelector(".legend");
    this.details = this.figure.querySelector("details");
    this.details.addEventListener("toggle", () => this.fillTable());
  }

  scaleY() {
    const seen = this.series.flatMap((one) => this.points.map((point) => [one.value(point), one.half?.(point) ?? 0]));
    const known = seen.filter(([value]) => value !== null);
    const halves = known.map(([, half]) => half).sort((a, b) => a - b);
    const usual = halves[Math.floor(halves.length / 2)] ?? 0; // a stretch with few decisions must not flatten the rest
    const low = Math.min(...known.map(([value, half]) => value - Math.min(half, 2 * usual)));
    const high = Math.max(...known.map(([value, half]) => value + Math.min(half, 2 * usual)));
    this.ticks = this.scale(this, known.length ? low : 0, known.length ? high : 1);
  }

  marks() {
    return this.series.flatMap((one) => this.runs(one).flatMap((run) => this.drawRun(one, run)));
  }

  /** Points that follow each other; where there was nothing for a while, the line is broken. */
  runs(one) {
    const runs = [];
    let before = -Infinity;
    for (const point of this.points) {
      if (one.value(point) === null) continue;
      if (point.at - before > 2.5 * this.width) runs.push([]);
      runs.at(-1).push(point);
      before = point.at;
    }
    return runs;
  }

  drawRun(one, run) {
    const at = (point) => this.x(point.at + this.width / 2).toFixed(1);
    const path = (points, value) => points.map((point) => `${at(point)} ${this.y(value(point)).toFixed(1)}`).join("L");
    const drawn = [];
    if (one.half && run.length > 1) {
      const above = path(run, (point) => one.value(point) + one.half(point));
      const below = path([...run].reverse(), (point) => one.value(point) - one.half(point));
      drawn.push(shape("path", { class: `band ${one.look}`, d: `M${above}L${below}Z` }));
    }
    if (run.length > 1) drawn.push(shape("path", { class: `line ${one.look} ${one.dashed ? "dashed" : ""}`, d: `M${path(run, one.value)}` }));
    else drawn.push(shape("circle", { class: `spot ${one.look}`, cx: at(run[0]), cy: this.y(one.value(run[0])), r: 3.5 }));
    return drawn;
  }

  /** Names and values, at the pointer or of the newest point. */
  tell() {
    const point = this.points[this.place];
    const told = this.series.map((one) => element("li", {},
      element("span", { class: `mark ${one.look}` }), `${one.name} `,
      element("b", {}, one.value(point) === null ? "–" : one.text(point))));
    this.legend.replaceChildren(...told, element("li", { class: "when" }, this.when(point)));
    this.fillTable();
  }

  when(point) {
    return `${moment(point.at, this.width < 60000)}, ${decisions(point.decisions)}`;
  }

  fillTable() {
    if (!this.details.open) return;
    const rows = [...this.points].reverse().map((point) => [
      moment(point.at, this.width < 60000), count(point.decisions),
      ...this.series.map((one) => (one.value(point) === null ? "–" : one.text(point))),
    ]);
    const head = ["From", "Decisions", ...this.series.map((one) => one.name)];
    this.details.querySelector(".scroll").replaceChildren(element("table", {}, ...table(head, rows)));
  }
}

/** Shares that fill the height, a column for each stretch of time. */
class ShareChart extends TimeChart {
  scaleY() {
    this.spread(0, 1);
    this.ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => [share, `${100 * share} %`]);
  }

  marks() {
    const parts = this.points.map((point) => this.stacked(point));
    return parts[0].map(([look], level) => shape("path", { class: look, d: parts.map((one, place) => this.column(this.points[place], one[level])).join("") }));
  }

  /** [look, from, to] of each part of a point. */
  stacked(point) {
    let below = 0;
    return point.parts.map(([look, shown]) => {
      const from = below;
      below += point.decisions ? shown / point.decisions : 0;
      return [look, from, below];
    });
  }

  column(point, [, from, to]) {
    const left = this.x(point.at), wide = Math.max(0.5, this.x(point.at + this.width) - left - 0.75);
    return `M${left.toFixed(2)} ${this.y(from).toFixed(2)}h${wide.toFixed(2)}V${this.y(to).toFixed(2)}h-${wide.toFixed(2)}Z`;
  }

  tell() {}
}

/** One number with its interval, and 0. */
function drawInterval(plot, difference, look) {
  const room = plot.clientWidth, middle = 26;
  if (difference === null || room < 100) {
    plot.replaceChildren(element("p", {}, "Nothing yet"));
    return;
  }
  const half = Z95 * difference.error, low = difference.value - half, high = difference.value + half;
  const margin = 0.12 * (Math.max(0, high) - Math.min(0, low)) || 1;
  const from = Math.min(0, low) - margin, to = Math.max(0, high) + margin;
  const x = (value) => 8 + ((value - from) / (to - from)) * (room - 16);
  const text = `${plain(difference.value, decimals(half))}, from ${interval(difference)}`;
  plot.replaceChildren(shape("svg", { viewBox: `0 0 ${room} 66`, height: 66, role: "img", "aria-label": `Difference ${text}` },
    ...roundNumbers(from, to, 6).map(([value, label]) => shape("text", { x: x(value), y: 62, "text-anchor": "middle" }, label)),
    shape("line", { class: "axis", x1: 0, x2: room, y1: 46, y2: 46 }),
    shape("line", { class: "cursor", x1: x(0), x2: x(0), y1: 6, y2: 46 }),
    shape("line", { class: `whisker ${look}`, x1: x(low), x2: x(high), y1: middle, y2: middle }),
    shape("circle", { class: `spot ${look}`, cx: x(difference.value), cy: middle, r: 7 })));
}
