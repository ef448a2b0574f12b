//! What a script's return value means: the contract of lighttpd's mod_magnet.

/// How often a request may be restarted: with the tenth time it fails.
pub const MOST_RESTARTS: u32 = 10;

/// The value by which a script asks for a restart.
const RESTART_REQUEST: i32 = 99;

/// When a script is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the path is looked up: nothing physical is known.
    RawUrl,
    /// When it is known which file the request means.
    Physical,
    /// Instead of an application.
    Content,
    /// When the response's head is about to be sent.
    Response,
    /// Before the content cache keeps a response.
    Store,
}

impl Stage {
    /// Whether there is a response already, of which only the head can still change.
    pub fn has_response(self) -> bool {
        matches!(self, Stage::Response | Stage::Store)
    }
}

/// What becomes of the request after a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next script, or whatever comes after the scripts.
    GoOn,
    /// From the beginning, with the request as it is now.
    Restart,
    /// An interim response of this status is sent; then the request goes on.
    Interim(u16),
    /// This status is the answer, with the body that the script gave.
    Answer(u16),
    /// The script could not do its work. The log says why.
    Failed(ScriptError),
}

/// Why a script could not do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptError {
    /// It raised an error, or cannot be compiled or read.
    Error,
    /// Its time was up.
    TooLong,
    /// It wanted more memory than there is for scripts.
    NoMemory,
}

impl ScriptError {
    /// The status of the response to the client.
    pub fn status(self) -> u16 {
        match self {
            ScriptError::Error => 500,
            ScriptError::TooLong | ScriptError::NoMemory => 503,
        }
    }
}

/// What `number` asks for when a script returns it at that stage.
pub fn decide(stage: Stage, number: i32) -> Outcome {
    match (stage, number) {
        (stage, 100..200 | RESTART_REQUEST) if stage.has_response() => Outcome::GoOn,
        (_, RESTART_REQUEST) => Outcome::Restart,
        (_, 100..200) => Outcome::Interim(number as u16),
        (_, 200..1000) => Outcome::Answer(number as u16),
        // No status has more than three digits. lighttpd would send it.
        (_, 1000..) => Outcome::Answer(500),
        (_, _) => Outcome::GoOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_contract() {
        for stage in [Stage::RawUrl, Stage::Physical, Stage::Content, Stage::Response, Stage::Store]
        {
            for number in [i32::MIN, -1, 0, 1, 98] {
                assert_eq!(decide(stage, number), Outcome::GoOn, "{number}");
            }
            assert_eq!(decide(stage, 200), Outcome::Answer(200));
            assert_eq!(decide(stage, 404), Outcome::Answer(404));
            assert_eq!(decide(stage, 999), Outcome::Answer(999));
            assert_eq!(decide(stage, 1000), Outcome::Answer(500));
            assert_eq!(decide(stage, i32::MAX), Outcome::Answer(500));
        }
        assert_eq!(decide(Stage::RawUrl, 99), Outcome::Restart);
        assert_eq!(decide(Stage::Response, 99), Outcome::GoOn);
        assert_eq!(decide(Stage::Store, 99), Outcome::GoOn);
        assert_eq!(decide(Stage::Physical, 100), Outcome::Interim(100));
        assert_eq!(decide(Stage::Physical, 199), Outcome::Interim(199));
        assert_eq!(decide(Stage::Response, 103), Outcome::GoOn);
    }
}
