use super::*;

/// A listing with one global, an array with these elements, below a root of this kind.
fn listing(kind: &str, own: u64, elements: &[(&str, u64, &str)]) -> Listing {
    let mut text =
        format!("-1\t0\t0\t0\t-\tr\t{kind}\n0\t{own}\t{:x}\t0\t-\tv\tlist\n", elements.len());
    for (name, size, content) in elements {
        let digest = content.bytes().fold(7_u64, |sum, byte| sum * 31 + u64::from(byte));
        let foreign = if content.contains("token") { 't' } else { '-' };
        text += &format!("1\t{size}\t{digest:x}\t0\t{foreign}\tk\t{name}\n");
    }
    Listing::read(text.as_bytes()).unwrap()
}

fn found(findings: &[Finding]) -> Vec<(Verdict, &str, u64, f64)> {
    findings.iter().map(|f| (f.verdict, &f.path[..], f.size, f.per_request)).collect()
}

#[test]
fn an_application_that_leaves_nothing_is_not_accused() {
    let same = || listing("globals", 10, &[("a", 5, "x")]);
    let rounds: Vec<_> = (0..20).map(|_| same()).collect();
    assert_eq!(leaks(&same(), &rounds, 1), []);
    assert_eq!(differences(&rounds), []);
}

#[test]
fn a_table_that_takes_an_entry_a_request_is_named_and_not_its_entries() {
    let names: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let round = |n: usize| {
        let all: Vec<_> = names[..n].iter().map(|name| (&name[..], 100, "x")).collect();
        listing("globals", 56 + 32 * n as u64, &all)
    };
    let rounds: Vec<_> = (3..20).map(|n| round(2 * n)).collect();
    let findings = leaks(&round(0), &rounds, 2);
    assert_eq!(found(&findings), [(Verdict::Grows, "$list", 56 + 38 * 132, 132.0)]);
    assert_eq!(findings[0].example.as_deref(), Some("$list['37']"));
}

#[test]
fn an_entry_that_grows_is_named_and_not_its_table() {
    let rounds: Vec<_> = (0..20)
        .map(|n| listing("globals", 56, &[("log", 1000 + 24 * n, "x"), ("b", 1, "")]))
        .collect();
    assert_eq!(
        found(&leaks(&rounds[0], &rounds, 1)),
        [(Verdict::Grows, "$list['log']", 1456, 24.0)]
    );
}

#[test]
fn what_changes_without_growing_carries_over_and_a_token_in_it_is_foreign() {
    let with = |prefix: &str| -> Vec<Listing> {
        (0..20).map(|n| listing("globals", 56, &[("user", 40, &format!("{prefix}{n}"))])).collect()
    };
    let names = with("name");
    assert_eq!(
        found(&leaks(&names[0], &names, 1)),
        [(Verdict::CarriesOver, "$list['user']", 40, 0.0)]
    );
    let tokens = with("token");
    assert_eq!(
        found(&leaks(&names[0], &tokens, 1)),
        [(Verdict::Foreign, "$list['user']", 40, 0.0)]
    );
}

#[test]
fn the_first_visitor_s_token_is_foreign_though_it_never_changes() {
    let rounds: Vec<_> =
        (0..20).map(|_| listing("globals", 56, &[("user", 40, "token1")])).collect();
    assert_eq!(
        found(&leaks(&rounds[0], &rounds, 1)),
        [(Verdict::Foreign, "$list['user']", 40, 0.0)]
    );
}

#[test]
fn what_was_filled_before_the_rounds_is_a_cache_and_a_setting_stays() {
    let after: Vec<_> = (0..20).map(|_| listing("globals", 88, &[("a", 5, "x")])).collect();
    let findings = leaks(&listing("globals", 56, &[]), &after, 1);
    assert_eq!(found(&findings), [(Verdict::FillsOnce, "$list", 93, 0.0)]);
    let after: Vec<_> = (0..20).map(|_| listing("settings", 88, &[("a", 5, "x")])).collect();
    let findings = leaks(&listing("settings", 56, &[]), &after, 1);
    assert_eq!(found(&findings), [(Verdict::Stays, "$list", 93, 0.0)]);
    assert_eq!(findings[0].reset, Some("ini"));
}

