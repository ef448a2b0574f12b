//! What a worker says of itself for the seal report. What is made of it is the report's business.

use super::harness::{Ask, Site, get};

/// Each kind of place in which PHP keeps values, with a name that is looked for.
const EVERYTHING: &str = r#"<?php
// Not a literal: those are code, which opcache keeps, and no state.
function fresh(string $name): array { return [$name => getmypid()]; }
class Base { public static $shared = ['in a static property' => 1]; private $secret = 'in a private property'; }
class Made extends Base { public static $own; public $dynamic; public ?Made $self = null; }
enum Suit: string { case Hearts = 'h'; public const A = self::Hearts; }
function counts() { static $count = ['in a function static' => 1]; return ++$count['n']; }
function gives() { $local = ['in a generator' => new Made()]; foreach ($local as $key => $value) { yield $key => $value; } }
final class Loop {
    private array $kept;
    public function __construct() { $this->kept = fresh('in the loop object'); }
    public function run(callable $handler): void {
        $turn = fresh('in a running function');
        while (tokamak_handle_request($handler)) { $turn['n'] = ($turn['n'] ?? 0) + 1; }
    }
}
counts();
Made::$own = null;
Base::$shared['n'] = 1;
$made = new Made();
$made->self = $made;
$made->{'added later'} = [1, 2.5, null, true];
$reference = &$made->dynamic;
$reference = ['by reference' => &$reference];
$generator = gives();
$generator->current();
$list = new SplDoublyLinkedList();
$list->push(fresh('in a list'));
$heap = new SplMinHeap();
$heap->insert([3, 'in a heap']);
$fixed = SplFixedArray::fromArray([fresh('in a fixed array')]);
$storage = new SplObjectStorage();
$storage[$made] = fresh('in a storage');
$weak = new WeakMap();
$weak[$made] = fresh('in a weak map');
$array = new ArrayObject(['in an array object' => new ArrayIterator([1])]);
$date = new DateTimeImmutable('2001-02-03', new DateTimeZone('Europe/Berlin'));
$period = new DatePeriod($date, new DateInterval('P1D'), 2);
$document = new DOMDocument();
$document->loadXML('<a><b/></a>');
$simple = simplexml_load_string('<a><b>1</b></a>');
$fiber = new Fiber(function (): void { $own = fresh('in a fiber'); Fiber::suspend(); });
$fiber->start();
$bound = fresh('bound by a closure');
$closure = function () use ($bound) { static $more = []; $more['static of a closure'] = 1; return $more; };
$closure();
$method = $made->self ? Closure::fromCallable([new DateTime(), 'format']) : null;
$exception = new RuntimeException('a message', 3, new LogicException('before'));
$iterator = new CachingIterator(new LimitIterator(new InfiniteIterator($array->getIterator()), 0, 3));
$reflection = new ReflectionMethod('Loop', 'run');
$suit = Suit::A;
$file = fopen(__FILE__, 'r');
define('A_CONSTANT', fresh('in a constant'));
set_error_handler($closure);
set_exception_handler(static fn ($e) => null);
spl_autoload_register([new class { public $loads = 'in an autoloader'; public function load($c) {} }, 'load']);
putenv('LEFT_IN=environment');
$text = "a\tb\nc".str_repeat('long', 100);
$named = [$text => 1, '' => 2, -5 => 3];
(new Loop())->run(function () { echo 'answer ', $_COOKIE['who'] ?? 'nobody'; Made::$own = $_COOKIE['who'] ?? null; });
"#;

fn state() -> Ask {
    Ask { method: "STATE", ..get("/") }
}

fn start(settings: &[(&str, &str)]) -> Site {
    Site::worker(EVERYTHING, settings)
}

#[test]
fn everything_that_php_can_reach_is_listed() {
    // By default opcache leaves out a file that is younger than two seconds; what is listed must
    // not depend on that.
    for protection in ["0", "2"] {
        lists_everything(protection);
    }
}

fn lists_everything(protection: &str) {
    let mut site =
        start(&[("report", "visitor-"), ("ini.opcache.file_update_protection", protection)]);
    let text = site.ask(state()).text();
    let names: Vec<_> = text.lines().map(|line| line.split('\t').nth(6).unwrap_or("")).collect();
    for name in [
        "in a static property",
        "secret",
        "added later",
        "in a function static",
        "in the loop object",
        "in a running function",
        "by reference",
        "in a generator",
        "in a list",
        "in a fixed array",
        "in a storage",
        "in a weak map",
        "in an array object",
        "bound",
        "bound by a closure",
        "static of a closure",
        "previous",
        "A_CONSTANT",
        "error handler",
        "exception handler",
        "loads",
        "LEFT_IN",
        "PHP heap",
    ] {
        assert!(names.contains(&name), "{name} is missing");
    }
    for (number, line) in text.lines().enumerate() {
        let fields: Vec<_> = line.split('\t').collect();
        assert_eq!(fields.len(), 7, "{line:?}");
        assert!(
            fields[0].parse::<i64>().unwrap() < number as i64,
            "{line:?} stands before its parent"
        );
    }
    assert!(!text.contains("\tt\t"), "a token before the first request");
}

#[test]
fn looking_changes_nothing_and_what_a_visitor_left_is_marked() {
    let mut site = start(&[("report", "visitor-")]);
    let first = site.ask(state()).text();
    // libc's own bookkeeping is not PHP's, and not looked at so closely.
    let is_php = |line: &&str| !line.ends_with("malloc heap");
    let lines = |text: &str| text.lines().filter(is_php).map(str::to_owned).collect::<Vec<_>>();
    // The first look may fill what functions of PHP fill when they are first called.
    let (second, third) = (site.ask(state()).text(), site.ask(state()).text());
    for (one, other) in lines(&second).iter().zip(lines(&third)) {
        assert_eq!(*one, other);
    }
    assert_eq!(lines(&first).len(), lines(&second).len());
    assert_eq!(lines(&second).len(), lines(&third).len());
    let answer = site.ask(get("/").header("Cookie", "who=visitor-7"));
    assert_eq!(answer.text(), "answer visitor-7");
    let text = site.ask(state()).text();
    let marked: Vec<_> = text.lines().filter(|line| line.contains("\tt\t")).collect();
    assert_eq!(marked.len(), 1, "{marked:?}");
    assert!(marked[0].ends_with("own"), "{marked:?}");
    assert_eq!(site.get("/").text(), "answer nobody");
}

#[test]
fn without_the_setting_it_is_a_request_like_any_other() {
    let mut site = start(&[]);
    assert_eq!(site.ask(state()).text(), "answer nobody");
}
