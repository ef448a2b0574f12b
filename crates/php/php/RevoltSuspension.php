<?php

namespace Tokamak;

use Revolt\EventLoop\Suspension;

/** @internal where one Fiber, or {main}, waits to be resumed by a callback */
final class RevoltSuspension implements Suspension
{
    /** Suspended, and not resumed so far. */
    public bool $isPending = false;

    /** Null: {main}. */
    private readonly ?\WeakReference $fiber;

    /** What the outermost code is resumed with. */
    private mixed $value = null;
    private ?\Throwable $thrown = null;

    /** @param bool $isOutermost it runs the loop while it is suspended */
    public function __construct(
        private readonly RevoltDriver $driver,
        private readonly bool $isOutermost,
    ) {
        $fiber = \Fiber::getCurrent();
        $this->fiber = $fiber === null ? null : \WeakReference::create($fiber);
    }

    public function suspend(): mixed
    {
        if ($this->isPending) {
            throw new \Error('Must call resume() or throw() before calling suspend() again');
        }
        if ($this->fiber?->get() !== \Fiber::getCurrent()) {
            throw new \Error('Must not call suspend() from another fiber');
        }
        $this->isPending = true;
        $this->thrown = null;
        try {
            return $this->isOutermost ? $this->runLoop() : $this->driver->suspendFiber();
        } catch (\Throwable $failure) {
            if ($this->isPending) {
                $this->isPending = false;
                $this->thrown = $failure;
            }
            throw $failure;
        }
    }

    public function resume(mixed $value = null): void
    {
        $this->end('resume');
        if ($this->isOutermost) {
            $this->value = $value;
        } elseif (($fiber = $this->fiber->get()) !== null) {
            $this->driver->queue($fiber->resume(...), $value);
        }
    }

    public function throw(\Throwable $throwable): void
    {
        $this->end('throw');
        if ($this->isOutermost) {
            $this->thrown = $throwable;
        } elseif (($fiber = $this->fiber->get()) !== null) {
            $this->driver->queue($fiber->throw(...), $throwable);
        }
    }

    private function end(string $method): void
    {
        if (!$this->isPending) {
            throw $this->thrown
                ?? new \Error("Must call suspend() before calling $method()");
        }
        $this->isPending = false;
    }

    private function runLoop(): mixed
    {
        $this->driver->runFor($this);
        if ($this->isPending) {
            throw new \Error('Event loop terminated without resuming the current suspension');
        }
        [$value, $thrown] = [$this->value, $this->thrown];
        $this->value = $this->thrown = null;

        return $thrown === null ? $value : throw $thrown;
    }
}
