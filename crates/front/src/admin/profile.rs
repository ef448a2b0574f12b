//! `/profile`: a profile of PHP workers for a client of the admin listener. The supervisor has a
//! process of each site take one, which reads the workers and writes what it saw to a socket. Here
//! it is only read and put into a form: this process could not read a worker's memory.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use tokamak_profile::{Clock, Taken, folded, gather, page, pprof, read};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::questions::{NoAnswer, Questions};
use super::route::{ProfileFormat, ProfileOrder};
use super::{Reply, text, unanswered, with};

/// Samples a second, as of `tokamak profile`.
const RATE: u32 = 99;
/// For the answer of the supervisor, and for writing the profile at the end: as long as the process
/// that writes it waits for its reader.
const BESIDES: Duration = Duration::from_secs(30);
/// Bytes of a profile, of all its sites together. A minute of a large application has a tenth of
/// it; ten times more could be more memory than the machine has to spare.
const MOST: usize = 64 << 20;
/// Says in a line how good the profile is, and which sites gave none.
const QUALITY: HeaderName = HeaderName::from_static("tokamak-profile");

/// The profiles that clients of this listener take: one at a time.
pub struct Profiles {
    room: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

/// Why there is no profile.
enum Refusal {
    /// There is no site of this name.
    Site(String),
    /// The supervisor has not answered a question.
    Silent(NoAnswer),
    /// All others, for people.
    Failed(String),
}

impl Profiles {
    /// Profiles that end when the listener stops.
    pub fn new(stopped: watch::Receiver<bool>) -> Profiles {
        Profiles { room: Arc::new(Semaphore::new(1)), stopped }
    }

    /// Takes a profile. If the caller drops this, as when its client goes away, the profile ends.
    pub async fn answer(
        &self,
        questions: &Questions,
        order: ProfileOrder,
    ) -> Response<Full<Bytes>> {
        let Ok(place) = self.room.clone().try_acquire_owned() else {
            let what = "a profile is being taken already: one at a time; try again\n";
            return with(text(StatusCode::CONFLICT, what), RETRY_AFTER, "1");
        };
        let mut stopped = self.stopped.clone();
        let format = order.format;
        let taken = tokio::select! {
            taken = take(questions, order, place) => taken,
            // It would hold up the end of this process.
            _ = stopped.wait_for(|stopped| *stopped) => {
                Err(Refusal::Failed("the server reloads or stops; try again".into()))
            }
        };
        match taken {
            Ok((bytes, quality)) => shown(format, bytes, &quality),
            Err(Refusal::Silent(why)) => unanswered(why),
            Err(Refusal::Site(why)) => text(StatusCode::BAD_REQUEST, format!("{why}\n")),
            Err(Refusal::Failed(why)) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        }
    }
}

/// The profile in its form, and a line about it. `place` is that of this profile.
async fn take(
    questions: &Questions,
    order: ProfileOrder,
    place: OwnedSemaphorePermit,
) -> Result<(Vec<u8>, String), Refusal> {
    let sites = sites(questions, order.site.as_deref()).await?;
    let limit = Duration::from_secs(order.seconds.into()) + BESIDES;
    let read_so_far = Arc::new(AtomicUsize::new(0));
    let mut parts = JoinSet::new();
    for site in sites {
        let ProfileOrder { seconds, prefix, .. } = &order;
        let command = format!("profile\t{site}\t{RATE}\t{}\t{prefix}", seconds * 1000);
        let reply = questions.reply(command).await.map_err(Refusal::Silent)?;
        let read_so_far = read_so_far.clone();
        parts.spawn(async move {
            let part = match reply {
                Reply::Text(answer) => Ok(answer),
                Reply::Stream(stream) => match timeout(limit, all(stream, &read_so_far)).await {
                    Ok(read) => read.map_err(|error| error.to_string()),
                    Err(_) => Err("the process that takes it does not answer".into()),
                },
            };
            (site, part)
        });
    }
    let mut parts = parts.join_all().await;
    // In whatever order they came.
    parts.sort_unstable();
    // It may be large, and others ask meanwhile. This goes on if the client leaves, and keeps its
    // place, so that few are in memory at the same time.
    let shaped = tokio::task::spawn_blocking(move || {
        let _place = place;
        shape(parts, order.format)
    });
    let shaped = shaped.await;
    shaped
        .unwrap_or_else(|_| Err("the profile could not be put into its form".into()))
        .map_err(Refusal::Failed)
}

/// The sites with PHP workers that are meant.
async fn sites(questions: &Questions, wanted: Option<&str>) -> Result<Vec<String>, Refusal> {
    let status = questions.command("status json".into()).await.map_err(Refusal::Silent)?;
    let report: Value =
        serde_json::from_str(status.strip_prefix("ok\n").unwrap_or(&status)).unwrap_or_default();
    let pools = report["pools"].as_array().into_iter().flatten();
    let mut sites: Vec<String> =
        pools.filter_map(|pool| Some(pool["site"].as_str()?.to_owned())).collect();
    if let Some(wanted) = wanted {
        if !sites.iter().any(|site| site == wanted) {
            let known = sites.join(", ");
            return Err(Refusal::Site(format!(
                "no site {wanted} has PHP workers; those are: {known}"
            )));
        }
        sites.retain(|site| site == wanted);
    }
    if sites.is_empty() {
        Err(Refusal::Failed("no site has PHP workers".into()))
    } else {
        Ok(sites)
    }
}

/// What another process writes, until it closes the socket.
async fn all(stream: OwnedFd, read_so_far: &AtomicUsize) -> io::Result<String> {
    let stream = UnixStream::from(stream);
    stream.set_nonblocking(true)?;
    let mut stream = tokio::net::UnixStream::from_std(stream)?;
    let mut answer = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
        if read_so_far.fetch_add(count, Ordering::Relaxed) + count > MOST {
            let most = MOST >> 20;
            return Err(io::Error::other(format!(
                "it is larger than {most} MiB; take a shorter one"
            )));
        }
        answer.extend_from_slice(&piece[..count]);
    }
}

