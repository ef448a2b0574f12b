<?php

namespace Tokamak;

/** No connection became free in time. */
final class PoolException extends \RuntimeException
{
}

/**
 * One of a pool's places: a connection, or the right to open one.
 *
 * It is free again when nobody has it any more, however whoever had it has ended: `exit` leaves out
 * `catch` and `finally`, but not destructors.
 *
 * @internal
 */
final class PoolPlace
{
    /** An object or a resource; null: none is open. */
    public mixed $connection = null;

    /** Since when nobody uses it. */
    public float $since = 0.0;

    private bool $hasEnded = false;

    /** @param \Closure(): void $end tells the pool */
    public function __construct(private readonly ?\Closure $close, private readonly \Closure $end)
    {
    }

    /** Closes the connection. Another place may be made. */
    public function end(): void
    {
        if ($this->hasEnded) {
            return;
        }
        $this->hasEnded = true;
        try {
            $this->shut();
        } finally {
            ($this->end)();
        }
    }

    /** The place stays, for another connection. */
    public function shut(): void
    {
        $connection = $this->connection;
        $this->connection = null;
        if ($connection !== null && $this->close !== null) {
            try {
                ($this->close)($connection);
            } catch (\Exception) {
                // It goes anyway.
            }
        }
    }

    /** Throws nothing: at the end of a request nobody could catch it. */
    public function __destruct()
    {
        try {
            $this->end();
        } catch (CancellationError) {
            // The request ends anyway.
        } catch (\Throwable $failure) {
            \tokamak_log("Tokamak\Pool: a connection could not be closed: $failure", 8);
        }
    }
}

/**
 * What the pools have lent to one request; kept in its Context, and gone with it. What a request
 * has not put back may have an answer under way: its place ends, for nobody can use it again.
 *
 * @internal
 */
final class PoolLeases
{
    /** @var array<string, array{Pool, PoolPlace}> by connection */
    public array $lent = [];

    public static function ofThisRequest(): self
    {
        $leases = Context::get(self::class);
        if ($leases === null) {
            Context::set(self::class, $leases = new self());
        }

        return $leases;
    }

    public function countOf(Pool $pool): int
    {
        return \count(\array_filter($this->lent, static fn (array $one) => $one[0] === $pool));
    }
}

/**
 * Lasting connections of a worker, at most so many, each lent to one request at a time.
 *
 * Whoever waits gets the next place that is free, in the order of coming; so as long as anybody
 * waits, nothing is idle.
 */
final class Pool implements \Countable
{
    /** @var list<PoolPlace> connections that nobody uses; the one used last is last */
    private array $unused = [];

    /** @var \WeakMap<Deferred, true> turns of those who wait, in the order of coming */
    private \WeakMap $waiting;

    /** Places that there are: connections, idle or lent, and those that are being opened. */
    private int $taken = 0;

    private readonly \Closure $open;
    private readonly ?\Closure $check;
    private readonly ?\Closure $reset;
    private readonly ?\Closure $close;

    /** Called when a place has ended; does not keep the pool. */
    private readonly \Closure $placeEnded;

    /**
     * @param callable(): mixed $open gives a new connection: an object or a resource
     * @param callable(mixed): mixed $check false, or an exception: it is dead
     * @param callable(mixed): mixed $reset makes it as new again; false, or an exception: close it
     * @param callable(mixed): mixed $close before it is forgotten, which closes most
     * @param float $wait seconds until get() gives up; 0: at once, INF: never
     * @param float $idle seconds after which one that nobody uses is closed; INF: never
     * @param float $checkAfter seconds of idleness after which it is checked when it is lent
     */
    public function __construct(
        callable $open,
        private readonly int $size = 10,
        ?callable $check = null,
        ?callable $reset = null,
        ?callable $close = null,
        private readonly float $wait = 5.0,
        private readonly float $idle = 60.0,
        private readonly float $checkAfter = 1.0,
    ) {
        if ($size < 1) {
            throw new \ValueError("Tokamak\\Pool: \$size must be at least 1, $size given");
        }
        self::demandSeconds('wait', $wait);
        self::demandSeconds('idle', $idle);
        self::demandSeconds('checkAfter', $checkAfter);
        $this->open = $open(...);
        $this->check = $check === null ? null : $check(...);
        $this->reset = $reset === null ? null : $reset(...);
        $this->close = $close === null ? null : $close(...);
        $this->waiting = new \WeakMap();
        $pool = \WeakReference::create($this);
        $this->placeEnded = static fn () => $pool->get()?->replacePlace();
    }

    /**
     * A connection that is this request's until it is put back.
     *
     * @throws PoolException none became free in time
     */
    public function get(?float $seconds = null): mixed
    {
        if ($seconds !== null) {
            self::demandSeconds('seconds', $seconds);
        }
        $place = $this->take($seconds ?? $this->wait);
        $leases = PoolLeases::ofThisRequest();
        $leases->lent[self::key($place->connection)] = [$this, $place];

        return $place->connection;
    }

