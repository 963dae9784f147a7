//! What the measurements of the programs print.

/// One figure of a run, and how it is printed.
pub struct PrintedFigure<T> {
    pub name: &'static str,
    pub decimals: usize,
    pub of: fn(&T) -> f64,
}

/// Prints the medians of both versions, and how ours compares with the other one round by round:
/// the median, the least and the greatest of the ratios. `ours` and `theirs` have a run of each
/// round.
pub fn print_beside<T>(figures: &[PrintedFigure<T>], ours: &[T], theirs: &[T]) {
    println!(
        "{:<22} {:>12} {:>12}   of tokio's",
        "medians", "busyhour", "tokio"
    );
    for figure in figures {
        let (ours, theirs) = (figure.values(ours), figure.values(theirs));
        let decimals = figure.decimals;
        println!(
            "{:<22} {:>12.decimals$} {:>12.decimals$}   {}",
            figure.name,
            median(&ours),
            median(&theirs),
            ratio(&ours, &theirs)
        );
    }
}

impl<T> PrintedFigure<T> {
    fn values(&self, runs: &[T]) -> Vec<f64> {
        runs.iter().map(self.of).collect()
    }
}

/// Nothing if the other version has a figure of zero.
fn ratio(ours: &[f64], theirs: &[f64]) -> String {
    if theirs.contains(&0.0) {
        return String::new();
    }
    let rounds = ours.iter().zip(theirs);
    let ratios: Vec<f64> = rounds.map(|(ours, theirs)| ours / theirs).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = ratios.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({least:.2} to {greatest:.2})", median(&ratios))
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_rounds_and_not_of_the_medians() {
        let (ours, theirs) = ([1.0, 4.0, 9.0], [1.0, 2.0, 3.0]);
        assert_eq!(ratio(&ours, &theirs), "2.00 (1.00 to 3.00)");
        assert_eq!(ratio(&ours, &[1.0, 0.0, 3.0]), "");
        assert_eq!((median(&ours), median(&[3.0])), (4.0, 3.0));
    }
}
