"use strict";

// Tables: a click on a column's head sorts by it, numbers by value; what has no value comes last either way.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => sort(table, heads, column));
  });
}

function sort(table, heads, column) {
  const isNumeric = heads[column].classList.contains("number");
  const before = heads[column].getAttribute("aria-sort");
  const first = isNumeric ? "descending" : "ascending";
  const order = before === first ? (isNumeric ? "ascending" : "descending") : first;
  const sign = order === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, key: keyOf(row.cells[column], isNumeric) }));
  rows.sort((one, other) => compare(one.key, other.key, sign));
  body.append(...rows.map((each) => each.row));
  heads.forEach((head) => head.setAttribute("aria-sort", head === heads[column] ? order : "none"));
}

function keyOf(cell, isNumeric) {
  if (!isNumeric) return cell.textContent;
  return cell.dataset.value === "" ? null : Number(cell.dataset.value);
}

function compare(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one === "number") return sign * (one - other);
  return sign * one.localeCompare(other, undefined, { numeric: true });
}

// Tooltips: what a mark says of itself, for a mouse and for a finger.
const tip = document.getElementById("tip");

function show(event) {
  const mark = event.target.closest?.("[data-tip]");
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const room = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 12, innerWidth - room.width - 8);
  const above = event.clientY - room.height - 12;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${above < 8 ? event.clientY + 18 : above}px`;
}

document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
