//! Tables as drawings.

use super::cell::{Cell, cell};
use super::{Drawing, Grid};
use crate::comparison::html::plot::{Axis, Plot};
use crate::html::escape::escape;

/// Room for the names of rows, in pixels.
const NAMES: f64 = 130.0;
const WIDTH: f64 = 720.0;
/// A row of bars, and a line of intervals.
const ROW: f64 = 22.0;
const STEP: f64 = 15.0;

/// Nothing where a table is not drawn.
pub(super) fn drawing(grid: &Grid) -> String {
    match grid.drawing {
        Drawing::None => String::new(),
        Drawing::Heat => heat(grid),
        Drawing::Bars => bars(grid),
        Drawing::Intervals => intervals(grid),
        Drawing::Lines => lines(grid),
    }
}

fn at(grid: &Grid, row: usize, column: usize) -> Option<Cell> {
    cell(grid.rows.get(row)?.get(column)?)
}

/// Columns in which some cell is a figure.
fn figures(grid: &Grid) -> Vec<usize> {
    let has = |column: &usize| (0..grid.rows.len()).any(|row| at(grid, row, *column).is_some());
    (1..grid.heads.len()).filter(has).collect()
}

fn heat(grid: &Grid) -> String {
    let columns = figures(grid);
    let all = (0..grid.rows.len()).flat_map(|row| columns.iter().map(move |column| (row, *column)));
    let most = all
        .filter_map(|(row, column)| at(grid, row, column))
        .map(|cell| cell.middle().abs())
        .fold(1e-9, f64::max);
    let heads: String =
        grid.heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escape(head))).collect();
    let field = |text: &String| {
        let Some(value) = cell(text).map(Cell::middle) else {
            return format!("<td class=\"none\">{}</td>", escape(text));
        };
        let strength = (value.abs() / most).min(1.0) * 75.0;
        let side = if 0.0 <= value { "bad" } else { "good" };
        format!("<td style=\"--h:{strength:.0}%;--s:var(--{side})\">{}</td>", escape(text))
    };
    let row = |row: &Vec<String>| {
        let name = row.first().map_or("", String::as_str);
        let fields: String = row.iter().skip(1).map(field).collect();
        format!("<tr><th scope=\"row\">{}</th>{fields}</tr>\n", escape(name))
    };
    let rows: String = grid.rows.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"heat small\"><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )
}

fn bars(grid: &Grid) -> String {
    let panel = |column: usize| {
        let head = &grid.heads[column];
        let height = grid.rows.len() as f64 * ROW;
        let cells = (0..grid.rows.len()).filter_map(|row| at(grid, row, column));
        let axis = Axis::over(cells.map(Cell::middle), Some(0.0), (NAMES, WIDTH / 1.5 - 60.0));
        let mut plot = Plot::new(head, WIDTH / 1.5, height + 26.0);
        plot.grid(&axis, (0.0, height), 4, "");
        for (row, cells) in grid.rows.iter().enumerate() {
            let top = row as f64 * ROW;
            plot.name((NAMES - 8.0, top + 15.0), &cells[0], 18);
            let Some(value) = at(grid, row, column).map(Cell::middle) else { continue };
            let (zero, end) = (axis.x(0.0), axis.x(value));
            plot.rect("bar s0", (zero.min(end), top + 4.0), ((end - zero).abs(), ROW - 8.0));
            plot.label("tick", "start", (zero.max(end) + 5.0, top + 15.0), &cells[column]);
        }
        format!("<figure><figcaption>{}</figcaption>{}</figure>", escape(head), plot.end())
    };
    format!(
        "<div class=\"panels\">{}</div>",
        figures(grid).into_iter().map(panel).collect::<String>()
    )
}

fn intervals(grid: &Grid) -> String {
    let columns = figures(grid);
    let group = columns.len() as f64 * STEP + 8.0;
    let height = grid.rows.len() as f64 * group;
    let cells = || (0..grid.rows.len()).flat_map(|row| columns.iter().map(move |at| (row, *at)));
    let ends = cells().filter_map(|(row, column)| at(grid, row, column)).flat_map(Cell::ends);
    let axis = Axis::over(ends, Some(0.0), (NAMES, WIDTH - 20.0));
    let mut plot = Plot::new(&grid.title, WIDTH, height + 26.0);
    plot.grid(&axis, (0.0, height), 7, "");
    plot.line("one", (axis.x(0.0), 0.0), (axis.x(0.0), height));
    for (row, names) in grid.rows.iter().enumerate() {
        plot.name((NAMES - 8.0, (row as f64 + 0.5) * group + 4.0), &names[0], 18);
    }
    for (row, column) in cells() {
        let Some(cell) = at(grid, row, column) else { continue };
        let series = columns.iter().position(|one| *one == column).unwrap_or(0);
        let y = row as f64 * group + 4.0 + (series as f64 + 0.5) * STEP;
        let [low, high] = cell.ends().map(|end| axis.x(end));
        match cell {
            Cell::Range { .. } => plot.rect("published", (low, y - 5.0), (high - low, 10.0)),
            Cell::Mean { .. } => {
                plot.line(&format!("line s{}", series % 8), (low, y), (high, y));
                let said = format!("{}: {}", grid.heads[column], grid.rows[row][column]);
                mark(&mut plot, series, (axis.x(cell.middle()), y), &said);
            }
        }
    }
    format!("{}<div class=\"wide\">{}</div>", legend(grid, &columns), plot.end())
}

