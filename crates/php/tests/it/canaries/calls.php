<?php
/* Functions that call back what waits: whatever they hold meanwhile is the request's own. */

/** A file that waits: `slow://found/NUMBER` and, refused with a warning, `slow://none/NUMBER`. */
class SlowFile
{
    public $context;
    private string $text;
    private int $at = 0;

    public function stream_open(string $path): bool
    {
        wait();
        $this->text = '<?php return ' . basename($path) . ';';
        if (parse_url($path, PHP_URL_HOST) === 'found') {
            return true;
        }
        trigger_error($path, E_USER_WARNING);
        return false;
    }

    public function stream_read(int $count): string
    {
        wait();
        $part = substr($this->text, $this->at, 8);
        $this->at += strlen($part);
        return $part;
    }

    public function stream_eof(): bool { return $this->at >= strlen($this->text); }
    public function stream_stat(): array { return []; }
    public function url_stat(): array { return []; }
    public function stream_set_option(): bool { return false; }
}
stream_wrapper_register('slow', SlowFile::class);

/** Puts the number in front of what passes. */
class SlowFilter extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            wait();
            $bucket->data = $this->params . $bucket->data;
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}
stream_filter_register('slow', SlowFilter::class);

/** Waits whenever it is asked for something. */
class Slow implements JsonSerializable, IteratorAggregate, ArrayAccess, Countable
{
    public function __construct(public int $n) {}
    public function __toString(): string { wait(); return (string) $this->n; }
    public function jsonSerialize(): mixed { wait(); return $this->n; }
    public function __serialize(): array { wait(); return [$this->n]; }
    public function __unserialize(array $data): void { wait(); $this->n = $data[0]; }
    public function getIterator(): Generator { wait(); yield $this->n; wait(); }
    public function offsetExists($k): bool { wait(); return true; }
    public function offsetGet($k): mixed { wait(); return $this->n; }
    public function offsetSet($k, $v): void { wait(); }
    public function offsetUnset($k): void { wait(); }
    public function count(): int { wait(); return $this->n; }
    public function __get($name) { wait(); return $this->n; }
    public function __call($name, $arguments) { wait(); return $this->n; }
    public static function __callStatic($name, $arguments) { wait(); return $arguments[0]; }
    public function __debugInfo() { wait(); return ['n' => $this->n]; }
    public function __destruct() { wait(); $GLOBALS['ended'][$this->n] = $this->n; }
    public static function __set_state($values) { wait(); return new self($values['n']); }
}

/** Found by the collector of cycles: it says which request its destructor belongs to. */
class SlowCycle
{
    private self $self;
    public function __construct(private int $n) { $this->self = $this; }
    public function __destruct() { wait(); $GLOBALS['ended'][$this->n] = (int) $_SERVER['HTTP_N']; }
}

/** Serialized by its own words, in the older way. */
class SlowSleeper
{
    public function __construct(public int $n, public mixed $twice = null) {}
    public function __sleep(): array { wait(); return ['n', 'twice']; }
    public function __wakeup(): void { wait(); }
}

class SlowHeap extends SplMinHeap
{
    protected function compare($a, $b): int { wait(); return parent::compare($a, $b); }
}

/** The number, each time after a wait. */
function slowly(int $n): int
{
    wait();
    return $n;
}

/** A row that calls. */
function calls(callable $get): array
{
    return own(fn() => null, $get);
}

if (PHP_VERSION_ID >= 80400) {
    require __DIR__ . '/classes_of_8_4.php';
}

/** The same of what PHP has since 8.4. An older one only waits, so that all have the same rows. */
function calls_of_8_4(callable $get): array
{
    return calls(PHP_VERSION_ID >= 80400 ? $get : 'slowly');
}

/** Numbers from n on, not in order. */
function numbers(int $n): array
{
    return [$n + 2, $n, $n + 3, $n + 1];
}

function compare(int $a, int $b): int
{
    wait();
    return $a <=> $b;
}

