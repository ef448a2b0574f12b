<?php

namespace Tokamak;

use Revolt\EventLoop\CallbackType;
use Revolt\EventLoop\Driver;
use Revolt\EventLoop\FiberLocal;
use Revolt\EventLoop\InvalidCallbackError;
use Revolt\EventLoop\Suspension;
use Revolt\EventLoop\UncaughtThrowable;
use Revolt\EventLoop\UnsupportedFeatureException;

/** @internal what is to be called, and when */
final class RevoltCallback
{
    public bool $isEnabled = true;
    public bool $isReferenced = true;

    /** Since the tick after the one in which it was enabled. */
    public bool $isActive = false;

    /** Of a timer: seconds, as RevoltDriver::now() counts them. */
    public float $due = 0.0;

    public function __construct(
        public readonly string $id,
        public readonly CallbackType $type,
        public readonly \Closure $closure,
        public readonly mixed $stream = null,
        public readonly float $interval = 0.0,
    ) {
    }

    public function isTimer(): bool
    {
        return $this->type === CallbackType::Delay || $this->type === CallbackType::Repeat;
    }

    public function call(): void
    {
        $result = $this->stream === null
            ? ($this->closure)($this->id)
            : ($this->closure)($this->id, $this->stream);
        if ($result !== null) {
            throw InvalidCallbackError::nonNullReturn($this->id, $this->closure);
        }
    }
}

/** @internal ends the loop of a request with it; kept in its Context */
final class RevoltEnd
{
    public function __construct(private readonly RevoltDriver $driver)
    {
    }

    public function __destruct()
    {
        $this->driver->end();
    }
}

/**
 * Revolt's event loop for the requests of this server: REVOLT_DRIVER=Tokamak\RevoltDriver.
 *
 * Each request of async mode has a driver of its own. Revolt's {main} is the code that runs in no
 * Fiber made by PHP: the handler of a request, or the script in other modes. Such code runs the
 * loop while it is suspended; callbacks run in Fibers that the loop makes, and suspend these.
 * What the loop waits for, stream_select() and usleep() wait for, so other requests run meanwhile.
 */
final class RevoltDriver implements Driver
{
    /** @var array<string, RevoltCallback> */
    private array $callbacks = [];

    /** @var array<string, RevoltCallback> enabled since the last tick; deferred ones are apart */
    private array $enabled = [];

    /** @var array<string, RevoltCallback> */
    private array $deferred = [];

    /** @var \SplQueue<array{\Closure, array}> */
    private \SplQueue $microtasks;

    /** @var \SplQueue<RevoltCallback> to be called in this tick */
    private \SplQueue $ready;

    /** @var \SplMinHeap<array{float, string}> those that are off or set anew are in it, too */
    private \SplMinHeap $timers;

    /** @var array<string, array<int, array<string, RevoltCallback>>> by type, stream and id */
    private array $streams = ['Readable' => [], 'Writable' => []];

    /** @var \WeakMap<object, \WeakReference<RevoltSuspension>> by Fiber; by this: {main} */
    private \WeakMap $suspensions;

    /** @var array<int, \Fiber> those that are suspended, so that they last until they go on */
    private array $suspended = [];

    private ?\Closure $errorHandler = null;

    /** Calls callbacks; another one takes its place when a callback suspends it. */
    private ?\Fiber $caller = null;

    /** Ends the loop. */
    private ?\Throwable $failure = null;

    private bool $isRunning = false;
    private bool $isStopped = false;
    private ?RevoltSuspension $outermost = null;
    private bool $endsWithRequest = false;
    private string $nextId = 'a';

    public function __construct()
    {
        $this->clear();
    }

    public function run(): void
    {
        if (!$this->isRunning && !is_outermost()) {
            throw new \Error('The event loop cannot be run within a Fiber');
        }
        $this->runFor(null);
    }

    public function stop(): void
    {
        $this->isStopped = true;
    }

    public function isRunning(): bool
    {
        return $this->isRunning;
    }

    public function getSuspension(): Suspension
    {
        $key = \Fiber::getCurrent() ?? $this;
        $suspension = ($this->suspensions[$key] ?? null)?->get();
        if ($suspension === null) {
            $suspension = new RevoltSuspension($this, is_outermost());
            $this->suspensions[$key] = \WeakReference::create($suspension);
        }

        return $suspension;
    }

