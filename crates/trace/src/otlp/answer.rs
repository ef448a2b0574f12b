//! What a collector answers.

use prost::Message;

use super::message::ExportTraceServiceResponse;

/// Spans that a collector has taken in and thrown away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// How many.
    pub spans: u64,
    /// Why, in the collector's words.
    pub reason: String,
}

/// What a collector has rejected, by the body of its answer. An answer that is no such message
/// rejects nothing: its status has said that the collector has all.
pub fn rejection(body: &[u8]) -> Option<Rejection> {
    let answer = ExportTraceServiceResponse::decode(body).ok()?.partial_success?;
    let spans = u64::try_from(answer.rejected_spans).ok().filter(|spans| *spans > 0)?;
    Some(Rejection { spans, reason: answer.error_message })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::otlp::message::ExportTracePartialSuccess;

    #[test]
    fn only_a_number_of_spans_is_a_rejection() {
        for (rejected_spans, expected) in [(3, Some(3)), (0, None), (-1, None), (i64::MIN, None)] {
            let error_message = "too old".to_owned();
            let partial = ExportTracePartialSuccess { rejected_spans, error_message };
            let answer = ExportTraceServiceResponse { partial_success: Some(partial) };
            let rejected = rejection(&answer.encode_to_vec());
            assert_eq!(rejected.map(|rejected| rejected.spans), expected, "{rejected_spans}");
        }
        assert_eq!(rejection(b""), None);
        assert_eq!(rejection(b"{\"partialSuccess\":{}}"), None);
    }

    proptest! {
        #[test]
        fn no_answer_does_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(Rejection { spans, .. }) = rejection(&body) {
                prop_assert!(spans > 0);
            }
        }
    }
}