return ['What is under way' => [
    '`strtok()`' => own(fn($n) => strtok("first" . str_repeat(" $n", 1000), ' '),
        fn() => (int) strtok(' ')),
    '`mt_srand()`' => own(fn($n) => mt_srand($n), function ($n) {
        static $numbers = [], $at = [];
        if (!isset($numbers[$n])) {
            $engine = new Random\Engine\Mt19937($n);
            for ($i = 0; $i < 1000; $i++) {
                $numbers[$n][] = unpack('V', $engine->generate())[1] >> 1;
            }
        }
        // Seeded again by each request, which reads as often as any other.
        $i = $at[spl_object_id(Fiber::getCurrent())][$n] ??= 0;
        $at[spl_object_id(Fiber::getCurrent())][$n]++;
        $is_well = mt_rand() === $numbers[$n][$i];
        if ($i + 1 === (int) $_SERVER['HTTP_WAITS']) {
            unset($at[spl_object_id(Fiber::getCurrent())][$n]);
        }
        return told($n, $is_well);
    }),
    '`gethostbyname()`' => calls(fn($n) =>
        told($n, gethostbyname('localhost') === '127.0.0.1', gethostbyname('localhost'))),
    '`proc_close()`' => calls(fn($n) => proc_close(proc_open(['sh', '-c', "exit $n"], [], $none))),
    '`register_tick_function()`' => own(
        fn($n) => register_tick_function(function () use ($n) { $GLOBALS['ticked'] = $n; }),
        function () {
            $GLOBALS['ticked'] = 'nothing';
            eval('declare(ticks=1) { $x = 1; }');
            return $GLOBALS['ticked'];
        }),
    '`register_shutdown_function()`' => own(
        fn($n) => register_shutdown_function(function () use ($n) { wait(); echo "($n)"; }),
        fn($n) => $n, fn() => null),
    '`usort()`' => calls(function ($n) {
        $a = numbers($n);
        usort($a, 'compare');
        return told($n, $a === range($n, $n + 3), implode(' ', $a));
    }),
    '`uksort()`, comparing in the other order' => calls(function ($n) {
        $a = array_flip(numbers($n));
        uksort($a, fn($x, $y) => compare($y, $x));
        return told($n, array_keys($a) === range($n + 3, $n), implode(' ', array_keys($a)));
    }),
    '`array_walk()`' => calls(function ($n) {
        $a = [1, 2, 3];
        array_walk($a, function (&$value, $key, $by) use ($n) {
            wait();
            $value = $value * $n + $by;
        }, $n);
        return told($n, $a === [2 * $n, 3 * $n, 4 * $n], implode(' ', $a));
    }),
    '`array_walk_recursive()`' => calls(function ($n) {
        $a = [1, [2, [3]]];
        array_walk_recursive($a, function (&$value) use ($n) { wait(); $value *= $n; });
        return told($n, $a === [$n, [2 * $n, [3 * $n]]]);
    }),
    '`array_map()`, `array_filter()`, `array_reduce()`' => calls(function ($n) {
        $a = array_filter(array_map('slowly', [$n, $n + 1]), fn($x) => slowly($x) === $n);
        return array_reduce($a, fn($sum, $x) => slowly($sum + $x), 0);
    }),
    '`array_diff_ukey()`, `array_uintersect()`' => calls(function ($n) {
        $a = array_diff_ukey(array_flip(numbers($n)), [$n => 0], 'compare');
        $b = array_uintersect(numbers($n), [$n], 'compare');
        return told($n, count($a) === 3 && array_values($b) === [$n]);
    }),
    '`preg_replace_callback()`' => calls(function ($n) {
        $inner = fn($m) => preg_replace_callback('/b+/', fn($m) => slowly($n) . $m[0], "$m[0]b");
        $text = preg_replace_callback('/a(.)/', $inner, 'a1a2');
        return told($n, $text === "a1{$n}ba2{$n}b", $text);
    }),
    '`json_encode()`' => calls(function ($n) {
        $text = json_encode(['a' => [new Slow($n), [new Slow($n)]]], JSON_PRETTY_PRINT);
        return told($n, json_decode($text, true) === ['a' => [$n, [$n]]], $text);
    }),
    '`json_encode()` too deep' => calls(function ($n) {
        $text = json_encode([[new Slow($n)]], 0, 1 + $n % 2);
        return told($n, ($text === false) === ($n % 2 === 0), var_export($text, true));
    }),
    '`serialize()`' => calls(function ($n) {
        $one = new Slow($n);
        $text = serialize([$one, [$one, new SlowSleeper($n)]]);
        [$a, [$b, $c]] = unserialize($text);
        return told($n, $a === $b && $a->n === $n && $c->n === $n, $text);
    }),
    '`__sleep()`, `__wakeup()`' => calls(function ($n) {
        $one = new SlowSleeper($n);
        $one->twice = [$one, new SlowSleeper($n)];
        $again = unserialize(serialize($one));
        return told($n, $again->n === $n && $again->twice[0] === $again
            && $again->twice[1]->n === $n);
    }),
    '`__toString()`' => calls(fn($n) => (int) implode('', ['', new Slow($n)])),
    '`__get()`, `__call()`, `__callStatic()`' => calls(function ($n) {
        $slow = new Slow($n);
        return told($n, $slow->other === $n && $slow->any(slowly($n), $slow->more()) === $n
            && Slow::any($n) === $n);
    }),
    'hooks of properties (PHP 8.4)' => calls_of_8_4(function ($n) {
        static $shared = new SlowHooks;
        $own = new SlowHooks;
        $own->kept = $n;
        $shared->kept = 1;
        $own->twice = $own->twice + 2 * $shared->kept - 2;
        $kept = $own->kept;
        return told($n, $kept === $n && $own->twice === 2 * $n, $kept);
    }),
    'lazy objects (PHP 8.4)' => calls_of_8_4(function ($n) {
        $class = new ReflectionClass(SlowStart::class);
        $ghost = $class->newLazyGhost(fn(SlowStart $one) => $one->begin(slowly($n)));
        $proxy = $class->newLazyProxy(function () use ($ghost, $n) {
            $one = new SlowStart;
            $one->begin(slowly($n) + $ghost->twice);
            return $one;
        });
        return told($n, $proxy->n === 3 * $n && $proxy->twice === 6 * $n && $ghost->n === $n);
    }),
    'lazy objects whose set-up fails (PHP 8.4)' => calls_of_8_4(function ($n) {
        $fail = fn() => throw new Exception((string) slowly($n));
        $ghost = (new ReflectionClass(SlowStart::class))->newLazyGhost($fail);
        try {
            return $ghost->n;
        } catch (Exception $e) {
            $is_lazy = (new ReflectionClass($ghost))->isUninitializedLazyObject($ghost);
            return told($n, $is_lazy && $e->getMessage() === "$n");
        }
    }),
    '`array_find()`, `array_any()`, `array_all()` (PHP 8.4)' => calls_of_8_4(function ($n) {
        $all = numbers($n);
        return told($n, array_find($all, fn($x) => slowly($x) === $n) === $n
            && array_any($all, fn($x) => slowly($x) === $n + 3)
            && array_all($all, fn($x) => slowly($x) >= $n));
    }),
    '`ArrayAccess`, `Countable`, iterators' => calls(function ($n) {
        $slow = new Slow($n);
        return told($n, $slow['x'] === $n && isset($slow['x']) && count($slow) === $n
            && iterator_to_array($slow) === [$n] && [...$slow] === [$n]);
    }),
    '`__destruct()`' => calls(function ($n) {
        $slow = new Slow($n);
        unset($GLOBALS['ended'][$n]);
        unset($slow);
        return $GLOBALS['ended'][$n];
    }),
    '`__destruct()` of cycles that are collected' => calls(function ($n) {
        $GLOBALS['ended'][$n] = 'not collected';
        new SlowCycle($n);
        gc_collect_cycles();
        return $GLOBALS['ended'][$n];
    }),
    '`__destruct()` while an exception is thrown' => calls(function ($n) {
        $fail = function () use ($n) {
            $slow = new Slow($n);
            throw new LogicException("$slow");
        };
        try {
            $fail();
        } catch (LogicException $e) {
            return (int) $e->getMessage();
        }
    }),
    '`print_r()`' => calls(fn($n) => (int) preg_replace('/\D/', '', print_r(new Slow($n), true))),
    'generators' => calls(function ($n) {
        $inner = (function () use ($n) { yield slowly($n); return slowly($n); })();
        $outer = (function () use ($inner) { $got = yield from $inner; yield $got; })();
        $all = [];
        foreach ($outer as $value) {
            wait();
            $all[] = $value;
        }
        return told($n, $all === [$n, $n], implode(' ', $all));
    }),
    'a Fiber of the application' => calls(function ($n) {
        $fiber = new Fiber(function ($x) { wait(); $y = Fiber::suspend($x); wait(); return $y; });
        $first = $fiber->start($n);
        wait();
        $fiber->resume($n);
        return told($n, $first === $n && $fiber->getReturn() === $n);
    }),
    'a heap of SPL' => calls(function ($n) {
        $heap = new SlowHeap;
        array_map($heap->insert(...), numbers($n));
        return $heap->extract();
    }),
    'reading from a stream wrapper of the application' => calls(fn($n) =>
        (int) preg_replace('/\D/', '', file_get_contents("slow://found/$n"))),
    '`include` by a stream wrapper of the application' => calls(fn($n) =>
        include "slow://found/$n"),
    'a stream filter of the application' => calls(function ($n) {
        $file = fopen('php://memory', 'w+');
        stream_filter_append($file, 'slow', STREAM_FILTER_WRITE, "$n");
        fwrite($file, '!');
        rewind($file);
        return (int) stream_get_contents($file);
    }),
    'handlers of an XML parser' => calls(function ($n) {
        $seen = '';
        $parser = xml_parser_create();
        xml_set_element_handler($parser, function ($p, $name) use (&$seen) {
            wait();
            $seen .= substr($name, 1);
        }, fn() => wait());
        xml_parse($parser, "<a$n><b/></a$n>", true);
        return (int) $seen;
    }),
    'a function of PHP in XPath' => calls(function ($n) {
        $document = new DOMDocument;
        $document->loadXML("<a><b>$n</b></a>");
        $path = new DOMXPath($document);
        $path->registerNamespace('php', 'http://php.net/xpath');
        $path->registerPhpFunctions(['slowly']);
        return (int) $path->evaluate('php:function("slowly", number(/a/b))');
    }),
    'a function of PHP in SQLite' => calls(function ($n) {
        $base = new PDO('sqlite::memory:');
        $base->sqliteCreateFunction('slowly', 'slowly');
        return (int) $base->query("select slowly($n)")->fetchColumn();
    }),
    'an exception out of `iterator_apply()`' => calls(function ($n) {
        try {
            iterator_apply(new ArrayIterator([1]), fn() => throw new Exception((string) slowly($n)));
        } catch (Exception $e) {
            return (int) $e->getMessage();
        }
    }),
]];
