<?php
// Text: encodings, languages, patterns, comparison.
return [
    'ctype' => ['use' => static fn () => [ctype_alpha('abc'), ctype_digit('12a')], 'is' => [true, false]],
    'iconv' => ['use' => static fn () => bin2hex(iconv('UTF-8', 'UTF-16BE', 'é')), 'is' => '00e9'],
    'mbstring' => [
        'make' => static fn () => mb_regex_encoding('UTF-8'),
        'use' => static fn () => [mb_strtoupper('straße'), mb_strlen('日本'), mb_ereg_replace('[0-9]+', '#', 'a12b')],
        'is' => ['STRASSE', 2, 'a#b'],
    ],
    'intl' => [
        'make' => static fn () => new NumberFormatter('de_DE', NumberFormatter::DECIMAL),
        'use' => static fn (NumberFormatter $made) => [$made->format(1234.5), Normalizer::normalize("e\u{301}"), grapheme_strlen('🏳️‍🌈a')],
        'is' => ['1.234,5', 'é', 2],
    ],
    'gettext' => [
        'use' => static function () {
            bindtextdomain('none', __DIR__);
            textdomain('none');
            return _('Hello');
        },
        'is' => 'Hello',
    ],
    'enchant' => [
        'make' => static fn () => enchant_broker_init(),
        'use' => static fn ($made) => [is_array(enchant_broker_list_dicts($made)), enchant_broker_dict_exists($made, 'xx_YY')],
        'is' => [true, false],
    ],
    'pspell' => [
        'use' => static fn () => pspell_config_ignore(pspell_config_create('en'), 3),
        'is' => true,
    ],
    'tokenizer' => ['use' => static fn () => count(token_get_all('<?php echo 1;')), 'is' => 5],
    'wikidiff2' => [
        'use' => static fn () => str_contains(wikidiff2_do_diff("a\nb\n", "a\nc\n", 2), 'diff-deletedline'),
        'is' => true,
    ],
    'tidy' => [
        'make' => static fn () => new tidy(),
        'use' => static function (tidy $made) {
            $made->parseString('<p>a<b>c', ['show-body-only' => true, 'wrap' => 0], 'utf8');
            $made->cleanRepair();
            return trim((string) $made);
        },
        'is' => '<p>a<b>c</b></p>',
    ],
    'readline' => [
        'use' => static function () {
            readline_add_history('line');
            return readline_info('library_version') !== null;
        },
        'is' => true,
    ],
];
