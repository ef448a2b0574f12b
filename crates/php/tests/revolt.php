<?php
// Stands for the package revolt/event-loop 1.0 where that cannot be had: its public names and
// signatures, as far as Tokamak\RevoltDriver and the tests of it touch them.

namespace Revolt\EventLoop {
    enum CallbackType
    {
        case Defer;
        case Delay;
        case Repeat;
        case Readable;
        case Writable;
        case Signal;
    }

    interface Suspension
    {
        public function resume(mixed $value = null): void;
        public function suspend(): mixed;
        public function throw(\Throwable $throwable): void;
    }

    interface Driver
    {
        public function run(): void;
        public function stop(): void;
        public function getSuspension(): Suspension;
        public function isRunning(): bool;
        public function queue(\Closure $closure, mixed ...$args): void;
        public function defer(\Closure $closure): string;
        public function delay(float $delay, \Closure $closure): string;
        public function repeat(float $interval, \Closure $closure): string;
        public function onReadable(mixed $stream, \Closure $closure): string;
        public function onWritable(mixed $stream, \Closure $closure): string;
        public function onSignal(int $signal, \Closure $closure): string;
        public function enable(string $callbackId): string;
        public function cancel(string $callbackId): void;
        public function disable(string $callbackId): string;
        public function reference(string $callbackId): string;
        public function unreference(string $callbackId): string;
        public function setErrorHandler(?\Closure $errorHandler): void;
        public function getErrorHandler(): ?\Closure;
        public function getHandle(): mixed;
        public function getIdentifiers(): array;
        public function getType(string $callbackId): CallbackType;
        public function isEnabled(string $callbackId): bool;
        public function isReferenced(string $callbackId): bool;
        public function __debugInfo(): array;
    }

    final class FiberLocal
    {
        private static ?\WeakMap $localStorage = null;

        public function __construct(private readonly \Closure $initializer)
        {
        }

        public static function clear(): void
        {
            if (self::$localStorage !== null && \Fiber::getCurrent() !== null) {
                unset(self::$localStorage[\Fiber::getCurrent()]);
            }
        }

        public function get(): mixed
        {
            $all = self::$localStorage ??= new \WeakMap();
            $mine = $all[\Fiber::getCurrent() ?? $this] ??= new \WeakMap();
            $mine[$this] ??= [($this->initializer)()];

            return $mine[$this][0];
        }
    }

    final class UnsupportedFeatureException extends \Exception
    {
    }

    final class InvalidCallbackError extends \Error
    {
        public static function nonNullReturn(string $callbackId, \Closure $closure): self
        {
            return new self("callback $callbackId returned a value");
        }

        public static function invalidIdentifier(string $callbackId): self
        {
            return new self("no callback $callbackId");
        }
    }

    final class UncaughtThrowable extends \Error
    {
        public static function throwingCallback(\Closure $closure, \Throwable $previous): self
        {
            return new self($previous->getMessage(), 0, $previous);
        }

        public static function throwingErrorHandler(\Closure $closure, \Throwable $previous): self
        {
            return new self($previous->getMessage(), 0, $previous);
        }
    }
}

namespace Revolt {
    final class EventLoop
    {
        private static EventLoop\Driver $driver;

        public static function getDriver(): EventLoop\Driver
        {
            return self::$driver ??= new (\getenv('REVOLT_DRIVER'))();
        }

        public static function __callStatic(string $name, array $arguments): mixed
        {
            return self::getDriver()->$name(...$arguments);
        }
    }
}