    public function queue(\Closure $closure, mixed ...$args): void
    {
        $this->endWithRequest();
        $this->microtasks->enqueue([$closure, $args]);
    }

    public function defer(\Closure $closure): string
    {
        return $this->add(new RevoltCallback($this->nextId++, CallbackType::Defer, $closure));
    }

    public function delay(float $delay, \Closure $closure): string
    {
        if ($delay < 0) {
            throw new \Error('Delay must be greater than or equal to zero');
        }
        $type = CallbackType::Delay;

        return $this->add(new RevoltCallback($this->nextId++, $type, $closure, null, $delay));
    }

    public function repeat(float $interval, \Closure $closure): string
    {
        if ($interval < 0) {
            throw new \Error('Interval must be greater than or equal to zero');
        }
        $type = CallbackType::Repeat;

        return $this->add(new RevoltCallback($this->nextId++, $type, $closure, null, $interval));
    }

    public function onReadable(mixed $stream, \Closure $closure): string
    {
        $type = CallbackType::Readable;

        return $this->add(new RevoltCallback($this->nextId++, $type, $closure, $stream));
    }

    public function onWritable(mixed $stream, \Closure $closure): string
    {
        $type = CallbackType::Writable;

        return $this->add(new RevoltCallback($this->nextId++, $type, $closure, $stream));
    }

    public function onSignal(int $signal, \Closure $closure): string
    {
        throw new UnsupportedFeatureException(
            'signals of a worker process are the server\'s: an application cannot handle them'
        );
    }

    public function enable(string $callbackId): string
    {
        $callback = $this->find($callbackId);
        if (!$callback->isEnabled) {
            $callback->isEnabled = true;
            $this->schedule($callback);
        }

        return $callbackId;
    }

    public function disable(string $callbackId): string
    {
        $callback = $this->callbacks[$callbackId] ?? null;
        if ($callback?->isEnabled) {
            $callback->isEnabled = $callback->isActive = false;
            unset($this->enabled[$callbackId], $this->deferred[$callbackId]);
            if ($callback->stream !== null) {
                $this->unwatch($callback);
            }
        }

        return $callbackId;
    }

    public function cancel(string $callbackId): void
    {
        $this->disable($callbackId);
        unset($this->callbacks[$callbackId]);
    }

    public function reference(string $callbackId): string
    {
        $this->find($callbackId)->isReferenced = true;

        return $callbackId;
    }

    public function unreference(string $callbackId): string
    {
        if (isset($this->callbacks[$callbackId])) {
            $this->callbacks[$callbackId]->isReferenced = false;
        }

        return $callbackId;
    }

    public function setErrorHandler(?\Closure $errorHandler): void
    {
        $this->endWithRequest();
        $this->errorHandler = $errorHandler;
    }

    public function getErrorHandler(): ?\Closure
    {
        return $this->errorHandler;
    }

    public function getHandle(): mixed
    {
        return null;
    }

    public function getIdentifiers(): array
    {
        return \array_keys($this->callbacks);
    }

    public function getType(string $callbackId): CallbackType
    {
        return $this->find($callbackId)->type;
    }

    public function isEnabled(string $callbackId): bool
    {
        return $this->find($callbackId)->isEnabled;
    }

    public function isReferenced(string $callbackId): bool
    {
        return $this->find($callbackId)->isReferenced;
    }

    public function __debugInfo(): array
    {
        return \array_map(static fn (RevoltCallback $callback) => [
            'type' => $callback->type,
            'enabled' => $callback->isEnabled,
            'referenced' => $callback->isReferenced,
        ], $this->callbacks);
    }

    /**
     * @internal runs until this one is resumed; null: until the loop is stopped. Or until there
     * is nothing left to wait for.
     */
    public function runFor(?RevoltSuspension $outermost): void
    {
        if ($this->isRunning) {
            throw new \Error(
                'The event loop is already running. A coroutine of Tokamak\async() has a loop in '
                . 'common with its request: call Revolt\EventLoop::queue() or Amp\async() instead'
            );
        }
        $this->endWithRequest();
        $this->isRunning = true;
        $this->isStopped = false;
        $this->outermost = $outermost;
        try {
            $this->callAll();
            while (!$this->isInterrupted() && !$this->isStopped && !$this->isEmpty()) {
                $this->tick();
                $this->callAll();
            }
            if ($this->failure !== null) {
                throw $this->failure;
            }
        } finally {
            $this->isRunning = false;
            $this->failure = $this->outermost = null;
        }
    }

