// Charts over time, drawn again with every refresh. A chart receives points {at, ...}.

const LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 24;

/** Axes of charts over time, and the cursor that follows the pointer. Subclasses draw `marks`. */
class TimeChart {
  /**
   * @param scale returns the ends of the axis for a range of values.
   * @param ticks returns [value, text] of each tick of the axis.
   * @param along returns the position of a value on the axis: for a logarithmic axis its logarithm.
   */
  constructor(figure, { height = 220, label, scale, ticks, along = (value) => value }) {
    this.figure = figure;
    this.plot = this.figure.querySelector(".plot");
    Object.assign(this, { height, label, scale, ticks, along, points: [], pointer: null });
    const follow = (pointer) => { this.pointer = pointer; this.draw(); };
    this.plot.addEventListener("pointermove", (event) => follow(event.clientX - this.plot.getBoundingClientRect().left));
    this.plot.addEventListener("pointerleave", () => follow(null));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  /** Show points that stand for so many milliseconds each. Lines are broken at longer gaps. */
  show(points, width, longest = 2.5 * width) {
    Object.assign(this, { points, width, longest });
    this.draw();
  }

  /** The point below the pointer, or the newest. */
  get current() {
    if (this.pointer === null) return this.points.at(-1);
    const distances = this.points.map((point) => Math.abs(this.middle(point) - this.pointer));
    return this.points[distances.indexOf(Math.min(...distances))];
  }

  draw() {
    const room = this.plot.clientWidth, { points, height } = this;
    if (!points.length || room < 100) return this.plot.replaceChildren(element("p", {}, "No data yet"));
    const first = points[0].at, last = points.at(-1).at + this.width;
    this.x = (at) => LEFT + ((at - first) / (last - first)) * (room - LEFT - RIGHT);
    this.middle = (point) => this.x(point.at + this.width / 2);
    const [low, high] = this.scale(...this.range()), bottom = this.along(low), top = this.along(high);
    this.y = (value) => TOP + ((top - Math.min(top, Math.max(bottom, this.along(value)))) / (top - bottom)) * (height - TOP - BOTTOM);
    const cursor = this.pointer === null ? null : line("cursor", this.middle(this.current), this.middle(this.current), TOP, height - BOTTOM);
    this.plot.replaceChildren(shape("svg", { viewBox: `0 0 ${room} ${height}`, height, role: "img", "aria-label": this.label(points) },
      ...this.grid(this.ticks(low, high), roundTimes(first, last, Math.max(2, Math.min(8, room / 110))), room), ...this.marks(), cursor));
    this.showValues();
  }

  grid(ticks, times, room) {
    const right = room - RIGHT, bottom = this.height - BOTTOM;
    const rows = ticks.flatMap(([value, text]) => [
      line(value === 0 ? "axis" : "grid", LEFT, right, this.y(value), this.y(value)),
      shape("text", { x: LEFT - 8, y: this.y(value) + 4, "text-anchor": "end" }, text),
    ]);
    const columns = times.map(([at, text]) => {
      const anchor = this.x(at) > room - 30 ? "end" : this.x(at) < LEFT + 20 ? "start" : "middle";
      return shape("text", { x: this.x(at), y: this.height - 6, "text-anchor": anchor }, text);
    });
    return [...rows, line("axis", LEFT, right, bottom, bottom), ...columns];
  }
}

/**
 * Lines with bands. Each series: {name, style, value(point), band(point), text(point)}, where band has the lower and the upper end.
 * Nothing is drawn where value is null, and for a series without style, which is only in the table.
 * Points have a number of `counted`, such as decisions.
 */
class LineChart extends TimeChart {
  constructor(figure, options) {
    super(figure, options);
    this.series = options.series;
    this.drawn = this.series.filter(({ style }) => style);
    this.counted = options.counted ?? "decision";
    this.legend = element("ul", { class: "legend" });
    this.plot.before(this.legend);
    this.table = element("div", { class: "scroll" });
    this.details = element("details", {}, element("summary", {}, "As a table"), this.table);
    this.details.addEventListener("toggle", () => this.draw());
    this.figure.append(this.details);
  }

  range() {
    const known = this.drawn.flatMap(({ value, band }) => this.points.filter((point) => value(point) !== null)
      .map((point) => [value(point), ...(band?.(point) ?? [value(point), value(point)])]));
    if (!known.length) return [0, 1];
    const lengths = known.map(([, low, high]) => high - low).filter((length) => length > 0).sort((a, b) => a - b);
    const most = lengths[Math.floor(lengths.length / 2)] ?? 0; // so that a bucket with few decisions does not flatten the others
    return [Math.min(...known.map(([value, low]) => Math.max(low, value - most))), Math.max(...known.map(([value, , high]) => Math.min(high, value + most)))];
  }

