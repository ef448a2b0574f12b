use super::*;

/// Decisions with a fifth of a second between them.
struct Shift {
    policy: ScalingPolicy,
    now: u64,
    requests: u64,
    used: u64,
}

/// What the kernel says at one decision.
struct Said {
    spare: Option<f64>,
    used: u64,
}

impl Kernel for Said {
    fn spare(&mut self) -> Option<f64> {
        self.spare
    }

    fn used(&mut self) -> u64 {
        self.used
    }
}

impl Shift {
    fn of(loops: usize) -> Shift {
        Shift { policy: ScalingPolicy::new(loops), now: 0, requests: 0, used: 0 }
    }

    fn decide(&mut self, change: impl FnOnce(&mut Facts), spare: Option<f64>) -> usize {
        self.now += 200_000_000;
        let Shift { now, requests, used, .. } = *self;
        let mut facts = Facts { now, demand: 0.1, requests, clients: 64, is_held_up: false };
        change(&mut facts);
        let duty = self.policy.decide(facts, &mut Said { spare, used });
        let is_wary = self.now < self.policy.wary_until;
        assert_eq!(duty.listening, if is_wary { duty.serving } else { duty.serving.min(4) });
        duty.serving
    }

    fn then(&mut self, demand: f64, spare: Option<f64>) -> usize {
        self.decide(|facts| facts.demand = demand, spare)
    }

    /// A tick in which the loops that serve have done this.
    fn work(&mut self, of: impl Fn(usize) -> Load) -> usize {
        let load = of(self.policy.serving);
        self.requests += (load.rate / 5.0) as u64;
        self.used += (load.rate / 5.0 * load.cost * 1e3) as u64;
        let change = |facts: &mut Facts| {
            (facts.demand, facts.clients) = (load.demand, load.clients);
        };
        self.decide(change, Some(load.spare))
    }

    /// How many serve after so many seconds of such work, and how many requests in a second were
    /// served on the average.
    fn seconds(&mut self, seconds: usize, of: impl Fn(usize) -> Load) -> (usize, f64) {
        self.course(seconds, |_, serving| of(serving))
    }

    /// The same of work that changes: it is given the seconds that have passed.
    fn course(&mut self, seconds: usize, of: impl Fn(f64, usize) -> Load) -> (usize, f64) {
        let (before, began) = (self.requests, self.now);
        let mut serving = self.policy.serving;
        for _ in 0..seconds * 5 {
            let passed = (self.now - began) as f64 / 1e9;
            serving = self.work(|serving| of(passed, serving));
        }
        (serving, (self.requests - before) as f64 / seconds as f64)
    }
}

/// What a number of loops does.
#[derive(Clone, Copy)]
struct Load {
    rate: f64,
    /// Microseconds of processor time for each request.
    cost: f64,
    demand: f64,
    spare: f64,
    clients: usize,
}

fn load(rate: f64, cost: f64, demand: f64, spare: f64) -> Load {
    Load { rate, cost, demand, spare, clients: 64 }
}

/// Loops that have enough to do, and processors for all of them.
fn plenty(serving: usize) -> Load {
    let serving = serving as f64;
    load(10_000.0 * serving, 60.0, serving, 8.0)
}

/// Two processors, which a second loop has to share with the workers and the clients.
fn crowded(serving: usize) -> Load {
    match serving {
        1 => load(65_000.0, 16.5, 0.85, 0.35),
        _ => load(45_000.0, 26.9, 1.4, 0.1),
    }
}

/// So many processors for loops and workers alone, and so many requests in a second, if they can be
/// served: otherwise ever more clients wait.
fn offered(offer: f64, processors: f64) -> impl Fn(usize) -> Load {
    move |serving| {
        let (of_loop, of_worker) = (10.0, 5.0);
        let cost = of_loop + of_worker;
        let most = (serving as f64 / of_loop).min(processors / cost) * 1e6;
        let rate = offer.min(most);
        let demand = rate * of_loop / 1e6;
        let waiting = (offer - rate) / 20.0;
        let clients = 64 + waiting as usize;
        Load {
            clients: clients.min(255),
            ..load(rate, cost, demand, processors - rate * cost / 1e6)
        }
    }
}