    /** Gives it to whoever waits, or keeps it. */
    public function put(mixed $connection): void
    {
        $place = $this->endLease($connection);
        try {
            $isGood = $this->reset === null || ($this->reset)($connection) !== false;
        } catch (\Throwable $failure) {
            $place->end();
            throw $failure;
        }
        if ($isGood) {
            $this->pass($place);
        } else {
            $place->end();
        }
    }

    /** Closes one that was got, because it is broken: another may be opened in its place. */
    public function discard(mixed $connection): void
    {
        $this->endLease($connection)->end();
    }

    /**
     * Calls with a connection, and puts it back. After an exception it is closed: what it was
     * about to say is not known.
     *
     * @throws PoolException none became free in time
     */
    public function use(callable $call, ?float $seconds = null): mixed
    {
        $connection = $this->get($seconds);
        try {
            $result = $call($connection);
        } catch (\Throwable $failure) {
            $this->discard($connection);
            throw $failure;
        }
        $this->put($connection);

        return $result;
    }

    /** Connections that are open, or being opened. */
    public function count(): int
    {
        return $this->taken;
    }

    /** @return array{size: int, open: int, idle: int, waiting: int} */
    public function status(): array
    {
        return [
            'size' => $this->size,
            'open' => $this->taken,
            'idle' => \count($this->unused),
            'waiting' => \count($this->waiting),
        ];
    }

    private function take(float $seconds): PoolPlace
    {
        $this->closeIdle();
        if ($this->unused !== []) {
            $place = \array_pop($this->unused);
        } elseif ($this->taken < $this->size) {
            $place = $this->newPlace();
        } else {
            $place = $this->awaitTurn($seconds);
        }
        try {
            $this->connect($place);
        } catch (\Throwable $failure) {
            $place->end();
            throw $failure;
        }

        return $place;
    }

    /** See that there is a connection in it, and that it is not dead. */
    private function connect(PoolPlace $place): void
    {
        if ($place->connection !== null && !$this->isAlive($place)) {
            $place->shut();
        }
        if ($place->connection === null) {
            $connection = ($this->open)();
            self::key($connection);
            $place->connection = $connection;
        }
    }

    private function awaitTurn(float $seconds): PoolPlace
    {
        $turn = new Deferred();
        $this->waiting[$turn] = true;
        try {
            return await($turn, $seconds);
        } catch (TimeoutException | DeadlockError $failure) {
            $mine = PoolLeases::ofThisRequest()->countOf($this);
            throw new PoolException(
                ($failure instanceof DeadlockError
                    ? 'no connection is free, and nothing else can run here that would free one'
                    : "no connection became free within $seconds s")
                . ": all {$this->size} of the pool are lent, $mine of them to this request",
                0,
                $failure
            );
        } catch (\Throwable $failure) {
            // Cancelled, it may be, when its turn had come already.
            if ($turn->isCompleted()) {
                $this->pass(await($turn));
            }
            throw $failure;
        } finally {
            // The exceptions know the turn, and may be kept for long.
            unset($this->waiting[$turn]);
        }
    }

    /** Hands a place on: to whoever has waited for longest, or among the idle. */
    private function pass(PoolPlace $place): void
    {
        $place->since = self::now();
        foreach ($this->waiting as $turn => $_) {
            unset($this->waiting[$turn]);
            $turn->complete($place);

            return;
        }
        if ($place->connection === null) {
            $place->end();

            return;
        }
        $this->unused[] = $place;
        $this->closeIdle();
    }

    private function newPlace(): PoolPlace
    {
        $this->taken++;

        return new PoolPlace($this->close, $this->placeEnded);
    }

    /** One has ended: whoever waits gets a new one. */
    private function replacePlace(): void
    {
        $this->taken--;
        if (\count($this->waiting) > 0) {
            $this->pass($this->newPlace());
        }
    }

    private function isAlive(PoolPlace $place): bool
    {
        if ($this->check === null || self::now() - $place->since < $this->checkAfter) {
            return true;
        }
        try {
            return ($this->check)($place->connection) !== false;
        } catch (\Exception) {
            return false;
        }
    }

    private function closeIdle(): void
    {
        while ($this->unused !== [] && self::now() - $this->unused[0]->since >= $this->idle) {
            \array_shift($this->unused)->end();
        }
    }

    private function endLease(mixed $connection): PoolPlace
    {
        $leases = PoolLeases::ofThisRequest();
        $key = self::key($connection);
        [$pool, $place] = $leases->lent[$key] ?? [null, null];
        if ($pool !== $this) {
            throw new \LogicException(
                'this connection is not lent to this request by this pool, or was put back already'
            );
        }
        unset($leases->lent[$key]);

        return $place;
    }

    private static function demandSeconds(string $name, float $seconds): void
    {
        if (!($seconds >= 0)) {
            throw new \ValueError("Tokamak\\Pool: \$$name must be 0 or greater, $seconds given");
        }
    }

    private static function key(mixed $connection): string
    {
        return match (true) {
            \is_object($connection) => 'object ' . \spl_object_id($connection),
            \is_resource($connection) => 'resource ' . \get_resource_id($connection),
            default => throw new \TypeError(
                'Tokamak\Pool: a connection is an object or a resource, the callback gave '
                . \get_debug_type($connection)
            ),
        };
    }

    private static function now(): float
    {
        return \hrtime(true) / 1e9;
    }
}
