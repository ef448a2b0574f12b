<?php

/**
 * What Tokamak adds to PHP, for IDEs and static analysis. It is not to be run.
 *
 * PhpStorm: Settings, PHP, Include path. PHPStan: `scanFiles`. Psalm: `<stubs>`.
 */

namespace {
    /**
     * Waits for the next request of a worker script, calls the handler, sends the response. In
     * async mode one call serves all requests.
     *
     * @return bool false: the worker is to end
     */
    function tokamak_handle_request(callable $callback): bool
    {
    }

    /** Sends the output so far as the whole response, and lets the script go on. */
    function tokamak_finish_request(): bool
    {
    }

    /** Sends the current headers, with a status from 100 to 199 as an interim response. */
    function headers_send(int $status = 200): int
    {
    }

    /**
     * Adds a field that follows the body of the response.
     *
     * @return bool false: it cannot be sent any more, or there are too many
     *
     * @throws ValueError for what is no such field
     */
    function tokamak_trailer(string $name, string $value): bool
    {
    }

    /**
     * Publishes an update in the hub of the site.
     *
     * @param string|list<string> $topics
     *
     * @return string the name of the update
     *
     * @throws RuntimeException if the site has no hub, or the hub refuses the update
     */
    function tokamak_publish(string|array $topics, string $data): string
    {
    }

    /**
     * The same, with all that the Mercure protocol has.
     *
     * @param string|list<string> $topics
     * @param bool $private only for subscribers who are authorised for one of the topics
     * @param int|null $retry after how many milliseconds clients that lose their connection come back
     *
     * @throws RuntimeException if the site has no hub, or the hub refuses the update
     */
    function mercure_publish(
        string|array $topics,
        string $data = '',
        bool $private = false,
        ?string $id = null,
        ?string $type = null,
        ?int $retry = null,
    ): string {
    }

    /** @return array<string, string> with the names that the client sent */
    function tokamak_request_headers(): array
    {
    }

    /** @return array<string, string>|false what header() has set so far */
    function tokamak_response_headers(): array|bool
    {
    }

    /**
     * A line to the server's error log.
     *
     * @param int $level 0: INFO, from 4: WARN, from 8: ERROR
     * @param array<string, mixed> $context
     */
    function tokamak_log(string $message, int $level = 0, array $context = []): void
    {
    }

    /** In a boot script: from now on $by is run and included in place of $file. */
    function tokamak_substitute_file(string $file, string $by): bool
    {
    }

    /** In a boot script: a new image is made when this file or directory changes. */
    function tokamak_watch_file(string $path): bool
    {
    }

    /** Hands the request to the workers of the site's fallback, and ends the script. */
    function tokamak_decline(): bool
    {
    }

    /**
     * In a boot script, or before the loop of a worker script: is called in each worker of a
     * sealed site, and what it opens is kept.
     */
    function tokamak_keep_connections(callable $open): bool
    {
    }
}

namespace Tokamak {
    /**
     * Begins a task in a Fiber of its own, when the one that runs waits next. Outside of async
     * mode it is done when this returns.
     */
    function async(callable $task, mixed ...$args): Coroutine
    {
    }

    /**
     * Waits for a result, or throws its exception.
     *
     * @param ?float $seconds null, INF: as long as it takes
     * @throws TimeoutException
     * @throws DeadlockError
     */
    function await(Awaitable $awaitable, ?float $seconds = null): mixed
    {
    }

    /**
     * Waits for all results. Throws the first exception, and cancels the rest.
     *
     * @template K of array-key
     * @template T
     * @param array<K, (callable(): T)|Awaitable> $tasks
     * @return array<K, T>
     * @throws TimeoutException
     * @throws DeadlockError
     */
    function all(array $tasks, ?float $seconds = null): array
    {
    }

