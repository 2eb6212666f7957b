// The timeline: a row per job, per name of jobs (copies have one name with different numbers) or per CPU. Only the visible rows are drawn, so that
// scrolling a thousand jobs is as fast as scrolling ten.
{
  /** Number of jobs up to which the timeline begins with a row per job. */
  const N_ROWS_MAX = 100;
  const rows = $("rows");
  const space = $("space");
  const axis = $("axis");
  const announcement = $("announcement");
  let mode = "jobs";
  let search = "";
  let lanes = [];
  let current = -1;
  let item = -1;

  const domainOf = (cpus) => {
    if (!cpus.length) return null;
    const first = data.domain_of_cpu[cpus[0]] ?? null;
    return cpus.every((cpu) => (data.domain_of_cpu[cpu] ?? null) === first) ? first : -1;
  };
  const setDomains = data.sets.map((set) => domainOf(set.cpus));
  const domainName = (set) => {
    if (set === null) return "unknown CPUs";
    const domain = setDomains[set];
    const cpus = `${data.sets[set].cpus.length === 1 ? "cpu" : "cpus"} ${data.sets[set].text}`;
    return domain === null || domain < 0 ? cpus : `${data.domains[domain].label}, ${cpus}`;
  };
  const shortName = (set) => {
    if (set === null) return "";
    const domain = setDomains[set];
    return domain === null || domain < 0 ? `cpus ${data.sets[set].text}` : data.domains[domain].label;
  };

  /** The indexes of the jobs that match the search. */
  const found = () => data.jobs.map((job, idx) => idx).filter((idx) => isFound(data.jobs[idx], search));

  /** A bar's class: bound to the drawn CPUs, bound to other CPUs, which include them, or not bound. */
  const barClass = (bar) => (bar.bound === null ? "segment free" : bar.bound === bar.set ? "segment" : "segment among");
  const bindingOf = (bar) => {
    if (bar.bound === null) return " (not bound by evenkeel)";
    return bar.bound === bar.set ? "" : ` (bound to cpus ${data.sets[bar.bound].text})`;
  };

  const barsOf = (idx) => data.jobs[idx].segments.map(([from, to, set, bound]) => ({ from, to, set, bound, job: idx }));
  const domainColour = (set) => (set === null ? "var(--faint)" : colour(setDomains[set]));

  /** A job that failed or was stopped has a mark at its end, or at its due time if it never started. */
  function endMarks(job, idx) {
    return job.mark ? [{ at: job.ended ?? job.due, kind: job.mark, job: idx }] : [];
  }

  /** A lane per job: its segments, and marks for moves and failures. */
  function jobLanes() {
    return found().map((idx) => {
      const job = data.jobs[idx];
      const moves = job.moves.map((move) => ({ at: data.moves[move].at, kind: "move", move }));
      const bars = barsOf(idx).map((bar) => ({ ...bar, y: 5, h: 19, colour: domainColour(bar.set), label: shortName(bar.set) }));
      const extra = job.segments.length ? "" : job.state;
      return { name: job.name, extra, height: 30, bars, marks: [...moves, ...endMarks(job, idx)] };
    });
  }

  /** A lane per name: overlapping jobs are stacked. */
  function nameLanes() {
    const byName = new Map();
    for (const idx of found()) {
      const name = data.jobs[idx].name.replace(/\.\d+$/, "");
      byName.set(name, [...(byName.get(name) ?? []), idx]);
    }
    return [...byName].map(([name, jobs]) => ({
      ...stacked(jobs.flatMap(barsOf), (bar) => domainColour(bar.set)),
      name,
      extra: `${jobs.length} ${jobs.length === 1 ? "job" : "jobs"}`,
      marks: jobs.flatMap((idx) => endMarks(data.jobs[idx], idx)),
    }));
  }

  /** A lane per CPU: overlapping jobs are stacked. */
  function cpuLanes() {
    const byCpu = new Map(data.cpus.map((cpu) => [cpu.id, []]));
    for (const bar of found().flatMap(barsOf)) {
      for (const cpu of bar.set === null ? [] : data.sets[bar.set].cpus) byCpu.get(cpu)?.push({ ...bar });
    }
    return data.cpus.map((cpu) => {
      const domain = data.domain_of_cpu[cpu.id];
      const extra = domain === undefined ? "" : data.domains[domain].label;
      return { ...stacked(byCpu.get(cpu.id), (bar) => colour(bar.job)), name: `cpu ${cpu.id}`, extra, marks: [] };
    });
  }

  /** The bars of a lane and its height: overlapping bars are at different levels. */
  function stacked(bars, colourOf) {
    bars.sort((a, b) => a.from - b.from || a.job - b.job);
    const free = [];
    for (const bar of bars) {
      let level = free.findIndex((end) => end <= bar.from);
      if (level < 0) level = free.length < 8 ? free.length : bar.job % 8;
      free[level] = Math.max(free[level] ?? 0, bar.to);
      bar.level = level;
    }
    const h = free.length <= 1 ? 19 : free.length <= 3 ? 15 : free.length <= 5 ? 11 : 8;
    for (const bar of bars) {
      bar.y = 5 + bar.level * (h + 2);
      bar.h = h;
      bar.colour = colourOf(bar);
      bar.label = h >= 11 ? data.jobs[bar.job].name : "";
    }
    return { bars, height: 10 + Math.max(1, free.length) * (h + 2) + 1 };
  }

  function rebuild() {
    lanes = { jobs: jobLanes, names: nameLanes, cpus: cpuLanes }[mode]();
    let top = 0;
    for (const lane of lanes) {
      lane.top = top;
      top += lane.height;
    }
    space.style.height = `${top}px`;
    current = item = -1;
    rows.scrollTop = 0;
    draw();
  }

  function draw() {
    const width = rows.clientWidth;
    const left = GUTTER();
    const x = scale(width, left);
    drawAxis(x, rows.offsetWidth);
    const [from, to] = [rows.scrollTop - 120, rows.scrollTop + rows.clientHeight + 120];
    const visible = lanes.filter((lane) => lane.top + lane.height > from && lane.top < to);
    space.replaceChildren(...visible.map((lane) => drawRow(lane, x, width, left)));
    for (const id of ["zoom-out", "zoom-fit"]) $(id).disabled = view.whole();
  }

  function drawAxis(x, width) {
    const picture = svg("svg", { height: 28, width: "100%", "aria-hidden": "true" });
    for (const [at, label] of timeTicks(x.wide)) picture.append(tickLabel(x, at, label, 18, width));
    axis.replaceChildren(picture);
  }

  function drawRow(lane, x, width, left) {
    const name = el("div", { class: "name", style: `width:${left}px`, title: lane.name }, el("span", {}, lane.name));
    if (lane.extra) name.append(el("em", {}, lane.extra));
    const picture = svg("svg", { class: "chart", height: lane.height - 1, "aria-hidden": "true" });
    const at = (us) => x(us) - left;
    for (const [us] of timeTicks(x.wide)) {
      picture.append(svg("line", { class: "gridline", x1: at(us), x2: at(us), y1: 0, y2: lane.height }));
    }
    drawBars(picture, lane, at, width - left);
    for (const mark of lane.marks) drawMark(picture, lane, mark, at(mark.at));
    const row = el("div", { class: "row", style: `top:${lane.top}px;height:${lane.height}px` }, name, picture);
    if (lane === lanes[current]) row.classList.add("current");
    return row;
  }

  /** Bars thinner than a pixel are merged. */
  function drawBars(picture, lane, at, wide) {
    const lastRight = [];
    for (const bar of lane.bars) {
      if (bar.to < view.from || bar.from > view.to) continue;
      const x0 = Math.max(-4, at(bar.from));
      const x1 = Math.min(wide + 4, at(bar.to));
      if (x1 < (lastRight[bar.y] ?? -9) + 0.6) continue;
      const w = Math.max(1.5, x1 - x0 - 1);
      lastRight[bar.y] = x0 + w;
      const shape = svg("rect", {
        class: barClass(bar),
        x: x0 + 0.5, y: bar.y, width: w, height: bar.h, rx: Math.min(4, w / 2, bar.h / 3), style: `--c:${bar.colour}`,
      });
      shape.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, aboutBar(bar)));
      shape.addEventListener("pointerleave", hideTip);
      if (bar === lane.bars[item] && lane === lanes[current]) shape.classList.add("hot");
      picture.append(shape);
      const text = fitting(bar.label, Math.min(x1, wide) - Math.max(x0, 0) - 12);
      if (text) picture.append(svg("text", { x: Math.max(x0, 0) + 7, y: bar.y + bar.h / 2 + 4 }, text));
    }
  }

  /** The part of a label that fits, or nothing. */
  function fitting(label, width) {
    const fits = Math.floor(width / 7.2);
    if (!label || (label.length > fits && (mode === "jobs" || fits < 4))) return "";
    return label.length <= fits ? label : `${label.slice(0, fits - 1)}…`;
  }

  function drawMark(picture, lane, mark, px) {
    const y = 14.5;
    let shape;
    if (mark.kind === "move") {
      shape = svg("path", { class: "mark-move", d: `M${px} ${y - 6.5}l6 6.5l-6 6.5l-6-6.5z` });
    } else if (mark.kind === "timed out") {
      shape = svg("path", { class: "mark-limit", d: `M${px - 5.5} ${y - 5.5}h11l-11 11h11z` });
    } else if (mark.kind === "stopped") {
      shape = svg("rect", { class: "mark-stop", x: px - 5, y: y - 5, width: 10, height: 10, rx: 1.5 });
    } else {
      shape = svg("path", { class: "mark-bad", d: `M${px - 4.5} ${y - 4.5}l9 9m0-9l-9 9` });
    }
    const about = () => (mark.kind === "move" ? aboutMove(data.moves[mark.move]) : aboutJob(data.jobs[mark.job]));
    shape.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, about()));
    shape.addEventListener("pointerleave", hideTip);
    picture.append(shape);
  }

  const span = () => view.to - view.from;

  function aboutBar(bar) {
    const job = data.jobs[bar.job];
    const parts = [
      el("h3", {}, job.name),
      el("div", {}, `${domainName(bar.set)}${bindingOf(bar)}`),
      el("div", {}, `${seconds(bar.from, span())} to ${seconds(bar.to, span())}`),
    ];
    // The move of one thread is not the reason of a bar of its job.
    const move = job.moves.map((idx) => data.moves[idx]).find((one) => one.name === job.name && Math.abs(one.at - bar.from) < 2);
    const begins = job.segments[0]?.[0] === bar.from;
    // In a replay the bars are those of the recorded run and the reasons those of another policy.
    const reason = data.is_replay ? null : move ? move.reason : bar.bound !== null && begins ? job.start_reason : null;
    if (reason) parts.push(el("p", {}, `Reason: ${reason}.`));
    if (begins && job.would_start) parts.push(el("p", {}, `In this replay it ${job.would_start}.`));
    return parts;
  }

  function aboutMove(move) {
    return [
      el("h3", {}, `${move.name}: ${move.from ?? "unbound"} → ${move.to ?? "unbound"}`),
      el("div", {}, `${data.is_replay ? "requested move " : ""}at ${seconds(move.at, span())}`),
      ...(move.reason ? [el("p", {}, `Reason: ${move.reason}.`)] : []),
    ];
  }

  function aboutJob(job) {
    return [el("h3", {}, job.name), el("div", {}, job.ending)];
  }

  // By keyboard: up and down select a row, left and right its segments and marks.
  function entries(lane) {
    const bars = lane.bars.map((bar) => ({ at: bar.from, parts: () => aboutBar(bar) }));
    const marks = lane.marks.map((mark) => ({
      at: mark.at,
      parts: () => (mark.kind === "move" ? aboutMove(data.moves[mark.move]) : aboutJob(data.jobs[mark.job])),
    }));
    return [...bars, ...marks].sort((a, b) => a.at - b.at);
  }

  function walk(event) {
    const steps = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [10, 0], PageUp: [-10, 0], Home: [-1e9, 0], End: [1e9, 0] };
    const step = steps[event.key];
    if (!step || !lanes.length) return;
    event.preventDefault();
    const to = (n, most) => Math.min(Math.max(0, n), most);
    if (step[0]) {
      current = to(current < 0 ? 0 : current + step[0], lanes.length - 1);
      item = -1;
    } else {
      current = Math.max(0, current);
      item = to(item + step[1], Math.max(0, entries(lanes[current]).length - 1));
    }
    const lane = lanes[current];
    if (lane.top < rows.scrollTop) rows.scrollTop = lane.top;
    if (lane.top + lane.height > rows.scrollTop + rows.clientHeight) {
      rows.scrollTop = lane.top + lane.height - rows.clientHeight;
    }
    draw();
    const chosen = entries(lane)[Math.max(0, item)];
    const box = rows.getBoundingClientRect();
    const parts = chosen ? chosen.parts() : [el("h3", {}, lane.name), el("div", {}, "no entries")];
    const px = chosen ? scale(rows.clientWidth, GUTTER())(chosen.at) : GUTTER();
    showTip(box.left + Math.min(Math.max(px, GUTTER()), box.width), box.top + lane.top - rows.scrollTop + lane.height - 10, parts);
    announcement.textContent = [lane.name, ...parts.map((part) => part.textContent)].join(". ");
  }

  rows.addEventListener("keydown", walk);
  rows.addEventListener("blur", hideTip);
  rows.addEventListener("scroll", () => { hideTip(); requestAnimationFrame(draw); }, { passive: true });
  function choose(value) {
    mode = value;
    $("legend-jobs").classList.toggle("hidden", value === "cpus");
    $("legend-cpus").classList.toggle("hidden", value !== "cpus");
    rebuild();
  }
  const pressed = segments("by", choose);
  onSearch((text) => { search = text; rebuild(); });
  $("zoom-in").addEventListener("click", () => view.zoom(0.5));
  $("zoom-out").addEventListener("click", () => view.zoom(2));
  $("zoom-fit").addEventListener("click", () => view.set(0, data.end));
  view.listeners.push(draw);
  let width = 0;
  new ResizeObserver(() => { if (rows.clientWidth !== width) { width = rows.clientWidth; draw(); } }).observe(rows);
  selectable(rows, GUTTER);
  selectable(axis, GUTTER);
  // A row per job of a very large run shows nothing of the run as a whole.
  if (data.jobs.length > N_ROWS_MAX && nameLanes().length * 2 < data.jobs.length) pressed("names");
  else rebuild();
}
