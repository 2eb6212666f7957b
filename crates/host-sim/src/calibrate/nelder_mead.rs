//! Minimization of a function without derivatives: J. A. Nelder, R. Mead, "A Simplex Method for Function Minimization",
//! The Computer Journal 7(4), 1965.
//!
//! ```text
//!      worst                    the worst vertex is reflected at the centroid of all other vertices;
//!        ╲╲                     expanded if the new vertex is the best; contracted if it is not better;
//!   good──╳── reflected         if the contraction does not help, all vertices shrink towards the best
//! ```
//!
//! The method is deterministic: equal functions and starts give equal results on every machine.

/// A vertex: its coordinates, and the function value.
type Vertex = (Vec<f64>, f64);

/// Returns the best coordinates after `n_iterations`, and their function value. The initial simplex is at `begin` and has
/// edges of length `edge`.
pub fn minimize(
    function: impl Fn(&[f64]) -> f64,
    begin: &[f64],
    edge: f64,
    n_iterations: usize,
) -> (Vec<f64>, f64) {
    let vertex_at = |numbers: Vec<f64>| {
        let value = function(&numbers);
        (numbers, if value.is_nan() { f64::INFINITY } else { value })
    };
    let mut vertices: Vec<Vertex> = vec![vertex_at(begin.to_vec())];
    for idx in 0..begin.len() {
        let mut moved = begin.to_vec();
        moved[idx] += edge;
        vertices.push(vertex_at(moved));
    }
    sort(&mut vertices);
    for _ in 0..n_iterations {
        iterate(&mut vertices, &vertex_at);
        sort(&mut vertices);
    }
    vertices.swap_remove(0)
}

/// Sorts vertices by value. The sort is stable: of equal vertices, the older vertex comes first.
fn sort(vertices: &mut [Vertex]) {
    vertices.sort_by(|one, other| one.1.total_cmp(&other.1));
}

fn iterate(vertices: &mut [Vertex], at: &impl Fn(Vec<f64>) -> Vertex) {
    let Some((worst, others)) = vertices.split_last_mut() else { return };
    let Some(best) = others.first().cloned() else { return };
    let n = others.len() as f64;
    let middle: Vec<f64> = (0..worst.0.len())
        .map(|idx| others.iter().map(|corner| corner.0[idx]).sum::<f64>() / n)
        .collect();
    let along = |part: f64| {
        at(middle.iter().zip(&worst.0).map(|(mid, bad)| mid + part * (bad - mid)).collect())
    };
    let mirrored = along(-1.0);
    let second_worst = others.last().map_or(f64::INFINITY, |corner| corner.1);
    if mirrored.1 < best.1 {
        let further = along(-2.0);
        *worst = if further.1 < mirrored.1 { further } else { mirrored };
    } else if mirrored.1 < second_worst {
        *worst = mirrored;
    } else {
        let half = if mirrored.1 < worst.1 { along(-0.5) } else { along(0.5) };
        if half.1 < worst.1.min(mirrored.1) {
            *worst = half;
        } else {
            for corner in vertices.iter_mut().skip(1) {
                let closer =
                    corner.0.iter().zip(&best.0).map(|(far, near)| near + (far - near) / 2.0);
                *corner = at(closer.collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_rosenbrocks_function_is_found() {
        // The minimum is at (1, 1).
        let valley = |x: &[f64]| {
            let (one, two) = (1.0 - x[0], x[1] - x[0] * x[0]);
            one * one + 100.0 * two * two
        };
        let (numbers, value) = minimize(valley, &[-1.2, 1.0], 0.5, 200);
        assert!(value < 1e-8, "{numbers:?} {value}");
    }

    #[test]
    fn regions_where_the_function_is_nan_are_avoided() {
        let walled = |x: &[f64]| if x[0] < 0.0 { f64::NAN } else { x[0] };
        let (numbers, _) = minimize(walled, &[3.0], 1.0, 60);
        assert!(0.0 <= numbers[0] && numbers[0] < 1e-6, "{numbers:?}");
    }
}