  marks() {
    return this.drawn.flatMap((item) => this.runs(item).flatMap((run) => this.drawRun(item, run)));
  }

  /** Groups of consecutive points. The line is broken where buckets are missing. */
  runs({ value }) {
    const runs = [];
    let before;
    for (const point of this.points.filter((point) => value(point) !== null)) {
      if (!runs.length || point.at - before > this.longest) runs.push([]);
      runs.at(-1).push(point);
      before = point.at;
    }
    return runs;
  }

  drawRun({ style, dashed, value, band }, run) {
    if (run.length === 1) {
      const x = this.middle(run[0]), whiskers = band ? [line(`whisker ${style}`, x, x, ...band(run[0]).map(this.y))] : [];
      return [...whiskers, shape("circle", { class: `spot ${style}`, cx: x, cy: this.y(value(run[0])), r: 3.5 })];
    }
    const path = (points, height) => points.map((point) => `${this.middle(point).toFixed(1)} ${this.y(height(point)).toFixed(1)}`).join("L");
    const drawn = [shape("path", { class: `line ${style} ${dashed ? "dashed" : ""}`, d: `M${path(run, value)}` })];
    if (band) {
      const above = path(run, (point) => band(point)[1]);
      const below = path([...run].reverse(), (point) => band(point)[0]);
      drawn.unshift(shape("path", { class: `band ${style}`, d: `M${above}L${below}Z` }));
    }
    return drawn;
  }

  /** Show names and values at the pointer, or of the newest point; and of all points if the table is open. */
  showValues() {
    const { current, series } = this, when = (point) => timeText(point.at, this.width < 60000);
    const text = (item, point) => (item.value(point) === null ? "–" : item.text(point)), counts = `${this.counted}s`;
    this.legend.replaceChildren(
      ...this.drawn.map((item) => element("li", {}, element("span", { class: `mark ${item.style}` }), `${item.name} `, element("b", {}, text(item, current)))),
      element("li", { class: "when" }, `${when(current)}, ${plural(current[counts], this.counted)}`));
    if (!this.details.open) return;
    const rows = [...this.points].reverse().map((point) => [when(point), count(point[counts]), ...series.map((item) => text(item, point))]);
    this.table.replaceChildren(table(["From", capital(counts), ...series.map((item) => item.name)], rows));
  }
}

/** Shares that fill the height, a column for each bucket. Points have the upper end of each share, of `styles`. */
class ShareChart extends TimeChart {
  range() { return []; }

  marks() {
    return this.styles.map((style, level) => shape("path", { class: style, d: this.points.map((point) => this.column(point, level)).join("") }));
  }

  column(point, level) {
    const left = this.x(point.at), width = Math.max(0.5, this.x(point.at + this.width) - left - 0.75).toFixed(2);
    const [low, high] = [point.ends[level - 1] ?? 0, point.ends[level]].map((end) => this.y(end).toFixed(2));
    return `M${left.toFixed(2)} ${low}h${width}V${high}h-${width}Z`;
  }

  showValues() {}
}

/** A difference with its interval, and 0, on a scale that covers all the numbers given. */
function drawInterval(plot, { difference, low, high }, style, numbers) {
  plot.hidden = difference === null;
  const room = plot.clientWidth, middle = 20;
  if (room < 100) return plot.replaceChildren();
  const least = Math.min(0, ...numbers), most = Math.max(0, ...numbers), margin = 0.06 * (most - least) || 1;
  const from = least - margin, to = most + margin;
  const x = (value) => 8 + ((value - from) / (to - from)) * (room - 16);
  plot.replaceChildren(shape("svg", { viewBox: `0 0 ${room} 58`, height: 58, role: "img", "aria-label": `Difference ${between(difference, low, high)}` },
    ...roundNumbers(from, to, 6).map(([value, label]) => shape("text", { x: x(value), y: 54, "text-anchor": "middle" }, label)),
    line("axis", 0, room, 38, 38), line("cursor", x(0), x(0), 4, 38), line(`whisker ${style}`, x(low), x(high), middle, middle),
    shape("circle", { class: `spot ${style}`, cx: x(Math.min(high, Math.max(low, difference))), cy: middle, r: 7 })));
}
