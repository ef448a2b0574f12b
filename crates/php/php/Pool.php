<?php

namespace Tokamak;

/** No connection became free in time. */
final class PoolException extends \RuntimeException
{
}

/** What the pools have lent to one request; kept in its Context, and gone with it. */
final class PoolLeases
{
    /** @var array<string, array{Pool, mixed}> */
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

    /** What a request has not put back may have an answer under way: nobody can use it again. */
    public function __destruct()
    {
        foreach ($this->lent as [$pool, $connection]) {
            $pool->drop($connection);
        }
    }
}

/**
 * Lasting connections of a worker, at most so many, each lent to one request at a time.
 *
 * A place is a connection, or the right to open one. Whoever waits gets the next place that is
 * free, in the order of coming; so as long as somebody waits, nothing is idle.
 */
final class Pool implements \Countable
{
    /** @var list<array{mixed, float}> those that nobody uses, since when; used last is last */
    private array $unused = [];

    /** @var array<int, Deferred> in the order of coming */
    private array $waiting = [];

    /** Places that are taken: by connections, idle or lent, and by those that are being opened. */
    private int $taken = 0;

    private readonly \Closure $open;
    private readonly ?\Closure $check;
    private readonly ?\Closure $reset;
    private readonly ?\Closure $close;

    /**
     * @param callable(): mixed $open gives a new connection: an object or a resource
     * @param callable(mixed): mixed $check false, or an exception: it is dead
     * @param callable(mixed): mixed $reset makes it as new again; false, or an exception: close it
     * @param callable(mixed): mixed $close before it is forgotten, which closes most
     * @param float $wait seconds until get() gives up
     * @param float $idle seconds after which one that nobody uses is closed
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
            throw new \ValueError('Tokamak\Pool: the size must be at least 1');
        }
        $this->open = $open(...);
        $this->check = $check === null ? null : $check(...);
        $this->reset = $reset === null ? null : $reset(...);
        $this->close = $close === null ? null : $close(...);
    }

    /**
     * A connection that is this request's until it is put back.
     *
     * @throws PoolException none became free in time
     */
    public function get(?float $seconds = null): mixed
    {
        $connection = $this->take($seconds ?? $this->wait);
        $leases = PoolLeases::ofThisRequest();
        $leases->lent[self::key($connection)] = [$this, $connection];

        return $connection;
    }

    /** Gives it to whoever waits, or keeps it. */
    public function put(mixed $connection): void
    {
        $this->endLease($connection);
        try {
            $isGood = $this->reset === null || ($this->reset)($connection) !== false;
        } catch (\Throwable $failure) {
            $this->drop($connection);
            throw $failure;
        }
        if ($isGood) {
            $this->pass($connection);
        } else {
            $this->drop($connection);
        }
    }

    /** Closes one that was got, because it is broken: another may be opened in its place. */
    public function discard(mixed $connection): void
    {
        $this->endLease($connection);
        $this->drop($connection);
    }

    /**
     * Calls with a connection, and puts it back. After an exception it is closed: what it was
     * about to say is not known.
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

    /** @internal closes a connection, whose place is free then */
    public function drop(mixed $connection): void
    {
        try {
            $this->shut($connection);
        } finally {
            $this->free();
        }
    }

    private function take(float $seconds): mixed
    {
        $this->closeIdle();
        if ($this->unused !== []) {
            [$connection, $since] = \array_pop($this->unused);
            try {
                $isAlive = $this->isAlive($connection, $since);
            } catch (\Throwable $failure) {
                $this->drop($connection);
                throw $failure;
            }
            if ($isAlive) {
                return $connection;
            }
            $this->shut($connection);
            unset($connection);

            return $this->openOne();
        }
        if ($this->taken < $this->size) {
            $this->taken++;

            return $this->openOne();
        }

        return $this->await($seconds) ?? $this->openOne();
    }

    /** A connection, or null for a place without one. */
    private function await(float $seconds): mixed
    {
        $turn = new Deferred();
        $this->waiting[\spl_object_id($turn)] = $turn;
        try {
            return await($turn, $seconds);
        } catch (TimeoutException | DeadlockError $failure) {
            $mine = PoolLeases::ofThisRequest()->countOf($this);
            throw new PoolException(
                "no connection became free within $seconds s: all {$this->size} of the pool are "
                . "lent, $mine of them to this request",
                0,
                $failure
            );
        } catch (\Throwable $failure) {
            // Cancelled, it may be, when its turn had come already.
            if ($turn->isCompleted()) {
                $place = await($turn);
                $place === null ? $this->free() : $this->pass($place);
            }
            throw $failure;
        } finally {
            unset($this->waiting[\spl_object_id($turn)]);
        }
    }

    /** Hands a place on: to whoever has waited for longest, or among the idle. */
    private function pass(mixed $connection): void
    {
        foreach ($this->waiting as $id => $turn) {
            unset($this->waiting[$id]);
            $turn->complete($connection);

            return;
        }
        $this->unused[] = [$connection, self::now()];
        $this->closeIdle();
    }

    private function free(): void
    {
        if ($this->waiting !== []) {
            $this->pass(null);
        } else {
            $this->taken--;
        }
    }

    /** In a place that is taken already. */
    private function openOne(): mixed
    {
        try {
            $connection = ($this->open)();
            self::key($connection);

            return $connection;
        } catch (\Throwable $failure) {
            $this->free();
            throw $failure;
        }
    }

    private function isAlive(mixed $connection, float $since): bool
    {
        if ($this->check === null || self::now() - $since < $this->checkAfter) {
            return true;
        }
        try {
            return ($this->check)($connection) !== false;
        } catch (\Exception) {
            return false;
        }
    }

    private function closeIdle(): void
    {
        while ($this->unused !== [] && self::now() - $this->unused[0][1] >= $this->idle) {
            [$connection] = \array_shift($this->unused);
            $this->drop($connection);
            unset($connection);
        }
    }

    private function shut(mixed $connection): void
    {
        if ($this->close !== null) {
            try {
                ($this->close)($connection);
            } catch (\Exception) {
                // It goes anyway.
            }
        }
    }

    private function endLease(mixed $connection): void
    {
        $leases = PoolLeases::ofThisRequest();
        $key = self::key($connection);
        if (($leases->lent[$key][0] ?? null) !== $this) {
            throw new \LogicException(
                'this connection is not lent to this request by this pool, or was put back already'
            );
        }
        unset($leases->lent[$key]);
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
