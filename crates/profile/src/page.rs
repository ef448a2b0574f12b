//! The profile as one HTML page that needs nothing else: a flame graph with the callers above, and
//! the hottest functions as a table. Without its script the page shows the calls as a list.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

use tokamak_observe::text::for_html;

use crate::profile::{By, Clock, Profile};
use crate::table::{Share, hottest, shares};
use crate::tree::{Frame, Kind, frames, without_small};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The digest of the page's script, SHA-256 in Base64, for a `Content-Security-Policy`: a browser
/// runs no other script in the page, whatever a name contains.
pub const SCRIPT_DIGEST: &str = "1WmuOT7Cd7lngCAzyuO2qXH5QutpTGSidtc2MevwO+M=";
/// The digest of the page's style, for the policy of a page that opens this one.
pub const STYLE_DIGEST: &str = "IeEUageJy5L46Squ0J40hVIM98FiMjE5fm++9i49eQQ=";

/// The part of all samples that a frame has at least: a pixel of a large screen.
const LEAST: f64 = 1.0 / 2000.0;
/// Frames of a page. A browser draws so many in a tenth of a second, and needs seconds for ten
/// times more.
const MOST: usize = 10_000;

/// The whole page. It begins with this clock, and can be switched to the other one.
pub fn page(profile: &Profile, clock: Clock, by: &[By]) -> String {
    let sites: BTreeSet<_> = profile.samples.iter().map(|sample| &sample.site[..]).collect();
    let sites = for_html(&sites.into_iter().collect::<Vec<_>>().join(", "));
    let title = if sites.is_empty() { "PHP".into() } else { format!("PHP of {sites}") };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
        <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
        style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_DIGEST}'\">\n\
        <title>Profile: {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
        <h1>Where {title} spends its time</h1>\n<p>{}.</p>\n",
        for_html(&profile.to_string())
    );
    if profile.total(Clock::Wall) == 0 {
        page += "<p>No request was under way.</p>\n</body>\n</html>\n";
        return page;
    }
    page +=
        "<p>Each call stands below its caller, and is as wide as its part of the samples.</p>\n";
    controls(&mut page, clock);
    picture(&mut page, profile, by);
    legend(&mut page, by);
    explain(&mut page, profile);
    table(&mut page, profile, clock);
    let _ = write!(page, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

fn legend(page: &mut String, by: &[By]) {
    let groups: String = by.iter().map(|by| format!(", {}", by.name())).collect();
    let _ = writeln!(
        page,
        "<ul class=\"legend\" aria-label=\"Legend\">\n\
        <li><i class=\"code\"></i>PHP code: one colour for all code of a file</li>\n\
        <li><i class=\"own\"></i>functions of PHP itself</li>\n\
        <li><i class=\"group\"></i>no function: all{groups}, no PHP call</li>\n\
        <li><i class=\"hit\"></i>found by the search</li>\n\
        <li>Width: the part of the samples in which the call was under way. From left to right is \
        not the order of time: the call with most samples is at the left.</li>\n</ul>"
    );
}

fn explain(page: &mut String, profile: &Profile) {
    let _ = writeln!(
        page,
        "<p class=\"faint keys\">A click, or Enter, zooms to a call. Arrow keys go to the callers \
        above, the calls below and beside, Home to the first one, / to the search, and Escape to \
        the whole picture.</p>\n\
        <p class=\"faint\">A sample was taken of each worker every {:.1} ms. Wall time is all time \
        in which a request was under way, also while it waited; CPU time is that in which its \
        worker ran, or waited for a processor.</p>",
        profile.period.as_secs_f64() * 1e3
    );
}

fn controls(page: &mut String, clock: Clock) {
    page.push_str("<form hidden><fieldset><legend>Width: &nbsp;</legend>");
    for (value, one) in [("wall", Clock::Wall), ("cpu", Clock::Cpu)] {
        let checked = if one == clock { " checked" } else { "" };
        let _ = write!(
            page,
            "<label><input type=\"radio\" name=\"clock\" value=\"{value}\" \
            autocomplete=\"off\"{checked}> {}</label>",
            one.name()
        );
    }
    page.push_str(
        "</fieldset>\n<label>Search: <input type=\"search\" name=\"search\" autocomplete=\"off\" \
        spellcheck=\"false\" placeholder=\"function, file or URL\"></label>\n\
        <button type=\"button\" name=\"whole\">Whole picture</button></form>\n\
        <p id=\"said\" role=\"status\"></p>\n",
    );
}

fn picture(page: &mut String, profile: &Profile, by: &[By]) {
    let whole = frames(profile, by);
    let count = whole.len();
    let mut least = LEAST;
    let mut frames = without_small(whole, least);
    while frames.len() > MOST {
        least *= 2.0;
        frames = without_small(frames, least);
    }
    page.push_str("<div id=\"tree\" aria-label=\"Calls, each below its caller\">\n");
    for Frame { name, depth, wall, cpu } in &frames {
        let class = match name.kind {
            Kind::Group => " class=\"group\"",
            Kind::Internal => " class=\"own\"",
            Kind::Code => "",
        };
        let place = match &name.place[..] {
            "" => String::new(),
            place => format!(" data-p=\"{}\"", for_html(place)),
        };
        let label = for_html(&name.label);
        let _ = writeln!(
            page,
            "<b style=\"--d:{depth}\" data-w=\"{wall}\" data-c=\"{cpu}\"{place}{class}>{label}</b>"
        );
    }
    page.push_str("</div>\n<p id=\"detail\" aria-hidden=\"true\"></p>\n");
    if frames.len() < count {
        let _ = writeln!(
            page,
            "<p class=\"faint\">{} places with at most {:.2} % of the samples each are left \
            out.</p>",
            count - frames.len(),
            least * 100.0
        );
    }
}

fn table(page: &mut String, profile: &Profile, clock: Clock) {
    let [wall, cpu] = [Clock::Wall, Clock::Cpu].map(|clock| shares(profile, clock));
    let [all_wall, all_cpu] = [Clock::Wall, Clock::Cpu].map(|clock| profile.total(clock).max(1));
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole as f64;
    page.push_str(
        "<h2>Hottest functions</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" \
        aria-label=\"Hottest functions\"><table>\n\
        <caption>In percent; own: in the function itself, all: also in what it calls</caption>\n\
        <thead><tr>",
    );
    let sorted = match clock {
        Clock::Wall => "wall, own",
        Clock::Cpu => "CPU, own",
    };
    for head in ["wall, own", "wall, all", "CPU, own", "CPU, all", "function"] {
        let order = if head == sorted { " aria-sort=\"descending\"" } else { "" };
        let _ = write!(page, "<th scope=\"col\"{order}>{head}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    let shown = match clock {
        Clock::Wall => &wall,
        Clock::Cpu => &cpu,
    };
    // The hottest by any column, so that each order begins with its true first rows.
    let rows: BTreeSet<&str> = [&wall, &cpu]
        .into_iter()
        .flat_map(|of| [hottest(of, |share| share.own), hottest(of, |share| share.all)])
        .flatten()
        .collect();
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|name| Reverse(shown.get(*name).map(|share| (share.own, share.all))));
    for name in rows {
        let [on_wall, on_cpu]: [Share; 2] =
            [&wall, &cpu].map(|of| of.get(name).copied().unwrap_or_default());
        let _ = writeln!(
            page,
            "<tr><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{}</td></tr>",
            percent(on_wall.own, all_wall),
            percent(on_wall.all, all_wall),
            percent(on_cpu.own, all_cpu),
            percent(on_cpu.all, all_cpu),
            for_html(name)
        );
    }
    page.push_str("</tbody>\n</table></div>\n");
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::read::{read, tests::TEXT};

    #[test]
    fn the_digests_are_those_of_script_and_style() {
        let digest = |text| BASE64_STANDARD.encode(Sha256::digest(text));
        assert_eq!((SCRIPT_DIGEST, STYLE_DIGEST), (&*digest(SCRIPT), &*digest(STYLE)));
    }

    #[test]
    fn a_page_needs_nothing_else() {
        let page = page(&read("default", TEXT).unwrap(), Clock::Wall, &[]);
        for absent in ["http://", "https://", "src=\"", "href", "@import", "url(", "NaN", "inf"] {
            assert!(!page.contains(absent), "{absent} in {page}");
        }
        for present in [
            "<b style=\"--d:2\" data-w=\"8\" data-c=\"8\" data-p=\"/srv/app.php:7\">App::hot</b>",
            "<td>72.7</td><td>72.7</td><td>88.9</td><td>88.9</td><td>App::hot</td>",
            "every 10.0 ms",
        ] {
            assert!(page.contains(present), "{present} not in {page}");
        }
    }

    #[test]
    fn no_name_is_a_tag() {
        let text = TEXT.replace("App::hot", "</b><script>\"&").replace("/a\n", "/\"><img>\n");
        let text = text.replace("/srv/app.php", "/\" onclick=\"x");
        let site = "<i>";
        let page = page(&read(site, &text).unwrap(), Clock::Wall, &[By::Url]);
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        for absent in ["<img", "\" onclick", "<i>"] {
            assert!(!page.contains(absent), "{absent} in {page}");
        }
        assert!(page.contains(">&lt;/b&gt;&lt;script&gt;&quot;&amp;</b>"), "{page}");
    }

    #[test]
    fn a_page_has_a_bounded_number_of_frames() {
        let calls: String = (0..30_000).map(|n| format!("call\tf{n}\t/a.php\t1\n")).collect();
        let stacks: String = (0..30_000).map(|n| format!("stack\t7\t0\t1\t1\t{n} \n")).collect();
        let text = format!("period\t1\nurl\t/\n{calls}{stacks}end\t1\t0\t0\t0\n");
        let page = page(&read("default", &text).unwrap(), Clock::Wall, &[]);
        assert_eq!(page.matches("<b style").count(), 1);
        assert!(page.contains("30000 places with at most 0.05 % of"), "no note");
    }

    #[test]
    fn nothing_under_way_is_said() {
        let page = page(&Profile::default(), Clock::Cpu, &[]);
        assert!(page.contains("No request was under way") && !page.contains("<script"), "{page}");
    }
}
