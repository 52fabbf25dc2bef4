//! Where the steps of a task stand in a drawing: in layers from the top, each below all it waits for.
//!
//! The layer of a step is the longest way to it, or a later one where that layer is full. What leads over several layers
//! gets a place in each of them, which all ways from one step, or all ways to one, share. Within a layer places are
//! ordered so that few lines cross, and then moved towards what they are joined with. Each round looks at every place and
//! every line once, and the number of rounds is fixed: the same graph is always drawn the same.

use std::collections::{BTreeSet, HashMap};

/// How often the layers are gone through in each direction to order them, and to move what is in them.
const SWEEPS: usize = 6;
/// A way over more layers than this gets no places between.
const MAX_SPAN: usize = 40;
/// How wide a place of a passing line is.
const LANE: f64 = 14.0;
/// By how much more than a step a lane wants to be where it is in the next layer.
const LANE_WEIGHT: f64 = 1000.0;

/// A point of a drawing: a step, or a place at which lines pass through a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    /// The layer, from the top.
    pub(super) layer: usize,
    /// The middle, from the left.
    pub(super) x: f64,
}

/// Where everything stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    /// The steps first, then the places of passing lines.
    pub(super) places: Vec<Place>,
    /// For each edge the places that it goes through, its ends included.
    pub(super) ways: Vec<Vec<usize>>,
    /// How many layers there are.
    pub(super) layers: usize,
    /// How wide the drawing is.
    pub(super) width: f64,
}

/// Returns the most steps that stand in one layer.
fn most(n: usize) -> usize {
    // Squares are looked at more easily than bands.
    ((n as f64).sqrt() * 0.9).ceil().max(10.0) as usize
}

/// Returns the layer of each step; edges lead from earlier to later steps.
pub(super) fn layers(n: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let most = most(n);
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); n];
    for &(from, to) in edges {
        before[to].push(from);
    }
    let mut layer = vec![0; n];
    let mut filled = vec![0; n + 1];
    // For each layer the first one from it on that may have room.
    let mut next: Vec<usize> = (0..=n).collect();
    for at in 0..n {
        let first = before[at].iter().map(|&from| layer[from] + 1).max();
        let mut free = first.unwrap_or(0);
        while next[free] != free {
            next[free] = next[next[free]];
            free = next[free];
        }
        layer[at] = free;
        filled[free] += 1;
        if filled[free] == most && free < n {
            next[free] = free + 1;
        }
    }
    layer
}

/// Places `n` steps that are `width` wide; edges lead from earlier to later steps.
pub(super) fn place(n: usize, edges: &[(usize, usize)], width: f64) -> Layout {
    let mut layer = layers(n, edges);
    let n_layers = layer.iter().max().map_or(0, |last| last + 1);
    let ways = ways(n, edges, &mut layer);
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); layer.len()];
    let mut below = above.clone();
    let arcs: BTreeSet<(usize, usize)> = ways
        .iter()
        .flat_map(|way| way.windows(2).map(|pair| (pair[0], pair[1])))
        // What jumps over many layers pulls at nothing.
        .filter(|&(from, to)| layer[to] == layer[from] + 1)
        .collect();
    for &(from, to) in &arcs {
        below[from].push(to);
        above[to].push(from);
    }
    let mut order: Vec<Vec<usize>> = vec![Vec::new(); n_layers];
    for (at, &layer) in layer.iter().enumerate() {
        order[layer].push(at);
    }
    let wide = |at: usize| if at < n { width } else { LANE };
    arrange(&mut order, &above, &below, &wide);
    let mut x = vec![0.0; layer.len()];
    for row in &order {
        spread(row, &wide, &mut x);
    }
    for _ in 0..SWEEPS {
        pull(&order, &[&above], n, &wide, &mut x, false);
        pull(&order, &[&below], n, &wide, &mut x, true);
    }
    pull(&order, &[&above, &below], n, &wide, &mut x, false);
    let left = |at: usize, x: &[f64]| x[at] - wide(at) / 2.0;
    let first = (0..x.len())
        .map(|at| left(at, &x))
        .fold(f64::INFINITY, f64::min);
    let first = if first.is_finite() { first } else { 0.0 };
    let mut all_wide: f64 = 0.0;
    for (at, x) in x.iter_mut().enumerate() {
        *x = (*x - first).round();
        all_wide = all_wide.max(*x + wide(at) / 2.0);
    }
    let places = layer.iter().zip(x).map(|(&layer, x)| Place { layer, x });
    Layout {
        places: places.collect(),
        ways,
        layers: n_layers,
        width: all_wide.ceil(),
    }
}

