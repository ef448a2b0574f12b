<?php
// One row of the table of extensions (docs/works-with.md, tests/it/works_with): an ordinary use of
// one of PHP's extensions. The environment names it.

/**
 * The row: `use`, called by each request, with what `make` has made; `is`, what it returns; and
 * `make`, which a boot calls once, and a request where there was no boot.
 */
function row(): array
{
    static $row;
    return $row ??= array_merge(...array_map(
        static fn (string $file): array => require $file,
        glob(__DIR__ . '/extensions/*.php'),
    ))[getenv('ROW')];
}

/** What a boot prepares, if the extension has something to prepare. */
function made(): mixed
{
    return isset(row()['make']) ? row()['make']() : null;
}

/** Answers a request: `ok`, or what came instead. */
function answer(mixed $made): void
{
    header('X-Process: ' . getmypid());
    try {
        $seen = row()['use']($made);
        $held = array_map(static fn ($what) => count(scandir("/proc/self/$what")), ['task', 'fd']);
        header('X-Holds: ' . implode(' ', $held));
        echo $seen === row()['is'] ? 'ok' : 'it returns ' . json_encode($seen, JSON_PARTIAL_OUTPUT_ON_ERROR);
    } catch (Throwable $thrown) {
        echo get_class($thrown), ': ', $thrown->getMessage();
    }
}