    /** @internal */
    public function suspendFiber(): mixed
    {
        $this->endWithRequest();
        // Not in a variable here: the Fiber would hold itself.
        $id = \spl_object_id(\Fiber::getCurrent());
        $this->suspended[$id] = \Fiber::getCurrent();
        try {
            return \Fiber::suspend();
        } finally {
            unset($this->suspended[$id]);
        }
    }

    /** @internal drops all callbacks, and Fibers that wait for them, whose finally blocks run */
    public function end(): void
    {
        $this->clear();
        $this->suspended = [];
        $this->callbacks = $this->enabled = $this->deferred = [];
        $this->streams = ['Readable' => [], 'Writable' => []];
        $this->errorHandler = $this->caller = null;
        // An exit leaves them, since it runs no finally blocks.
        $this->isRunning = false;
        $this->failure = $this->outermost = null;
        $this->endsWithRequest = false;
    }

    private function clear(): void
    {
        $this->microtasks = new \SplQueue();
        $this->ready = new \SplQueue();
        $this->timers = new \SplMinHeap();
        $this->suspensions = new \WeakMap();
    }

    /** What it holds leads to itself, so somebody has to end it. */
    private function endWithRequest(): void
    {
        if (!$this->endsWithRequest) {
            $this->endsWithRequest = true;
            Context::set(self::class . \spl_object_id($this), new RevoltEnd($this));
        }
    }

    private function find(string $id): RevoltCallback
    {
        return $this->callbacks[$id] ?? throw InvalidCallbackError::invalidIdentifier($id);
    }

    private function add(RevoltCallback $callback): string
    {
        $this->endWithRequest();
        $this->callbacks[$callback->id] = $callback;
        $this->schedule($callback);

        return $callback->id;
    }

    /** For the next tick. */
    private function schedule(RevoltCallback $callback): void
    {
        if ($callback->type === CallbackType::Defer) {
            $this->deferred[$callback->id] = $callback;

            return;
        }
        if ($callback->isTimer()) {
            $callback->due = self::now() + $callback->interval;
        }
        $this->enabled[$callback->id] = $callback;
    }

    private function isEmpty(): bool
    {
        foreach ($this->callbacks as $callback) {
            if ($callback->isEnabled && $callback->isReferenced) {
                return false;
            }
        }

        return true;
    }

    /** Whether what has run the loop goes on now. */
    private function isInterrupted(): bool
    {
        return $this->failure !== null
            || ($this->outermost !== null && !$this->outermost->isPending);
    }

    private function tick(): void
    {
        foreach ($this->enabled as $callback) {
            $callback->isActive = true;
            if ($callback->isTimer()) {
                $this->timers->insert([$callback->due, $callback->id]);
            } else {
                $stream = (int) $callback->stream;
                $this->streams[$callback->type->name][$stream][$callback->id] = $callback;
            }
        }
        foreach ($this->deferred as $callback) {
            $callback->isActive = true;
            $this->ready->enqueue($callback);
        }
        $this->enabled = $this->deferred = [];
        $this->await($this->ready->isEmpty() ? $this->secondsToNextTimer() : 0.0);
        while ($this->secondsToNextTimer() === 0.0) {
            $this->ready->enqueue($this->callbacks[$this->timers->extract()[1]]);
        }
    }

    /** Null: there is none. */
    private function secondsToNextTimer(): ?float
    {
        while (!$this->timers->isEmpty()) {
            [$due, $id] = $this->timers->top();
            $callback = $this->callbacks[$id] ?? null;
            if ($callback?->isActive && $callback->due === $due) {
                return \max(0.0, $due - self::now());
            }
            $this->timers->extract();
        }

        return null;
    }

