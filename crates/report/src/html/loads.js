// Load over time: one line per domain, or heat strips for many domains. A page without loads does not have this script.
{
  const place = $("load");
  // One series is shown at a time: others have other domains or another unit.
  const legends = [...document.querySelectorAll(".load-legend")];
  let series = data.loads[data.main_loads];
  let legend = legends[data.main_loads];
  const many = () => legend.querySelector(".scale-most") !== null; // A scale of shades, or a legend of lines.
  let what = series.ops.some((row) => row.some((value) => value)) ? "ops" : "cpus";
  const unit = () => (what === "ops" ? series.unit : "CPUs busy with jobs");
  const valueText = (value) => (value === null ? "unreadable" : `${short(value)}${what === "ops" ? "/s" : ""}`);

  const left = GUTTER; // Aligned with the timeline above.
  // The width of the scroll bar of the timeline above.
  const barWidth = () => $("rows").offsetWidth - $("rows").clientWidth;
  const pointAt = (us) => {
    const times = series.times;
    let [low, high] = [0, times.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle][1] < us) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  function draw() {
    const width = place.clientWidth - barWidth();
    const picture = many() ? strips(width) : lines(width);
    place.querySelector("svg")?.remove();
    place.prepend(picture);
    $("load-level").textContent = series.level;
    $("load-unit").textContent = unit();
  }

  function frame(width, height, bottom) {
    const picture = svg("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${unit()} over time, per domain` });
    const x = scale(width, left());
    for (const [at, label] of timeTicks(x.wide)) {
      picture.append(svg("line", { class: "gridline", x1: x(at), x2: x(at), y1: 6, y2: bottom }));
      picture.append(tickLabel(x, at, label, bottom + 20, width));
    }
    picture.append(svg("text", { x: width - PAD_RIGHT, y: height - 4, "text-anchor": "end" }, "time since the start of the run"));
    return [picture, x];
  }

  function lines(width) {
    const [height, bottom, top] = [268, 222, 26];
    const [picture, x] = frame(width, height, bottom);
    const { spans, rows } = thinned(x.wide / 3);
    const most = rows.flat().reduce((a, b) => Math.max(a, b ?? 0), 0);
    const step = niceStep(most || 1, 4);
    const ceiling = Math.max(step, Math.ceil((most || 1) / step - 1e-9) * step);
    const y = (value) => bottom - (value / ceiling) * (bottom - top);
    for (let value = 0; value <= ceiling * 1.0001; value += step) {
      picture.append(svg("line", { class: "gridline", x1: left(), x2: width - PAD_RIGHT, y1: y(value), y2: y(value) }));
      picture.append(svg("text", { x: left() - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)));
    }
    picture.append(svg("text", { x: 20, y: 12 }, unit()));
    const clip = svg("clipPath", { id: "plot" });
    clip.append(svg("rect", { x: left(), y: 0, width: x.wide, height: bottom + 2 }));
    const plot = svg("g", { "clip-path": "url(#plot)" });
    rows.forEach((row, domain) => {
      const path = steps(row, spans, x, y);
      if (rows.length <= 2) plot.append(svg("path", { class: "area", d: area(row, spans, x, y, bottom), style: `--c:${colour(domain)}` }));
      plot.append(svg("path", { class: "line", d: path, style: `--c:${colour(domain)}` }));
    });
    picture.append(clip, plot);
    return picture;
  }

  /** The visible points. Adjacent ones are averaged by time until each has a few pixels. */
  function thinned(width) {
    const times = series.times;
    const visible = times.map((time, idx) => idx).filter((idx) => times[idx][1] >= view.from && times[idx][0] <= view.to);
    const together = Math.max(1, Math.ceil(visible.length / width));
    const groups = [];
    for (let at = 0; at < visible.length; at += together) groups.push(visible.slice(at, at + together));
    const mean = (row, group) => {
      const known = group.filter((idx) => row[idx] !== null);
      const time = known.reduce((sum, idx) => sum + times[idx][1] - times[idx][0], 0);
      return time ? known.reduce((sum, idx) => sum + row[idx] * (times[idx][1] - times[idx][0]), 0) / time : null;
    };
    return {
      spans: groups.map((group) => [times[group[0]][0], times[group.at(-1)][1]]),
      rows: series[what].map((row) => groups.map((group) => mean(row, group))),
    };
  }

  /** The mean of each interval as a step; unreadable intervals are gaps. */
  function steps(row, spans, x, y) {
    let path = "";
    let pen = false;
    spans.forEach(([from, to], idx) => {
      if (row[idx] === null) { pen = false; return; }
      const [x0, x1, py] = [x(from).toFixed(1), x(to).toFixed(1), y(row[idx]).toFixed(1)];
      path += pen ? `L${x0} ${py}H${x1}` : `M${x0} ${py}H${x1}`;
      pen = true;
    });
    return path;
  }

  function area(row, spans, x, y, bottom) {
    let path = "";
    spans.forEach(([from, to], idx) => {
      if (row[idx] === null) return;
      path += `M${x(from).toFixed(1)} ${bottom}V${y(row[idx]).toFixed(1)}H${x(to).toFixed(1)}V${bottom}`;
    });
    return path;
  }

  function strips(width) {
    const tall = series.domains.length > 40 ? 9 : series.domains.length > 20 ? 13 : 18;
    const bottom = 8 + series.domains.length * (tall + 2);
    const [picture, x] = frame(width, bottom + 44, bottom);
    const rows = series[what];
    const most = rows.flat().reduce((a, b) => Math.max(a, b ?? 0), 0) || 1;
    legend.querySelector(".scale-most").textContent = valueText(most);
    rows.forEach((row, domain) => {
      const top = 8 + domain * (tall + 2);
      if (tall >= 13 || domain % 4 === 0) {
        picture.append(svg("text", { x: left() - 8, y: top + tall / 2 + 4, "text-anchor": "end" }, series.domains[domain].label));
      }
      drawStrip(picture, row, x, top, tall, most);
    });
    return picture;
  }

  /** At most 240 rectangles. */
  function drawStrip(picture, row, x, top, tall, most) {
    const wide = Math.max(2, x.wide / 240);
    for (let px = left(); px < left() + x.wide; px += wide) {
      const [from, to] = [pointAt(x.back(px)), pointAt(x.back(px + wide))];
      const known = row.slice(from, to + 1).filter((value) => value !== null);
      const times = series.times;
      if (!known.length || times[to][0] > x.back(px + wide) || times[from][1] < x.back(px)) continue;
      const mean = known.reduce((a, b) => a + b, 0) / known.length;
      const share = Math.round(6 + 94 * (mean / most));
      picture.append(svg("rect", { x: px, y: top, width: wide + 0.5, height: tall, style: `fill:color-mix(in srgb, var(--c0) ${share}%, var(--surface))` }));
    }
  }

  place.addEventListener("pointermove", (event) => {
    const picture = place.querySelector("svg");
    const times = series.times;
    if (!picture || !times.length) return;
    const box = picture.getBoundingClientRect();
    const x = scale(box.width, left());
    const us = x.back(event.clientX - box.left);
    picture.querySelector(".cursor")?.remove();
    const [begin, end] = [times[0][0], times.at(-1)[1]];
    if (us < Math.max(begin, view.from) || us > Math.min(end, view.to)) { hideTip(); return; }
    const idx = pointAt(us);
    const px = x(us);
    picture.append(svg("line", { class: "cursor", x1: px, x2: px, y1: 6, y2: box.height - 46 }));
    const order = series.domains.map((domain, at) => at).sort((a, b) => (series[what][b][idx] ?? -1) - (series[what][a][idx] ?? -1));
    const table = el("table", {}, ...order.slice(0, 12).map((domain) => el("tr", {},
      el("td", {}, many() ? "" : el("span", { class: "swatch", style: `--c:${colour(domain)};display:inline-block` })),
      el("td", {}, series.domains[domain].label),
      el("td", {}, valueText(series[what][domain][idx])))));
    showTip(event.clientX, event.clientY, [el("h3", {}, `${seconds(times[idx][0], view.to - view.from)} to ${seconds(times[idx][1], view.to - view.from)}`), table]);
  });
  place.addEventListener("pointerleave", () => { hideTip(); place.querySelector(".cursor")?.remove(); });

  /** Shows this series, its legend and its unit. */
  function choose(idx) {
    series = data.loads[idx];
    legend = legends[idx];
    legends.forEach((other) => other.classList.toggle("hidden", other !== legend));
    draw();
  }

  segments("load-what", (value) => { what = value; draw(); });
  $("load-what").querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button.value === what)));
  const choice = $("load-series");
  if (choice) {
    choice.value = String(data.main_loads);
    choice.addEventListener("change", () => choose(+choice.value));
  }
  view.listeners.push(draw);
  let width = 0;
  new ResizeObserver(() => { if (place.clientWidth !== width) { width = place.clientWidth; draw(); } }).observe(place);
  selectable(place, left);
  choose(data.main_loads);
}
