//! Subrequests that scripts make to this server. Routes, scripts, files and applications answer as
//! for a client, but without a socket.

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokamak_lua::{HttpCall, Value, Waiting};
use tokamak_outbound::http::{HttpError, is_reserved};
use tokamak_upstream::body::Body;

use crate::caller::Caller;
use crate::context::Context;
use crate::lua::received;
use crate::trace::Trace;

/// Begins a subrequest on behalf of a request to this host, which has this place in a trace.
pub fn begin(
    context: &Arc<Context>,
    caller: &Caller,
    host: Option<&HeaderValue>,
    trace: Option<&Trace>,
    call: HttpCall<'_>,
) -> Waiting {
    let (context, caller) = (context.clone(), caller.clone());
    let (limit, most) = (call.timeout, call.most);
    let request = request(host.cloned(), trace, &call);
    Box::pin(async move {
        let request = request.map_err(|fault| fault.to_string())?;
        let answer = tokio::time::timeout(limit, answer(&context, &caller, request, most)).await;
        answer.unwrap_or_else(|_| Err(HttpError::Time(limit).to_string()))
    })
}

fn request(
    host: Option<HeaderValue>,
    trace: Option<&Trace>,
    call: &HttpCall<'_>,
) -> Result<Request<Body>, HttpError> {
    let target = PathAndQuery::try_from(call.url).map_err(|_| HttpError::Url("it is malformed"))?;
    if !target.as_str().starts_with('/') {
        return Err(HttpError::Url("it is not a path"));
    }
    let mut fields = HeaderMap::new();
    fields.extend(host.map(|host| (HOST, host)));
    for [name, value] in call.fields.as_chunks().0 {
        let bad = || HttpError::Field(String::from_utf8_lossy(name).into_owned());
        let name =
            HeaderName::from_bytes(name).ok().filter(|name| !is_reserved(name)).ok_or_else(bad)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| bad())?;
        if name == HOST {
            fields.insert(name, value);
        } else {
            fields.append(name, value);
        }
    }
    let body = if call.body.is_empty() {
        Body::Empty
    } else {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(call.body.len()));
        Body::Memory(call.body.to_vec().into())
    };
    let mut request = Request::new(body);
    let method = Method::from_bytes(call.method).ok().filter(|method| method != Method::CONNECT);
    *request.method_mut() = method.ok_or(HttpError::Method)?;
    *request.uri_mut() = Uri::from(target);
    *request.headers_mut() = fields;
    let is_own = call.fields.as_chunks().0.iter().any(|[name, _]| Trace::is_own(name));
    if let Some(trace) = trace.filter(|_| !is_own) {
        trace.put(request.headers_mut());
        request.extensions_mut().insert(trace.clone());
    }
    Ok(request)
}

async fn answer(
    context: &Arc<Context>,
    caller: &Caller,
    request: Request<Body>,
    most: usize,
) -> Result<Value, String> {
    let caller = caller.subrequest().ok_or("requests are made for each other without end")?;
    let (head, body) = (context.subrequest)(context, &caller, request).await.into_parts();
    let body = Limited::new(body, most).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            HttpError::Large(most).to_string()
        } else {
            error.to_string()
        }
    })?;
    Ok(received(head.status.as_u16(), &head.headers, body.to_bytes().into()))
}
