<?php
// What newer releases of PHP have, beside extensions of their own: `since` says which. A table of the
// page's own has these rows. What older ones cannot read is in files of ../new.

/** Asks a page for the text of its body, by way of what the handle has in common with others. */
$fetch = static function (object $share): string {
    $curl = curl_init('http://127.0.0.1:' . getenv('PORT') . '/new/page.php');
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_SHARE => $share]);
    return curl_exec($curl) . curl_error($curl);
};
$share = static fn () => curl_share_init_persistent([CURL_LOCK_DATA_DNS, CURL_LOCK_DATA_SSL_SESSION, CURL_LOCK_DATA_CONNECT]);
$of_curl = ['since' => '8.5', 'module' => 'curl', 'service' => 'soap', 'is' => ['text', 'text']];

/** A destructor that switches between Fibers. */
$ends = static fn (ArrayObject $seen, ?object $other = null) => new class ($seen, $other) {
    public ?object $self = null;

    public function __construct(private ArrayObject $seen, public ?object $other)
    {
    }

    public function __destruct()
    {
        $fiber = new Fiber(function (): void {
            usleep(1000);
            $this->seen[] = Fiber::suspend(1);
        });
        $this->seen[] = $fiber->start();
        $fiber->resume(2);
    }
};

return [
    'persistent share of cURL' => $of_curl + ['use' => static fn () => [$fetch($share()), $fetch($share())]],
    'persistent share of cURL, made by the boot' => $of_curl + [
        'make' => $share,
        'use' => static fn (object $made) => [$fetch($made), $fetch($share())],
    ],
    'persistent share of cURL, used by the boot' => $of_curl + [
        'make' => static function () use ($share, $fetch) {
            $made = $share();
            $fetch($made);
            return $made;
        },
        'use' => static fn (object $made) => [$fetch($made), $fetch($share())],
    ],
    'Uri\Rfc3986\Uri' => [
        'since' => '8.5',
        'module' => 'uri',
        'make' => static fn () => new Uri\Rfc3986\Uri('https://example.com/a/b?c=%64'),
        'use' => static fn ($made) => [
            $made->resolve('../d')->toString(),
            $made->withHost('[2001:db8::1]')->getHost(),
            $made->getQuery(),
            Uri\Rfc3986\Uri::parse('https://[') === null,
            unserialize(serialize($made))->equals($made),
        ],
        'is' => ['https://example.com/d', '[2001:db8::1]', 'c=d', true, true],
    ],
    'Uri\WhatWg\Url' => [
        'since' => '8.5',
        'module' => 'uri',
        'make' => static fn () => new Uri\WhatWg\Url('HTTPS://bücher.example:443/a/../b?c=ä#d'),
        'use' => static function ($made) {
            $problems = [];
            $wrong = Uri\WhatWg\Url::parse('https://a b/', null, $problems);
            return [
                $made->toAsciiString(),
                $made->getUnicodeHost(),
                $made->resolve('//straße.example/e')->getAsciiHost(),
                $wrong,
                $problems[0]->type->name,
            ];
        },
        'is' => [
            'https://xn--bcher-kva.example/b?c=%C3%A4#d', 'bücher.example', 'xn--strae-oqa.example', null,
            'DomainInvalidCodePoint',
        ],
    ],
    'pipe operator' => [
        'since' => '8.5',
        'module' => 'core',
        'make' => static fn () => require __DIR__ . '/../new/pipe.php',
        'use' => static fn (Closure $made) => [$made(' abc '), (require __DIR__ . '/../new/pipe.php')(' de')],
        'is' => ['cba!', 'ed!'],
    ],
    'closures in constant expressions' => [
        'since' => '8.5',
        'module' => 'core',
        'make' => static function () {
            require_once __DIR__ . '/../new/closures.php';
            return [new WithClosures('made'), WithClosures::LENGTH];
        },
        'use' => static fn (array $made) => [
            ($made[0]->show)($made[0]->name),
            ((new WithClosures())->show)('new'),
            $made[1]('four'),
            (WithClosures::LENGTH)('five'),
            (WithClosures::TWICE)(3) >= 6,
            WithClosures::check('a'),
            WithClosures::check(''),
        ],
        'is' => ['<made>', '<new>', 4, 4, true, true, false],
    ],
    'lazy objects' => [
        'since' => '8.4',
        'module' => 'core',
        'use' => static function () {
            require_once __DIR__ . '/../new/lazy.php';
            return array_map(static fn (Late $late) => $late->set, lazies(1000));
        },
        'is' => [7, 8],
    ],
    'lazy objects of the boot' => [
        'since' => '8.4',
        'module' => 'core',
        'make' => static function () {
            require_once __DIR__ . '/../new/lazy.php';
            return lazies(0); // in async mode others would see it half made
        },
        'use' => static fn (array $made) => array_map(static fn (Late $late) => $late->set, $made),
        'is' => [7, 8],
    ],
    'Fibers in destructors' => [
        'since' => '8.4',
        'module' => 'core',
        'make' => static fn () => $ends,
        'use' => static function (Closure $ends) {
            $seen = new ArrayObject();
            $ends($seen);
            // Of a cycle, which PHP collects.
            $cycle = $ends($seen);
            $cycle->self = $cycle;
            unset($cycle);
            gc_collect_cycles();
            $all = $seen->getArrayCopy();
            // At the request's end; where global variables stay, when the next one takes its place.
            $GLOBALS['at_the_end'] = $ends($seen, $ends($seen));
            return $all;
        },
        'is' => [1, 2, 1, 2],
    ],
];
