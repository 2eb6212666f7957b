// Sorting, filtering and expanding rows. The tables are complete without this script.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button")?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.querySelectorAll("tr.detail").forEach((row) => row.remove());
      const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const rows = [...body.rows].map((row, idx) => ({ row, idx, key: key(row) }));
      const numeric = head.classList.contains("num");
      rows.sort((a, b) => {
        // Absent values are last in both orders.
        if ((a.key === "") !== (b.key === "")) return a.key === "" ? 1 : -1;
        const order = numeric ? a.key - b.key : a.key.localeCompare(b.key, undefined, { numeric: true });
        return (down ? -order : order) || a.idx - b.idx;
      });
      body.append(...rows.map(({ row }) => row));
    });
  });
}

onSearch((text) => {
  const body = $("jobs-table").tBodies[0];
  body.querySelectorAll("tr.detail").forEach((row) => row.remove());
  let shown = 0;
  for (const row of body.rows) {
    const job = data.jobs[+row.querySelector("button[data-job]").dataset.job];
    const hit = row.textContent.toLowerCase().includes(text) || isFound(job, text);
    row.classList.toggle("hidden", !hit);
    shown += hit;
  }
  $("jobs-count").textContent = text ? `${shown} of ${data.jobs.length}` : String(data.jobs.length);
});

$("jobs-table")?.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-job]");
  if (!button) return;
  const row = button.closest("tr");
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) {
    if (row.nextElementSibling?.classList.contains("detail")) row.nextElementSibling.remove();
    return;
  }
  const job = data.jobs[+button.dataset.job];
  const list = el("dl", {}, ...job.facts.flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, text)]));
  row.after(el("tr", { class: "detail" }, el("td", { colspan: row.cells.length }, list)));
});
