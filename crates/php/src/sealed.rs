//! Sealed mode in the zygote: the application boots here, and workers are forked in the middle of
//! its boot.
//!
//! C calls [`rust_fork_workers`] when the image is taken. From there the zygote never returns. A
//! worker does, with its place, and C then rolls its memory back to before the call: no jump
//! crosses a Rust frame.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::process::ExitCode;

use tokamak_sys::control::{EXIT_BOOT_FAILED, EXIT_MISMATCH, Signal};
use tokamak_sys::queue::record::{Field, Writer};

use crate::engine::{self, ScriptEnd};
use crate::ffi;
use crate::log::{self, Level};
use crate::settings::Settings;
use crate::worker;
use crate::zygote::{Newborn, Zygote, end, page_map};

thread_local! {
    static ZYGOTE: RefCell<Option<Zygote>> = const { RefCell::new(None) };
}

/// Boots the application and serves until the supervisor says otherwise.
pub fn run(mut zygote: Zygote) -> ExitCode {
    // The report asks one worker only, and wants to know of the image.
    if zygote.settings.report.is_none()
        && let Err(why) = zygote.keep_spare()
    {
        let message = format!("while an image is outdated, it is served all the same: {why}");
        log::line(Level::Warn, &zygote.settings.site, message.as_bytes(), &[]);
    }
    let line = zygote.spare_line();
    let (segment, consumer) = zygote.consumer();
    let hub = zygote.take_hub();
    let settings = zygote.settings.clone();
    let script =
        match settings.boot.as_deref().or(settings.script.as_deref()).map(CString::new).transpose()
        {
            Ok(script) => script,
            Err(_) => return zygote.fail("the script's path contains a NUL".to_owned()),
        };
    worker::init(&settings, segment, consumer, hub);
    worker::warm_up_with(settings.warm.iter().map(|target| record(&settings, target)).collect());
    ZYGOTE.set(Some(zygote));
    let ended = engine::run_sealed(
        script.as_deref(),
        settings.boot.is_some(),
        Signal::Backtrace(None).number(),
        page_map(),
        line,
    );
    let why = match (&settings.script, ended) {
        (Some(script), ScriptEnd::NeverLooped) => {
            format!(
                "worker script {script} ended before its first tokamak_handle_request(); its \
                    reasons are in the error log"
            )
        }
        _ => "the boot script failed; its reasons are in the error log".to_owned(),
    };
    ZYGOTE.with_borrow(|zygote| {
        zygote.as_ref().map_or(ExitCode::from(EXIT_BOOT_FAILED), |zygote| zygote.fail(why))
    })
}

/// A request for `target`, as a browser on this machine would send it; for a whole address, as a
/// proxy in front of this server.
fn record(settings: &Settings, target: &str) -> Vec<u8> {
    // The site's name is its first host name, if it has one.
    let has_host = settings.site.contains('.') && !settings.site.contains('*');
    let own_host = if has_host { &settings.site } else { "localhost" };
    let (scheme, host, target) = split(target).unwrap_or(("", own_host, target));
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, "80"),
    };
    let (_, query) = target.split_once('?').unwrap_or((target, ""));
    let script = format!("{}/index.php", settings.root);
    let mut writer = Writer::new();
    for field in Field::ALL {
        let value = match field {
            Field::Method => "GET",
            Field::Uri => target,
            Field::Query => query,
            Field::ScriptFilename => &script,
            Field::ScriptName | Field::DocumentUri => "/index.php",
            Field::DocumentRoot => &settings.root,
            Field::ServerName => name,
            Field::ServerAddr | Field::RemoteAddr => "127.0.0.1",
            Field::ServerPort => port,
            Field::RemotePort => "1",
            Field::Protocol => "HTTP/1.1",
            Field::Scheme => "http",
            _ => "",
        };
        writer.field(*field, value.as_bytes());
    }
    writer.header(b"Host", host.as_bytes());
    if !scheme.is_empty() {
        writer.header(b"X-Forwarded-Proto", scheme.as_bytes());
    }
    writer.bytes().to_vec()
}

/// Scheme, host and target of a whole address.
fn split(address: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) =
        address.split_once("://").filter(|(scheme, _)| !scheme.starts_with('/'))?;
    let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((scheme, host, if target.is_empty() { "/" } else { target }))
}

/// The supervisor starts the site anew, in another mode.
///
/// # Safety
/// `reason` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_refuse_image(reason: *const c_char) -> ! {
    let zygote = ZYGOTE.take().expect("sealed::run left it there");
    // SAFETY: the caller's promise.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    zygote.refuse_image(reason);
    // What the boot has opened or started may never end in an orderly way.
    end(0)
}

#[unsafe(no_mangle)]
extern "C" fn rust_fork_workers() -> ffi::WorkerId {
    let mut zygote = ZYGOTE.take().expect("sealed::run left it there");
    let Newborn { index, instance, page_map } = match zygote.fork_workers() {
        Ok(Some(newborn)) => newborn,
        Ok(None) => std::process::exit(0),
        Err(why) => {
            zygote.end_by(&why);
            std::process::exit(1)
        }
    };
    worker::take_entry(index, instance, true);
    // It was closed in this process; its value must not close what has the number by now.
    std::mem::forget(zygote);
    ffi::WorkerId { index: index.into(), instance, page_map }
}

/// # Safety
/// `reason` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_fail(reason: *const c_char) -> ! {
    // SAFETY: the caller's promise.
    let reason = unsafe { CStr::from_ptr(reason) };
    worker::say(Level::Error, reason.to_bytes());
    end(EXIT_MISMATCH)
}