/// A shape for each series, so that no colour is needed.
const SHAPES: [&str; 4] = ["●", "◆", "■", "○"];

fn mark(plot: &mut Plot, series: usize, (x, y): (f64, f64), said: &str) {
    let class = format!("mark s{}", series % 8);
    match series % SHAPES.len() {
        0 => plot.dot(&class, (x, y), 4.0, said),
        1 => plot.diamond(&class, (x, y), 5.0),
        2 => plot.rect(&class, (x - 3.5, y - 3.5), (7.0, 7.0)),
        _ => plot.dot(&format!("ring s{}", series % 8), (x, y), 4.0, said),
    }
}

fn legend(grid: &Grid, columns: &[usize]) -> String {
    let is_range = |column: usize| {
        (0..grid.rows.len()).any(|row| matches!(at(grid, row, column), Some(Cell::Range { .. })))
    };
    let item = |(series, column): (usize, &usize)| {
        let sign = if is_range(*column) { "▬" } else { SHAPES[series % SHAPES.len()] };
        format!(
            "<li><span class=\"key k{}\">{sign}</span> {}</li>",
            if is_range(*column) { "r".to_owned() } else { (series % 8).to_string() },
            escape(&grid.heads[*column])
        )
    };
    format!(
        "<ul class=\"legend\">{}</ul>",
        columns.iter().enumerate().map(item).collect::<String>()
    )
}

/// Height of a drawing with lines, without its labels.
const HIGH: f64 = 220.0;

fn lines(grid: &Grid) -> String {
    let columns = figures(grid);
    let x_of = |row: usize| at(grid, row, 0).map_or(row as f64, Cell::middle);
    let rows = 0..grid.rows.len();
    let across = Axis::over(rows.clone().map(x_of), None, (60.0, WIDTH - 20.0));
    let cells = || rows.clone().flat_map(|row| columns.iter().map(move |column| (row, *column)));
    let ends = cells().filter_map(|(row, column)| at(grid, row, column)).flat_map(Cell::ends);
    // An axis runs from left to right; this one runs from the bottom to the top.
    let up = Axis::over(ends, Some(0.0), (0.0, HIGH));
    let y = |value: f64| HIGH - up.x(value);
    let mut plot = Plot::new(&grid.title, WIDTH, HIGH + 28.0);
    let (ticks, digits) = up.ticks(5);
    for tick in ticks {
        plot.line("grid", (60.0, y(tick)), (WIDTH - 20.0, y(tick)));
        plot.label("tick", "end", (54.0, y(tick) + 4.0), &format!("{tick:.digits$}"));
    }
    plot.line("one", (60.0, y(0.0)), (WIDTH - 20.0, y(0.0)));
    for row in rows.clone() {
        let label = &grid.rows[row][0];
        plot.label("tick", "middle", (across.x(x_of(row)), HIGH + 18.0), label);
    }
    for (series, column) in columns.iter().enumerate() {
        let points: Vec<(usize, Cell)> =
            rows.clone().filter_map(|row| Some((row, at(grid, row, *column)?))).collect();
        let class = format!("line s{}", series % 8);
        let place = |(row, cell): &(usize, Cell)| (across.x(x_of(*row)), y(cell.middle()));
        points.windows(2).for_each(|pair| plot.line(&class, place(&pair[0]), place(&pair[1])));
        for point in &points {
            let ((x, middle), [low, high]) = (place(point), point.1.ends().map(y));
            plot.line(&class, (x, low), (x, high));
            let said = format!("{}: {}", grid.heads[*column], grid.rows[point.0][*column]);
            mark(&mut plot, series, (x, middle), &said);
        }
    }
    format!("{}<div class=\"wide\">{}</div>", legend(grid, &columns), plot.end())
}