#[test]
fn more_serve_only_if_there_are_processors_for_them() {
    let mut shift = Shift::of(8);
    let busy = |spare| move |serving| Load { spare, ..plenty(serving) };
    assert_eq!(shift.seconds(9, |_| Load { demand: 0.5, ..plenty(1) }).0, 1, "it has time left");
    assert_eq!(shift.seconds(9, busy(0.1)).0, 1, "and now there is nothing to be had");
    assert_eq!((0..5).map(|_| shift.work(plenty)).last(), Some(1));
    assert_eq!(shift.seconds(1, busy(0.1)).0, 1, "that was too short");
    let counts: Vec<_> = (0..27).map(|_| shift.work(plenty)).collect();
    let [one, two, four] = [1, 2, 4].map(|count| counts.iter().filter(|of| **of == count).count());
    assert_eq!([one, two, four, counts[26]], [5, 7, 7, 8], "each is measured before the next");
    let mut alone = Shift::of(1);
    assert_eq!(alone.seconds(9, plenty).0, 1);
    let mut odd = Shift::of(3);
    assert_eq!(odd.seconds(9, plenty).0, 3);
}

#[test]
fn more_that_do_not_pay_are_taken_back() {
    let mut shift = Shift::of(2);
    let tried = (0..14).map(|_| shift.work(crowded)).filter(|serving| *serving == 2).count();
    assert_eq!((tried, shift.policy.serving), (7, 1), "they were tried, for 1.4 s");
    let (serving, rate) = shift.seconds(60, crowded);
    assert_eq!(serving, 1);
    assert!(rate > 0.97 * 65_000.0, "hardly ever again: {rate}");
    // Another load is another matter: it is not refused for what the last one has shown.
    shift.policy.refusal = shift.policy.refusal.map(|of| Refusal { since: u64::MAX / 2, ..of });
    assert_eq!(
        shift.seconds(4, |serving| Load { rate: 9.0 * plenty(serving).rate, ..plenty(serving) }).0,
        2
    );
}

#[test]
fn more_that_do_not_pay_any_more_are_taken_back_too() {
    let mut shift = Shift::of(2);
    assert_eq!(shift.seconds(5, plenty).0, 2);
    let (serving, rate) = shift.seconds(300, plenty);
    assert_eq!(serving, 2);
    assert!(rate > 0.97 * 20_000.0, "one is hardly ever tried: {rate}");
    let mut shift = Shift::of(2);
    assert_eq!(shift.seconds(5, plenty).0, 2);
    assert_eq!(shift.seconds(15, crowded).0, 1);
}

/// What more loops bring must be worth the processor time of the whole server.
#[test]
fn more_pay_by_requests_and_by_processor_time() {
    let serving_with = |rise: f64, dearer: f64| {
        let mut shift = Shift::of(2);
        let load = |serving| match serving {
            1 => load(50_000.0, 20.0, 0.9, 1.0),
            _ => load(50_000.0 * rise, 20.0 * dearer, 1.5, 0.2),
        };
        let (serving, _) = shift.seconds(9, load);
        let (for_long, _) = shift.seconds(300, load);
        assert_eq!(serving, for_long, "{rise} times as many at {dearer} times the cost");
        serving
    };
    for (rise, dearer, serving) in [
        (1.08, 1.04, 2),
        (1.08, 1.6, 1),
        (1.08, 1.1, 1),
        (1.02, 1.0, 1),
        (0.99, 0.9, 2),
        (0.9, 0.8, 1),
        (1.9, 1.2, 2),
        (1.9, 1.6, 1),
    ] {
        assert_eq!(
            serving_with(rise, dearer),
            serving,
            "{rise} times as many at {dearer} times the cost"
        );
    }
}

/// What was good enough for being kept is no reason to grow, and the other way round.
#[test]
fn between_both_bounds_the_number_stays() {
    let load = |rise: f64| {
        move |serving| match serving {
            1 => load(50_000.0, 20.0, 0.9, 1.0),
            _ => load(50_000.0 * rise, 20.0, 1.5, 0.2),
        }
    };
    let mut shift = Shift::of(2);
    assert_eq!(shift.seconds(300, load(1.04)).0, 1);
    let mut shift = Shift::of(2);
    assert_eq!(shift.seconds(9, load(1.2)).0, 2);
    assert_eq!(shift.seconds(300, load(1.04)).0, 2);
    assert_eq!(shift.seconds(700, load(1.0)).0, 1);
}

