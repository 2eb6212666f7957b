// Dragging over a chart zooms in to that interval; a double click shows the whole run.
function selectable(chart, leftOf) {
  let start = null;
  const mark = el("div", { class: "hidden", style: "position:absolute;top:0;bottom:0;pointer-events:none;background:var(--accent);opacity:.16;z-index:5" });
  chart.append(mark);
  const local = (event) => event.clientX - chart.getBoundingClientRect().left;
  const x = () => scale(chart.clientWidth, leftOf());
  chart.addEventListener("pointerdown", (event) => {
    // Touch scrolls; a mouse selects.
    const inPlot = local(event) > leftOf() && local(event) < chart.clientWidth;
    start = event.pointerType === "mouse" && event.button === 0 && inPlot ? local(event) : null;
  });
  addEventListener("pointermove", (event) => {
    if (start === null) return;
    const at = Math.min(Math.max(local(event), leftOf()), chart.clientWidth);
    if (Math.abs(at - start) < 5) return;
    if (!mark.isConnected) chart.append(mark);
    mark.classList.remove("hidden");
    mark.style.left = `${Math.min(at, start)}px`;
    mark.style.width = `${Math.abs(at - start)}px`;
    mark.style.top = `${chart.scrollTop}px`;
    mark.style.height = `${chart.clientHeight}px`;
    event.preventDefault();
  });
  addEventListener("pointerup", (event) => {
    if (start === null) return;
    const at = Math.min(Math.max(local(event), leftOf()), chart.clientWidth);
    const [from, to] = [Math.min(at, start), Math.max(at, start)].map((px) => x().back(px));
    const wide = Math.abs(at - start);
    start = null;
    mark.classList.add("hidden");
    if (wide >= 5) view.set(from, to);
  });
  chart.addEventListener("dblclick", () => view.set(0, data.end));
}
