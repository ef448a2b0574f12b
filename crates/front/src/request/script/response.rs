//! Makes targets and responses from what scripts have set.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::header::{self, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use tokamak_lua::Attribute;

use super::work::Work;
use crate::response::pages;
use crate::response::{Series, Source};
use crate::route::{self, Decision};

impl Work {
    /// Decides what answers the request, with the scripts' changes.
    pub fn decision(&self) -> Decision {
        let path = self.changes.get(Attribute::UriPath);
        self.site().decide_changed(&self.caller, &self.parts, path)
    }

    /// Sets the attributes of the file that the path means.
    pub fn locate(&mut self) {
        let root = self.site().root.clone();
        let path = match self.changes.get(Attribute::UriPath) {
            Some(path) => path,
            None => route::clean(self.parts.uri.path().as_bytes()).unwrap_or_else(|| b"/".to_vec()),
        };
        self.changes.put(Attribute::PhysicalPath, [root.as_slice(), &path].concat());
        self.changes.put(Attribute::PhysicalRelPath, path);
        self.changes.put(Attribute::PhysicalDocRoot, root.clone());
        self.changes.put(Attribute::PhysicalBasedir, root);
        self.located = self.changes.get(Attribute::PhysicalPath);
    }

    /// Decides again what answers, if a script has changed the file of the request.
    pub fn other_decision(&self) -> Option<Decision> {
        let path = self.changes.get(Attribute::PhysicalPath);
        if path == self.located {
            return None;
        }
        let path = path?;
        Some({
            let file = Path::new(OsStr::from_bytes(&path));
            self.site().decide_file(&self.caller, &self.parts, file)
        })
    }

    /// The response that a script has given, with this status.
    pub fn answer(&mut self, status: u16) -> Response<Source> {
        let fields = std::mem::take(&mut self.fields);
        let pieces = self.pieces.take().unwrap_or_default();
        let mut response = Response::new(Series::of(pieces));
        *response.status_mut() =
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = fields;
        self.finish(&mut response);
        response
    }

    /// Completes a response that scripts have made or changed.
    fn finish(&self, response: &mut Response<Source>) {
        let status = response.status();
        let is_bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if is_bodiless {
            *response.body_mut() = Source::Empty;
        } else if matches!(response.body(), Source::Empty)
            && (status.is_client_error() || status.is_server_error())
        {
            let text = status.canonical_reason().unwrap_or("Something went wrong.");
            *response.body_mut() = Source::Whole(pages::page(status, text));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        }
        if self.closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Adds the fields that scripts have set to a response of an application, file or cache. Fields
    /// of the response win, except fields that may occur several times.
    pub fn add_fields(&mut self, headers: &mut HeaderMap) {
        let fields = std::mem::take(&mut self.fields);
        for name in fields.keys() {
            let is_list = matches!(*name, header::SET_COOKIE | header::LINK | header::VARY);
            if is_list || !headers.contains_key(name) {
                for value in fields.get_all(name) {
                    headers.append(name, value.clone());
                }
            }
        }
        if self.closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Takes over the head of a response that is about to be sent, for scripts. Gives back its
    /// body, which scripts may replace.
    pub fn adopt(&mut self, response: Response<Source>) -> Source {
        let (parts, source) = response.into_parts();
        self.status = parts.status.as_u16();
        self.fields = parts.headers;
        self.pieces = None;
        self.present = source.whole();
        source
    }

    /// The response after the last scripts.
    pub fn release(&mut self, source: Source, status: Option<u16>) -> Response<Source> {
        let status = status.unwrap_or(self.status);
        if self.pieces.is_none() {
            let mut response = Response::new(source);
            *response.status_mut() =
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            *response.headers_mut() = std::mem::take(&mut self.fields);
            if self.closes {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            return response;
        }
        // The fields about the old body (length, coding, range) no longer hold.
        for name in
            [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_RANGE, header::ETAG]
        {
            self.fields.remove(name);
        }
        self.answer(status)
    }
}