#[test]
fn one_step_in_ten_may_be_flat_and_a_cache_that_is_full_is_no_leak() {
    let of = |sizes: &[u64]| -> Vec<Listing> {
        sizes.iter().map(|size| listing("globals", *size, &[])).collect()
    };
    let mut sizes: Vec<u64> = (0..21).collect();
    (sizes[5], sizes[12]) = (sizes[4], sizes[11]);
    assert_eq!(leaks(&of(&sizes)[0], &of(&sizes), 1)[0].verdict, Verdict::Grows);
    let full: Vec<u64> = (0..21).map(|n| n.min(8)).collect();
    assert!(leaks(&of(&full)[8], &of(&full), 1).iter().all(|f| f.verdict != Verdict::Grows));
}

#[test]
fn in_sealed_mode_one_difference_is_enough() {
    let mut rounds: Vec<_> = (0..20).map(|_| listing("globals", 56, &[("a", 5, "x")])).collect();
    rounds[10] = listing("globals", 56, &[("a", 5, "y")]);
    assert_eq!(found(&differences(&rounds)), [(Verdict::Differs, "$list['a']", 5, 0.0)]);
}

#[test]
fn an_object_that_is_another_one_each_round_is_named_as_a_whole() {
    let with = |n: usize| {
        let text = format!(
            "-1\t0\t0\t0\t-\tr\tglobals\n0\t80\t1\t{}\t-\tv\trequest\n\
             1\t40\t{n:x}\t0\tt\to\turi\n1\t40\t{n:x}\t0\t-\to\ttime\n",
            5 + n % 2
        );
        Listing::read(text.as_bytes()).unwrap()
    };
    let rounds: Vec<_> = (0..20).map(with).collect();
    assert_eq!(found(&leaks(&rounds[0], &rounds, 1)), [(Verdict::Foreign, "$request", 160, 0.0)]);
}

#[test]
fn a_log_with_the_names_of_all_visitors_is_named_once() {
    let names: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let round = |n: usize| {
        let all: Vec<_> = names[..n].iter().map(|name| (&name[..], 100, "token")).collect();
        listing("globals", 56, &all)
    };
    let rounds: Vec<_> = (3..23).map(round).collect();
    assert_eq!(found(&leaks(&round(0), &rounds, 1)), [(Verdict::Foreign, "$list", 2256, 100.0)]);
}

#[test]
fn values_that_differ_between_boots_are_frozen_and_a_boot_without_warm_up_shows_the_cause() {
    let plain = ["p", "q"].map(|id| listing("globals", 56, &[("token", 1, "null"), ("id", 5, id)]));
    let warmed = ["p", "q"].map(|id| {
        listing(
            "globals",
            56,
            &[("token", 20, id), ("id", 5, id), ("cache", 9, "same"), ("REQUEST_TIME", 8, id)],
        )
    });
    let boots = Plain { boots: [&plain[0], &plain[1]], played: &warmed[1] };
    let findings = frozen(&boots, [&warmed[0], &warmed[1]]);
    let expected = [
        (Verdict::FrozenByWarmUp, "$list['token']", 20, 0.0),
        (Verdict::FrozenAtBoot, "$list['id']", 5, 0.0),
    ];
    assert_eq!(found(&findings), expected);
    assert_eq!(frozen(&boots, [&warmed[0], &warmed[0]]), []);
    // Two boots drew the same by chance: what the requests leave alone is the boot's all the same.
    let alike = Plain { boots: [&plain[1], &plain[1]], played: &warmed[1] };
    assert_eq!(found(&frozen(&alike, [&warmed[0], &warmed[1]])), expected);
}

#[test]
fn what_a_boot_draws_and_each_request_draws_anew_is_the_boots() {
    let [a, b, c] = ["p", "q", "r"].map(|id| listing("globals", 56, &[("started", 8, id)]));
    let findings = frozen(&Plain { boots: [&a, &b], played: &c }, [&b, &c]);
    assert_eq!(found(&findings), [(Verdict::FrozenAtBoot, "$list['started']", 8, 0.0)]);
}