/// The answers of all sites as one profile.
fn shape(
    parts: Vec<(String, Result<String, String>)>,
    format: ProfileFormat,
) -> Result<(Vec<u8>, String), String> {
    let parts = parts.into_iter().map(|(site, part)| {
        let part = part.and_then(|answer| match answer.split_once(['\n', ' ']) {
            Some(("ok", text)) => read(&site, text),
            Some(("error", why)) => Err(why.trim_end().to_owned()),
            _ => Err("no answer; the error log says why".into()),
        });
        (site, part)
    });
    let Taken { profile, refusals } = gather(parts)?;
    let bytes = match format {
        ProfileFormat::Html => page(&profile, Clock::Wall, &[]).into_bytes(),
        ProfileFormat::Folded => folded(&profile, Clock::Wall, &[]).into_bytes(),
        ProfileFormat::Pprof => pprof(&profile, Clock::Wall),
    };
    let quality = [profile.to_string()].into_iter().chain(refusals).collect::<Vec<_>>();
    Ok((bytes, quality.join("; ")))
}

fn shown(format: ProfileFormat, bytes: Vec<u8>, quality: &str) -> Response<Full<Bytes>> {
    let (media_type, disposition) = match format {
        ProfileFormat::Html => ("text/html; charset=utf-8", "inline; filename=\"profile.html\""),
        ProfileFormat::Folded => {
            ("text/plain; charset=utf-8", "inline; filename=\"profile.folded\"")
        }
        ProfileFormat::Pprof => {
            ("application/octet-stream", "attachment; filename=\"profile.pb.gz\"")
        }
    };
    let response = with(text(StatusCode::OK, bytes), CONTENT_TYPE, media_type);
    let response = with(response, CONTENT_DISPOSITION, disposition);
    // The page has names of strangers in it: should one of them ever run as a script, it finds
    // nothing of this listener's.
    let response = with(response, CONTENT_SECURITY_POLICY, "sandbox allow-scripts");
    let mut response = with(response, X_CONTENT_TYPE_OPTIONS, "nosniff");
    let is_plain = |character: char| character.is_ascii_graphic() || character == ' ';
    let quality = quality.replace(|character| !is_plain(character), "?");
    if let Ok(quality) = HeaderValue::from_str(&quality) {
        response.headers_mut().insert(QUALITY, quality);
    }
    response
}
