//! Follows what other nodes do: shows their challenges, and says which certificates they have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use crate::board::Board;
use crate::error::Error;
use crate::line::SupervisorLink;
use crate::shared::{NodeUpdates, Shared};

/// Pause between two looks. With a tenth, many nodes would ask Redis all the time; with ten times
/// more, each order would take that much longer, until all nodes show its challenge.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Other nodes have another certificate for a name, which ends then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The name.
    pub name: String,
    /// Seconds since 1970.
    pub ends: u64,
}

/// What was seen at the last look.
#[derive(Default)]
struct LastLook {
    /// As [`NodeUpdates::number`].
    number: Option<Vec<u8>>,
    versions: BTreeMap<String, u64>,
    /// The challenges that this node was said to show, by nodes and numbers.
    confirmed: BTreeSet<(String, u64)>,
}

/// Follows the other nodes. Never ends.
pub async fn follow(
    shared: &Shared,
    board: &Board<'_>,
    line: &SupervisorLink,
    arrived: &Sender<Arrived>,
) {
    // Apart, since fronts may be slow to show challenges: the others would take this node for gone.
    let beats = async {
        loop {
            // `follow` meets the same failure, and logs it.
            let _ = shared.beat().await;
            sleep(LOOK_EVERY).await;
        }
    };
    tokio::join!(beats, look_again(shared, board, line, arrived));
}

async fn look_again(
    shared: &Shared,
    board: &Board<'_>,
    line: &SupervisorLink,
    arrived: &Sender<Arrived>,
) {
    let mut seen = LastLook::default();
    let mut is_down = false;
    loop {
        match look(shared, &mut seen, board, arrived).await {
            Ok(()) if is_down => {
                is_down = false;
                line.note(false, "certificates are shared with other nodes again".into()).await;
            }
            Ok(()) => {}
            Err(error) if !is_down => {
                is_down = true;
                // When it is back, it may have been emptied.
                seen.number = None;
                let advice = "none is ordered until they are; those in use stay in use";
                let text = format!("certificates are not shared: {error}; {advice}");
                line.note(true, text).await;
            }
            Err(_) => {}
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn look(
    shared: &Shared,
    seen: &mut LastLook,
    board: &Board<'_>,
    arrived: &Sender<Arrived>,
) -> Result<(), Error> {
    let Some(NodeUpdates { number, versions, challenges }) =
        shared.news(seen.number.as_deref()).await?
    else {
        return Ok(());
    };
    let numbers: BTreeSet<(String, u64)> =
        challenges.iter().map(|shown| (shown.node.clone(), shown.number)).collect();
    let others = challenges.into_iter().flat_map(|shown| shown.challenges).collect();
    board.show_others(others).await?;
    for (node, number) in numbers.difference(&seen.confirmed) {
        shared.confirm(node, *number).await?;
    }
    for (name, ends) in &versions {
        if seen.versions.get(name) != Some(ends) {
            // Before an order, the certificate is looked for again: what has no room is not lost.
            let _ = arrived.try_send(Arrived { name: name.clone(), ends: *ends });
        }
    }
    *seen = LastLook { number: Some(number), versions, confirmed: numbers };
    Ok(())
}