#[test]
fn a_load_that_rises_or_falls_speaks_for_no_number() {
    // One loop is enough for it, though a busy one. Half as fast, a trial could be mistaken.
    for slope in [4_000.0, -4_000.0] {
        let mut shift = Shift::of(2);
        let (serving, _) = shift
            .course(5, |passed, serving| offered(85_000.0 + slope * (passed - 2.5), 8.0)(serving));
        assert_eq!(serving, 1, "{slope} a second more");
        assert!(shift.policy.recheck.is_none_or(|recheck| recheck.fewer == 0), "{slope}");
    }
}

#[test]
fn loops_follow_a_load_that_rises_for_minutes() {
    let mut shift = Shift::of(8);
    let rise = |passed: f64, serving| offered(20_000.0 + 5_000.0 * passed, 8.0)(serving);
    let (serving, rate) = shift.course(60, rise);
    let offer = 20_000.0 + 5_000.0 * 30.0;
    assert!((4..=6).contains(&serving) && rate > 0.95 * offer, "{serving} served {rate}");
    let (serving, rate) = shift.course(60, |passed, serving| rise(60.0 - passed, serving));
    assert!((1..=2).contains(&serving) && rate > 0.98 * offer, "{serving} served {rate}");
}

/// A trial of a load that one loop could bear is no reason to wait when it cannot any more.
#[test]
fn a_load_that_grows_after_a_refusal_gets_its_loops() {
    let mut shift = Shift::of(8);
    assert_eq!(shift.seconds(300, offered(85_000.0, 8.0)).0, 1, "a busy loop, but not a full one");
    let too_much = |serving| Load { clients: 64, ..offered(105_000.0, 8.0)(serving) };
    assert_eq!(shift.seconds(5, too_much).0, 2);
}

#[test]
fn bursts_do_not_bring_loops_that_do_not_pay() {
    for length in [0.4, 1.0, 3.0, 7.0] {
        let mut shift = Shift::of(2);
        let in_bursts = |passed: f64, serving| {
            let load = crowded(serving);
            let is_calm = (passed / length) as u64 % 2 == 1;
            if is_calm { Load { rate: 0.0, demand: 0.0, spare: 2.0, ..load } } else { load }
        };
        let (_, rate) = shift.course(280, in_bursts);
        assert!(rate > 0.95 * 65_000.0 / 2.0, "bursts of {length} s: {rate}");
    }
}

/// Somebody else's program takes the processor that the second loop had.
#[test]
fn a_stranger_on_the_processors_takes_loops_away_soon() {
    let mut shift = Shift::of(2);
    let load = |with_stranger: bool| {
        move |serving: usize| match (serving, with_stranger) {
            (1, _) => load(60_000.0, 16.0, 0.9, 1.0),
            (_, false) => load(100_000.0, 17.0, 1.5, 0.3),
            (_, true) => load(55_000.0, 24.0, 1.9, 0.0),
        }
    };
    // By then it would be asked after ten minutes whether one would do.
    assert_eq!(shift.seconds(400, load(false)).0, 2);
    assert_eq!(shift.seconds(5, load(true)).0, 1, "less is answered, so that is asked at once");
    let (_, rate) = shift.seconds(60, load(true));
    assert!(rate > 0.95 * 60_000.0, "{rate}");
}

#[test]
fn with_few_requests_idle_processors_decide() {
    let mut shift = Shift::of(2);
    let slow = |serving| {
        let serving = serving as f64;
        load(50.0 / serving, 1e4, serving, 2.0 - serving)
    };
    assert_eq!(shift.seconds(5, slow).0, 2);
    assert_eq!(shift.seconds(60, slow).0, 2, "one would leave a processor idle");
    assert_eq!(shift.seconds(700, |serving| Load { spare: 0.0, ..slow(serving) }).0, 1);
}

