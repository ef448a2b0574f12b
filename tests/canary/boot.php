<?php
// The canary suite: one request pollutes a channel, the next looks for it. This is what a worker
// does once, and what classic mode does for each request: declare the channels. See
// tests/it/canary.rs for the order of the requests.

/** What the request after the polluting one finds. */
const RESET = 'reset';       // nothing
const STAYS = 'stays';       // the pollution
const SHARED = 'shared';     // the pollution, and that is what it is for
const REPLACED = 'replaced'; // nothing, because another process serves it

/** One way by which a request could reach the next one, and what becomes of it in each mode. */
final class Channel
{
    /**
     * @param Closure(): void $pollute
     * @param Closure(): mixed $probe what is seen: without pollution the same in every request
     * @param bool $later the polluting request cannot see its own pollution
     * @param ?string $needs an extension without which there is no such channel
     * @param bool $exists whether the library that is installed does that at all
     */
    public function __construct(
        public Closure $pollute,
        public Closure $probe,
        public string $fpm = RESET,
        public string $classic = RESET,
        public string $worker = RESET,
        public string $sealed = RESET,
        public bool $later = false,
        public ?string $needs = null,
        public bool $exists = true,
    ) {
    }

    public function isHere(): bool
    {
        return $this->exists && ($this->needs === null || extension_loaded($this->needs));
    }
}

/**
 * Where channels keep what would otherwise end with the request by itself: an open file, a fiber.
 */
final class Kept
{
    public static array $things = [];
}

/** A file by which requests speak to each other outside of PHP. */
function note(string $name): string
{
    return getenv('STATE') . "/canary-$name";
}

/** @return array<string, array<string, Channel>> the channels by topic and name */
function channels(): array
{
    static $channels;
    return $channels ??= [
        'Variables' => require __DIR__ . '/channels/variables.php',
        'Code' => require __DIR__ . '/channels/code.php',
        'Settings and handlers' => require __DIR__ . '/channels/settings.php',
        'Request and response' => require __DIR__ . '/channels/exchange.php',
        'Sessions' => require __DIR__ . '/channels/sessions.php',
        'Streams and files' => require __DIR__ . '/channels/streams.php',
        'Descriptors of the boot' => require __DIR__ . '/channels/descriptors.php',
        'Extensions' => require __DIR__ . '/channels/extensions.php',
        'Libraries' => require __DIR__ . '/channels/libraries.php',
        'Process' => require __DIR__ . '/channels/process.php',
    ];
}

/**
 * Answers `?channel=NAME&do=pollute` and `&do=probe`, without these the list of the channels, and
 * `?do=end` when all is seen.
 */
function serve(): void
{
    $do = $_GET['do'] ?? 'list';
    if ($do === 'list') {
        $seen = [];
        foreach (channels() as $topic => $of_topic) {
            foreach ($of_topic as $name => $channel) {
                $seen[] = [
                    'topic' => $topic,
                    'name' => $name,
                    'expected' => [
                        'php-fpm' => $channel->fpm,
                        'classic' => $channel->classic,
                        'worker' => $channel->worker,
                        'sealed' => $channel->sealed,
                    ],
                    'later' => $channel->later,
                    'here' => $channel->isHere(),
                    'ffi' => $channel->needs === 'ffi',
                ];
            }
        }
    } elseif ($do === 'end') {
        Opened::end();
        $seen = null;
    } else {
        $channel = array_merge(...array_values(channels()))[$_GET['channel']];
        if ($do === 'pollute') {
            ($channel->pollute)();
        }
        $seen = ($channel->probe)();
    }
    // With exceptions, because otherwise json_last_error(), a channel, would change.
    echo json_encode(['pid' => getmypid(), 'seen' => $seen], JSON_THROW_ON_ERROR);
}

$GLOBALS['of_boot'] = 'as booted';
channels();