/// Returns the places that each edge goes through, and adds those between the steps to `layer`.
fn ways(n: usize, edges: &[(usize, usize)], layer: &mut Vec<usize>) -> Vec<Vec<usize>> {
    let (mut n_out, mut n_in) = (vec![0u32; n], vec![0u32; n]);
    for &(from, to) in edges {
        n_out[from] += 1;
        n_in[to] += 1;
    }
    // A lane belongs to the step from which it comes, or to that to which it goes.
    let mut lanes: HashMap<(bool, usize, usize), usize> = HashMap::new();
    let ways = edges.iter().map(|&(from, to)| {
        let mut way = vec![from];
        let (first, last) = (layer[from] + 1, layer[to]);
        if last - first < MAX_SPAN {
            let is_out = n_out[from] >= n_in[to];
            let owner = if is_out { from } else { to };
            for between in first..last {
                let lane = lanes.entry((is_out, owner, between)).or_insert_with(|| {
                    layer.push(between);
                    layer.len() - 1
                });
                way.push(*lane);
            }
        }
        way.push(to);
        way
    });
    ways.collect()
}

/// Orders each layer so that few lines cross.
fn arrange(
    order: &mut Vec<Vec<usize>>,
    above: &[Vec<usize>],
    below: &[Vec<usize>],
    wide: &dyn Fn(usize) -> f64,
) {
    let mut middle = vec![0.0; above.len()];
    order.iter().for_each(|row| spread(row, wide, &mut middle));
    let mut best = (crossings(order, below), order.clone());
    for _ in 0..SWEEPS {
        if best.0 == 0 {
            break;
        }
        for row in order.iter_mut() {
            sort(row, above, wide, &mut middle);
        }
        for row in order.iter_mut().rev() {
            sort(row, below, wide, &mut middle);
        }
        let crossings = crossings(order, below);
        if crossings < best.0 {
            best = (crossings, order.clone());
        }
    }
    *order = best.1;
}

/// Gives the places of a layer positions around a common middle.
fn spread(row: &[usize], wide: &dyn Fn(usize) -> f64, middle: &mut [f64]) {
    let whole: f64 = row.iter().map(|&at| wide(at)).sum();
    let mut x = -whole / 2.0;
    for &at in row {
        middle[at] = x + wide(at) / 2.0;
        x += wide(at);
    }
}

/// Sorts a layer by the middle of what each place is joined with; one without any stays where it is.
fn sort(
    row: &mut Vec<usize>,
    joined: &[Vec<usize>],
    wide: &dyn Fn(usize) -> f64,
    middle: &mut [f64],
) {
    let keyed = row
        .iter()
        .map(|&at| (mean(&joined[at], middle).unwrap_or(middle[at]), at));
    let mut keyed: Vec<(f64, usize)> = keyed.collect();
    // The sort keeps the order of equals.
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    *row = keyed.into_iter().map(|(_, at)| at).collect();
    spread(row, wide, middle);
}

fn mean(others: &[usize], x: &[f64]) -> Option<f64> {
    let sum: f64 = others.iter().map(|&other| x[other]).sum();
    (!others.is_empty()).then(|| sum / others.len() as f64)
}

/// Counts how often lines cross.
fn crossings(order: &[Vec<usize>], below: &[Vec<usize>]) -> u64 {
    let mut position = vec![0; below.len()];
    for row in order {
        for (at, &place) in row.iter().enumerate() {
            position[place] = at;
        }
    }
    let mut all = 0;
    for (row, next) in order.iter().zip(order.iter().skip(1)) {
        // How many lines end at or left of each position so far, as a tree of sums.
        let mut sums = vec![0u64; next.len() + 1];
        let mut so_far = 0;
        for &place in row {
            let mut ends: Vec<usize> = below[place].iter().map(|&end| position[end]).collect();
            ends.sort_unstable();
            for &end in &ends {
                let (mut at, mut left) = (end + 1, 0);
                while at > 0 {
                    left += sums[at];
                    at &= at - 1;
                }
                all += so_far - left;
            }
            for &end in &ends {
                let mut at = end + 1;
                while at < sums.len() {
                    sums[at] += 1;
                    at += at & at.wrapping_neg();
                }
                so_far += 1;
            }
        }
    }
    all
}

/// Moves the places of each layer towards the middle of what they are joined with.
fn pull(
    order: &[Vec<usize>],
    joined: &[&Vec<Vec<usize>>],
    n: usize,
    wide: &dyn Fn(usize) -> f64,
    x: &mut [f64],
    upwards: bool,
) {
    let mut one = |row: &[usize]| {
        let wanted = row.iter().map(|&at| {
            // A lane follows itself, so that long ways are straight; what leaves it does not bend it.
            let lanes = |list: &[usize]| -> Vec<usize> {
                list.iter().copied().filter(|&other| other >= n).collect()
            };
            let lists: Vec<Vec<usize>> = joined.iter().map(|joined| lanes(&joined[at])).collect();
            let is_lane = at >= n && lists.iter().any(|list| !list.is_empty());
            let means: Vec<f64> = match is_lane {
                true => lists.iter().filter_map(|list| mean(list, x)).collect(),
                false => joined
                    .iter()
                    .filter_map(|joined| mean(&joined[at], x))
                    .collect(),
            };
            let weight = if is_lane { LANE_WEIGHT } else { 1.0 };
            match means.is_empty() {
                true => (x[at], 1.0),
                false => (means.iter().sum::<f64>() / means.len() as f64, weight),
            }
        });
        let wanted: Vec<(f64, f64)> = wanted.collect();
        settle(row, wide, x, &wanted);
    };
    match upwards {
        false => order.iter().for_each(|row| one(row)),
        true => order.iter().rev().for_each(|row| one(row)),
    }
}