#[test]
fn fewer_serve_when_that_has_sufficed_for_a_while() {
    let mut shift = Shift::of(8);
    assert_eq!(shift.seconds(9, plenty).0, 8);
    let calm = |shift: &mut Shift, work| (0..5).map(|_| shift.then(work, None)).collect::<Vec<_>>();
    assert_eq!(calm(&mut shift, 1.4), [8; 5]);
    assert_eq!(shift.then(4.0, Some(0.0)), 8, "from the beginning");
    assert_eq!(calm(&mut shift, 1.4), [8; 5]);
    assert_eq!(shift.then(1.4, None), 3, "each works half its time");
    assert_eq!(calm(&mut shift, 0.0), [3; 5]);
    assert_eq!(shift.then(0.0, None), 1);
}

#[test]
fn a_loop_that_is_held_up_brings_all_for_a_minute() {
    let mut shift = Shift::of(4);
    assert_eq!(shift.decide(|facts| facts.is_held_up = true, Some(0.0)), 4);
    let until = shift.now + 60_000_000_000;
    while shift.now + 200_000_000 < until + 1_000_000_000 {
        assert_eq!(shift.then(0.1, None), 4);
    }
    assert_eq!(shift.then(0.1, None), 1);
}

/// No trial has shown that those pay that many clients, or a loop that was held up, have brought.
#[test]
fn loops_that_nobody_has_tried_are_tried_too() {
    let mut shift = Shift::of(2);
    assert_eq!(shift.decide(|facts| facts.is_held_up = true, Some(0.0)), 2);
    assert_eq!(shift.seconds(59, crowded).0, 2);
    assert_eq!(shift.seconds(16, crowded).0, 1);
    assert_eq!(shift.decide(|facts| facts.clients = 300, Some(0.0)), 2);
    assert_eq!(shift.seconds(15, crowded).0, 1);
}

#[test]
fn many_clients_are_never_with_one_loop() {
    let mut shift = Shift::of(4);
    let mut with = |clients: usize| shift.decide(|facts| facts.clients = clients, Some(0.0));
    assert_eq!([with(256), with(257), with(600), with(100_000)], [1, 2, 3, 4]);
    let fewer: Vec<_> = (0..7).map(|_| with(300)).collect();
    assert_eq!(fewer, [4, 4, 4, 4, 4, 2, 2]);
}

/// How many loops serve in the end, and after how many seconds, on a machine whose clients ask as
/// soon as they are answered. A request takes so many microseconds of a loop, and of a worker.
fn serving_in_the_end(cores: usize, of_loop: f64, of_worker: f64) -> (usize, f64) {
    let mut shift = Shift::of(cores);
    let model = |serving: usize| {
        let serving = serving as f64;
        let cost = of_loop + of_worker;
        // Either the loops have no more time, or the machine has none.
        let rate = (serving / of_loop).min(cores as f64 / cost);
        let spare = cores as f64 - rate * cost;
        load(rate * 1e6, cost, rate * of_loop, spare)
    };
    let counts: Vec<_> = (0..300).map(|_| shift.work(model)).collect();
    // Later trials of fewer end with what was before.
    let most = *counts.iter().max().expect("counts");
    let since = counts.iter().position(|count| *count == most).expect("the most");
    assert_eq!(*counts.last().expect("counts"), most);
    (most, if most == 1 { 0.0 } else { (since + 1) as f64 / 5.0 })
}

/// The costs, and what comes of them, are those of `bench/driver/many_cores.py`.
#[test]
fn as_many_loops_serve_as_there_are_cores_for_them() {
    let of_cores = [(1, 1, 0.0), (2, 2, 1.2), (4, 3, 2.6), (16, 13, 6.8), (64, 50, 9.6)];
    for (cores, loops, seconds) in of_cores {
        assert_eq!(
            serving_in_the_end(cores, 12.6, 3.7),
            (loops, seconds),
            "{cores} cores, empty script"
        );
        assert_eq!(serving_in_the_end(cores, 12.6, 5000.0), (1, 0.0), "{cores} cores, 5 ms");
    }
}

#[test]
fn time_that_goes_back_is_no_calm() {
    let mut shift = Shift::of(2);
    assert_eq!(shift.seconds(5, plenty).0, 2);
    shift.now += 1_000_000_000;
    shift.then(0.1, None);
    shift.now -= 900_000_000;
    assert_eq!(shift.then(0.1, None), 2);
}
