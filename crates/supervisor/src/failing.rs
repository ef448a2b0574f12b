//! A worker that fails while its neighbours do not: what it keeps from request to request is
//! broken, and since errors are quick it draws the requests of the others.

use std::time::Duration;

/// Time between two replacements in a pool. Where a page always fails, a worker that serves nothing
/// else would be replaced again and again; with a tenth, a pool would do little but boot.
pub const EVERY: Duration = Duration::from_secs(1);
/// Errors in a row that are no accident. With a tenth, a page that fails would cost a worker each
/// time somebody looks at it twice; with ten times more, so many visitors would be hurt first.
const MANY: u32 = 20;
/// Errors in a row of a worker that is well.
const FEW: u32 = 2;

/// Which of these workers is to be replaced, with its errors in a row: the one with the most, if
/// there are many, and most of the others have few. Each is given with its last errors in a row.
pub fn outlier(workers: &[(u16, u32)]) -> Option<(u16, u32)> {
    let worst = *workers.iter().max_by_key(|(_, errors)| *errors)?;
    let others = workers.len() - 1;
    let well = workers.iter().filter(|(_, errors)| *errors <= FEW).count();
    (worst.1 >= MANY && well > 0 && well * 2 >= others).then_some(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (errors, found) in [
            (vec![], None),
            (vec![50], None),
            (vec![19, 0, 0], None),
            (vec![0, 20, 0], Some((1, 20))),
            (vec![3, 20, 0], Some((1, 20))),
            (vec![30, 20, 10, 0], None),
            (vec![30, 25, 0, 1], Some((0, 30))),
            (vec![30, 30, 30], None),
        ] {
            let workers: Vec<_> = (0..).zip(errors.iter().copied()).collect();
            assert_eq!(outlier(&workers), found, "{errors:?}");
        }
    }
}