    /** Until a stream is ready, or so many seconds are over. */
    private function await(?float $seconds): void
    {
        [$read, $write, $none] = [[], [], []];
        foreach ($this->streams['Readable'] as $callbacks) {
            $read[] = \current($callbacks)->stream;
        }
        foreach ($this->streams['Writable'] as $callbacks) {
            $write[] = \current($callbacks)->stream;
        }
        $microseconds = $seconds === null ? null : (int) \ceil(\min($seconds, 1e9) * 1e6);
        if ($read === [] && $write === []) {
            if ($microseconds > 0) {
                \usleep($microseconds);
            }

            return;
        }
        \error_clear_last();
        $whole = $microseconds === null ? null : \intdiv($microseconds, 1_000_000);
        $rest = $microseconds === null ? null : $microseconds % 1_000_000;
        if (@\stream_select($read, $write, $none, $whole, $rest) === false) {
            $message = \error_get_last()['message'] ?? 'stream_select() failed';
            if (!\str_contains($message, '[4]')) { // EINTR
                throw new \Exception($message);
            }

            return;
        }
        foreach (['Readable' => $read, 'Writable' => $write] as $type => $streams) {
            foreach ($streams as $stream) {
                foreach ($this->streams[$type][(int) $stream] as $callback) {
                    $this->ready->enqueue($callback);
                }
            }
        }
    }

    private function unwatch(RevoltCallback $callback): void
    {
        $streams = &$this->streams[$callback->type->name];
        $stream = (int) $callback->stream;
        unset($streams[$stream][$callback->id]);
        if (empty($streams[$stream])) {
            unset($streams[$stream]);
        }
    }

    /** Microtasks, and what is ready. */
    private function callAll(): void
    {
        while (!$this->isInterrupted()
            && !($this->microtasks->isEmpty() && $this->ready->isEmpty())
        ) {
            $this->caller ??= new \Fiber($this->callInFiber(...));
            $isIdle = $this->caller->isStarted()
                ? $this->caller->resume()
                : $this->caller->start();
            if ($isIdle !== $this) {
                $this->caller = null;
            }
        }
    }

    private function callInFiber(): void
    {
        $id = \spl_object_id(\Fiber::getCurrent());
        do {
            while (($call = $this->next()) !== null) {
                $this->call(...$call);
                unset($call);
                if ($this->caller === null || \spl_object_id($this->caller) !== $id) {
                    return; // it was suspended, and another one is in its place
                }
            }
            \Fiber::suspend($this);
        } while (true);
    }

    /** @return ?array{\Closure, \Closure} what to call, and whose error it would be */
    private function next(): ?array
    {
        if ($this->isInterrupted()) {
            return null;
        }
        if (!$this->microtasks->isEmpty()) {
            [$closure, $args] = $this->microtasks->dequeue();

            return [static fn () => $closure(...$args), $closure];
        }
        while (!$this->ready->isEmpty()) {
            $callback = $this->ready->dequeue();
            if (!$callback->isActive) {
                continue;
            }
            if ($callback->type === CallbackType::Repeat) {
                $this->disable($callback->id);
                $this->enable($callback->id);
            } elseif ($callback->stream === null) {
                $this->cancel($callback->id);
            }

            return [$callback->call(...), $callback->closure];
        }

        return null;
    }

    private function call(\Closure $call, \Closure $culprit): void
    {
        try {
            $call();
        } catch (CancellationError $cancelled) {
            $this->failure = $cancelled; // of the request: no handler of errors is to keep it
        } catch (\Throwable $failure) {
            $this->handle($failure, $culprit);
        } finally {
            FiberLocal::clear();
        }
    }

    private function handle(\Throwable $failure, \Closure $culprit): void
    {
        if ($this->errorHandler === null) {
            $this->failure = $failure instanceof UncaughtThrowable
                ? $failure
                : UncaughtThrowable::throwingCallback($culprit, $failure);

            return;
        }
        try {
            ($this->errorHandler)($failure);
        } catch (UncaughtThrowable | CancellationError $failure) {
            $this->failure = $failure;
        } catch (\Throwable $failure) {
            $this->failure = UncaughtThrowable::throwingErrorHandler(
                $this->errorHandler,
                $failure
            );
        }
    }

    private static function now(): float
    {
        return \hrtime(true) / 1e9;
    }
}
