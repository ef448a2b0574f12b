<?php
/* What only PHP 8.4 and newer can read. */

/** Waits in the hooks of its properties. What they are of is no argument of a call: PHP's function
 * JIT cannot do that yet (php-src, issue 22857). */
class SlowHooks
{
    public int $kept = 0 {
        get { wait(); return $this->kept; }
        set { wait(); $this->kept = $value; wait(); }
    }
    public int $twice {
        get { $kept = $this->kept; wait(); return 2 * $kept; }
        set (int $value) { wait(); $this->kept = intdiv($value, 2); }
    }
}

/** Set up when it is first used, after a wait. */
class SlowStart
{
    public int $n;
    public int $twice;

    public function begin(int $n): void
    {
        $this->n = $n;
        wait();
        $this->twice = 2 * $this->n;
    }
}