/// Puts the places of a layer as near as possible to where each wants to be, by how much it does, in their order and none
/// over another.
fn settle(row: &[usize], wide: &dyn Fn(usize) -> f64, x: &mut [f64], wanted: &[(f64, f64)]) {
    // Stretches whose places touch: what they want, less what stands left of them, and by how much, summed up; and how
    // many they are.
    let mut stretches: Vec<(f64, f64, usize)> = Vec::with_capacity(row.len());
    let mut offsets = Vec::with_capacity(row.len());
    let mut left = 0.0;
    for (&place, &(wanted, weight)) in row.iter().zip(wanted) {
        let half = wide(place) / 2.0;
        offsets.push(left + half);
        stretches.push(((wanted - left - half) * weight, weight, 1));
        left += 2.0 * half;
        while let [.., (a, v, n), (b, w, m)] = stretches[..]
            && a * w > b * v
        {
            stretches.pop();
            if let Some(last) = stretches.last_mut() {
                *last = (a + b, v + w, n + m);
            }
        }
    }
    let mut at = 0;
    for (sum, weight, n) in stretches {
        for _ in 0..n {
            x[row[at]] = sum / weight + offsets[at];
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_chains_stand_side_by_side_and_their_lines_do_not_cross() {
        // Listed crosswise, and joined by the last.
        let edges = [(1, 2), (0, 3), (2, 4), (3, 5), (4, 6), (5, 6)];
        let layout = place(7, &edges, 100.0);
        assert_eq!(layout.layers, 4);
        let x = |at: usize| layout.places[at].x;
        assert_eq!((x(3), x(5)), (x(0), x(0)));
        assert_eq!((x(2), x(4)), (x(1), x(1)));
        assert!((x(0) - x(1)).abs() >= 100.0);
        assert_eq!(x(6), (x(4) + x(5)) / 2.0);
    }

    #[test]
    fn what_leads_over_layers_passes_beside_the_steps_between() {
        let layout = place(4, &[(0, 1), (1, 2), (2, 3), (0, 3)], 100.0);
        let way = &layout.ways[3];
        assert_eq!(way.len(), 4);
        for (at, between) in [(way[1], 1), (way[2], 2)] {
            let apart = (layout.places[at].x - layout.places[between].x).abs();
            assert!(apart >= 50.0 + LANE / 2.0, "{apart}");
        }
    }

    #[test]
    fn many_steps_side_by_side_stand_in_several_layers() {
        let edges: Vec<_> = (1..501)
            .map(|at| (0, at))
            .chain((1..501).map(|at| (at, 501)))
            .collect();
        let layout = place(502, &edges, 100.0);
        assert!(layout.width < 40.0 * 100.0, "{}", layout.width);
        // All ways from the first step share their lanes.
        assert!(layout.places.len() < 502 + 100, "{}", layout.places.len());
    }

    #[test]
    fn a_graph_of_ten_thousand_steps_is_placed() {
        let edges: Vec<_> = (0..10_000usize)
            .flat_map(|at| (1..4).filter_map(move |k| Some((at.checked_sub(k * 7 + at % 5)?, at))))
            .collect();
        let layout = place(10_000, &edges, 100.0);
        assert!(layout.places.len() >= 10_000);
    }

    proptest! {
        #[test]
        fn no_step_stands_on_another_and_all_lead_down(
            raw in proptest::collection::vec(proptest::collection::vec(0usize..60, 0..4), 0..60)
        ) {
            let n = raw.len();
            let edges: BTreeSet<_> = raw.iter().enumerate()
                .flat_map(|(to, from)| from.iter().filter(move |&&from| from < to).map(move |&from| (from, to)))
                .collect();
            let edges: Vec<_> = edges.into_iter().collect();
            let layout = place(n, &edges, 100.0);
            let places = &layout.places;
            for (way, &(from, to)) in layout.ways.iter().zip(&edges) {
                prop_assert_eq!((way[0], way[way.len() - 1]), (from, to));
                prop_assert!(way.windows(2).all(|pair| places[pair[0]].layer < places[pair[1]].layer));
            }
            for a in 0..places.len() {
                let half = |at: usize| if at < n { 50.0 } else { LANE / 2.0 };
                prop_assert!(places[a].x - half(a) >= -1.0 && places[a].x + half(a) <= layout.width + 1.0);
                for b in 0..a {
                    let apart = (places[a].x - places[b].x).abs() + 1.0;
                    prop_assert!(places[a].layer != places[b].layer || apart >= half(a) + half(b));
                }
            }
            prop_assert_eq!(place(n, &edges, 100.0), layout);
        }
    }
}
