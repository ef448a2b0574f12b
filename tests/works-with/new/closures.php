<?php
// Closures in constant expressions, which PHP has since 8.5.

#[Attribute]
final class Checked
{
    public function __construct(public Closure $check)
    {
    }
}

final class WithClosures
{
    public const TWICE = static function (int $number): int {
        static $calls = 0;
        return 2 * $number + $calls++;
    };
    public const LENGTH = strlen(...);

    public function __construct(
        #[Checked(static function (string $name): bool {
            return $name !== '';
        })]
        public string $name = 'none',
        public Closure $show = (static function (string $name): string {
            return "<$name>";
        }),
    ) {
    }

    /** What the attribute of the name says of a text. */
    public static function check(string $text): bool
    {
        $name = new ReflectionProperty(self::class, 'name');
        return ($name->getAttributes(Checked::class)[0]->newInstance()->check)($text);
    }
}
