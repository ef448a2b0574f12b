macro_rules! phases {
    ($($name:ident $text:literal $what:literal,)*) => {
        /// A named part of a request's way through the server, in the order in which they happen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Phase {
            $(#[doc = $what] $name,)*
        }

        impl Phase {
            /// Every phase, in order.
            pub const ALL: &[Phase] = &[$(Phase::$name,)*];

            /// The name used in logs, metrics and documentation.
            pub const fn name(self) -> &'static str {
                match self { $(Phase::$name => $text,)* }
            }

            /// One sentence for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Phase::$name => $what,)* }
            }
        }
    };
}

phases! {
    Head  "head"  "from the first byte of the request to the end of its headers",
    Body  "body"  "reading the request body from the client",
    Script "script" "running Lua scripts in the server, with what they wait for",
    Route "route" "finding the site, the file or the script",
    Authorize "authorize" "asking the FastCGI application that says whether the request may be \
        served",
    Cache "cache" "finding a response in the content cache, and waiting for one that another \
        request had asked for",
    Queue "queue" "waiting for a free worker, or for a free connection to a FastCGI application",
    Connect "connect" "opening a connection to a FastCGI application; none if one was kept",
    Upstream "upstream" "from the connection until the headers of the application's response had \
        come",
    Php   "php"   "inside the worker until its response was complete",
    Relay "relay" "from the end of the worker's part until the front saw it",
    Compress "compress" "compressing a response that is compressed at once",
    Send  "send"  "writing the response to the client",
}
