//! Long texts are matched by Rust, short ones by LuaJIT: the results are the same.

use std::time::Duration;

use tokamak_lua::{Limits, Outcome};

use crate::harness::{Site, show};

/// Calls each function as it is and by a way on which the other matcher is asked, and tells where
/// they differ.
const COMPARE: &str = r##"
local texts = { "", "abc", "key=value&other=5", "  spaced  out ", "f(a(b)c)d", "THE (quick) fox", "x.y.z", "aaa", "a\nb\0c" }
local patterns = {
    "(%w+)=(%w+)", "^%s*(.-)%s*$", "%b()", "%f[%a]%a+", "()a()", "(a*)(a*)", "a-b", "[^%s]+%s*", "(.)%1", "[]x]+", "[^]x]+",
    "[a-c%-]*", "%S+", "x?y?z?", ".-", "a*", "", "^a", "$", "a$", "(a)(b)?", "%D*%d+", "[%w_]+%.?", "(%w+)%s+(%w+)", "^.*$",
    "%((%a+)%)", "%z*", "%x+%X*", "%p+.*", "%c*%u+%l*", "%g*", "a*\0b",
}
local function pack(...)
    local t = { ... }
    for i = 1, select("#", ...) do t[i] = tostring(t[i]) end
    return table.concat(t, "|")
end
local wrong = {}
for _, text in ipairs(texts) do
    for _, pattern in ipairs(patterns) do
        local function all(find, match, gmatch, gsub)
            local r = {}
            r[#r + 1] = pack(pcall(find, text, pattern))
            r[#r + 1] = pack(pcall(find, text, pattern, 3))
            r[#r + 1] = pack(pcall(match, text, pattern))
            r[#r + 1] = pack(pcall(match, text, pattern, -2))
            if pattern:sub(1, 1) ~= "^" then
                for a, b in gmatch(text, pattern) do r[#r + 1] = pack(a, b) end
            end
            r[#r + 1] = pack(pcall(gsub, text, pattern, "<%0>"))
            r[#r + 1] = pack(pcall(gsub, text, pattern, "<%1%%>", 2))
            r[#r + 1] = pack(pcall(gsub, text, pattern, function(a, b) return a ~= "b" and tostring(a) .. "!" .. tostring(b) end))
            r[#r + 1] = pack(pcall(gsub, text, pattern, { a = "A", key = 5, abc = false }))
            return table.concat(r, "\n")
        end
        local quick, slow = all(string.find, string.match, string.gmatch, string.gsub), nil
        slow = all(slowly.find, slowly.match, slowly.gmatch, slowly.gsub)
        if quick ~= slow then
            wrong[#wrong + 1] = ("%q %q:\n%s\n-- slowly --\n%s"):format(text, pattern, quick, slow)
        end
    end
end
lighty.r.resp_body.set(table.concat(wrong, "\n\n"))
return 200
"##;

#[test]
fn both_matchers_agree() {
    // A pattern that begins with 20 optional characters that are nowhere is judged to take long on
    // any text.
    let slowly = r#"
local rare = ("\1?"):rep(20)
local function slow(pattern) return pattern:sub(1, 1) == "^" and "^" .. rare .. pattern:sub(2) or rare .. pattern end
local slowly = {
    find = function(s, p, ...) return string.find(s, slow(p), ...) end,
    match = function(s, p, ...) return string.match(s, slow(p), ...) end,
    gmatch = function(s, p) return string.gmatch(s, slow(p)) end,
    gsub = function(s, p, ...) return string.gsub(s, slow(p), ...) end,
}
"#;
    let limits = Limits { stretch: Duration::from_secs(20), ..Limits::default() };
    let site = Site::new(limits, &[("test.lua", &format!("{slowly}{COMPARE}"))]);
    let (outcome, memory) = site.ask("test.lua");
    assert_eq!(outcome, Outcome::Answer(200), "{:?}", memory.log);
    assert_eq!(memory.text(), "");
}

#[test]
fn long_texts_are_matched() {
    assert_eq!(
        show("local s = ('x'):rep(200) .. ' key=value ' return show(s:match('(%w+)=(%w+)'))"),
        r#""key" "value""#
    );
    assert_eq!(
        show(
            "local s = ('k=v&'):rep(500) local n = 0 for k, v in s:gmatch('(%w+)=(%w+)') do n = n \
                + 1 end return show(n)"
        ),
        "500"
    );
    assert_eq!(
        show("local s = ('a b '):rep(500) return show(#(s:gsub('(%w+) (%w+)', '%2%1')))"),
        "1500"
    );
    for bad in ["(", ")", "[a", "%", "%1*a*a*", "%b", "%fa"] {
        let said =
            show(&format!("return show(pcall(string.find, ('a'):rep(50000), 'x*x*' .. '{bad}'))"));
        assert!(said.starts_with("false"), "{bad}: {said}");
    }
}
