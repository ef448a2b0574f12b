//! php-fpm's emergency restart: when several workers died of faults in memory within a short time,
//! what they share may be spoilt, so everything is started anew.

use std::collections::VecDeque;
use std::time::Duration;

use tokamak_fpm::Global;

/// The last faults.
#[derive(Debug, Default)]
pub struct Emergency {
    /// When they were, in nanoseconds of the common clock; at most as many as make an emergency.
    faults: VecDeque<u64>,
}

impl Emergency {
    /// A worker has died of a fault; true: so did enough others within the interval, and all is to
    /// be restarted. Those are then forgotten.
    pub fn fault(&mut self, global: &Global, now: u64) -> bool {
        let most = global.emergency_restart_threshold as usize;
        let interval = global.emergency_restart_interval;
        if most == 0 || interval.is_zero() {
            self.faults.clear();
            return false;
        }
        self.faults.push_back(now);
        while self.faults.len() > most {
            self.faults.pop_front();
        }
        let oldest = self.faults.front().copied().unwrap_or(now);
        let is_emergency = self.faults.len() == most
            && Duration::from_nanos(now.saturating_sub(oldest)) <= interval;
        if is_emergency {
            self.faults.clear();
        }
        is_emergency
    }
}

#[cfg(test)]
mod tests {
    use tokamak_fpm::config::ErrorLog;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn global(threshold: u32, seconds: u64) -> Global {
        Global {
            pid: None,
            error_log: ErrorLog::File("x".into()),
            log_level: tokamak_fpm::Level::Notice,
            log_limit: 1024,
            log_buffering: true,
            emergency_restart_threshold: threshold,
            emergency_restart_interval: Duration::from_secs(seconds),
            process_control_timeout: Duration::ZERO,
            process_priority: None,
            daemonize: false,
            rlimit_files: None,
            rlimit_core: None,
        }
    }

    #[test]
    fn enough_faults_in_time_are_an_emergency() {
        let global = global(3, 60);
        let mut emergency = Emergency::default();
        let table = [
            (0, false),
            (50, false),
            (70, false),
            (80, true),
            (81, false),
            (82, false),
            (83, true),
        ];
        for (second, is_emergency) in table {
            assert_eq!(emergency.fault(&global, second * SECOND), is_emergency, "{second}");
        }
    }

    #[test]
    fn without_a_threshold_or_an_interval_nothing_is() {
        for global in [global(0, 60), global(1, 0)] {
            let mut emergency = Emergency::default();
            assert!((0..10).all(|second| !emergency.fault(&global, second * SECOND)));
        }
        assert!(Emergency::default().fault(&global(1, 1), SECOND));
    }
}