    /**
     * The result of whichever is ready first, or its exception. Cancels the rest.
     *
     * @template T
     * @param non-empty-array<(callable(): T)|Awaitable> $tasks
     * @return T
     * @throws TimeoutException
     * @throws DeadlockError
     */
    function race(array $tasks, ?float $seconds = null): mixed
    {
    }

    /** @internal whether no Fiber runs but that of a request or of a coroutine */
    function is_outermost(): bool
    {
    }

    /** What await() takes. Only the server's own classes implement it. */
    interface Awaitable
    {
    }

    /** What async() has begun. */
    final class Coroutine implements Awaitable
    {
        public function isCompleted(): bool
        {
        }

        public function isCancelled(): bool
        {
        }

        /** Breaks off what it waits for, now or next, by this exception. */
        public function cancel(?CancellationError $reason = null): void
        {
        }
    }

    /** A result that the program itself brings, once. */
    final class Deferred implements Awaitable
    {
        public function isCompleted(): bool
        {
        }

        public function complete(mixed $value = null): void
        {
        }

        public function error(\Throwable $exception): void
        {
        }
    }

    /** What a request keeps of its own, and knows of itself. */
    final class Context
    {
        public static function get(string $key, mixed $default = null): mixed
        {
        }

        public static function set(string $key, mixed $value): void
        {
        }

        public static function has(string $key): bool
        {
        }

        public static function unset(string $key): void
        {
        }

        /** The request's name in the logs; empty outside of a request. */
        public static function id(): string
        {
        }

        /** When pool.request_timeout ends the request, as microtime(true) counts; null: never. */
        public static function deadline(): ?float
        {
        }

        /** Whether the client has left, or the request's time is over. */
        public static function isCancelled(): bool
        {
        }

        /** @throws CancellationError if the request is cancelled */
        public static function throwIfCancelled(): void
        {
        }
    }

    /** Thrown where a request or coroutine waits that is cancelled. */
    class CancellationError extends \Error
    {
    }

    /** Nothing came in time. */
    class TimeoutException extends \RuntimeException
    {
    }

    /** What is awaited cannot come, because nothing else can run. */
    class DeadlockError extends \Error
    {
    }

    /** Another request waits in the connection or stream that was to be used. */
    class ConnectionInUse extends \RuntimeException
    {
    }

    /** No connection became free in time. */
    final class PoolException extends \RuntimeException
    {
    }

    /**
     * Lasting connections of a worker, at most so many, each lent to one request at a time.
     *
     * @template T of object|resource
     */
    final class Pool implements \Countable
    {
        /**
         * @param callable(): T $open gives a new connection
         * @param int $size so many at most, in each worker
         * @param null|callable(T): mixed $check false, or an exception: it is dead
         * @param null|callable(T): mixed $reset when it is put back; false: it is closed
         * @param null|callable(T): mixed $close before it is forgotten
         * @param float $wait seconds until get() gives up; 0: at once, INF: never
         * @param float $idle seconds after which one that nobody uses is closed; INF: never
         * @param float $checkAfter seconds of idleness after which it is checked
         */
        public function __construct(
            callable $open,
            int $size = 10,
            ?callable $check = null,
            ?callable $reset = null,
            ?callable $close = null,
            float $wait = 5.0,
            float $idle = 60.0,
            float $checkAfter = 1.0,
        ) {
        }

        /**
         * @return T
         * @throws PoolException
         */
        public function get(?float $seconds = null): mixed
        {
        }

        /** @param T $connection */
        public function put(mixed $connection): void
        {
        }

        /**
         * Gives it back because it is broken.
         *
         * @param T $connection
         */
        public function discard(mixed $connection): void
        {
        }

        /**
         * Calls with a connection, and puts it back.
         *
         * @template R
         * @param callable(T): R $call
         * @return R
         * @throws PoolException
         */
        public function use(callable $call, ?float $seconds = null): mixed
        {
        }

        public function count(): int
        {
        }

        /** @return array{size: int, open: int, idle: int, waiting: int} */
        public function status(): array
        {
        }
    }
}
