<?php
/**
 * One value of each generator, so long that only a generator that repeats itself gives it twice.
 * "seeded" are those that PHP seeds with so little that two seeds may be equal.
 */
function random_values(): array
{
    static $sqlite;
    $sqlite ??= new PDO('sqlite::memory:');
    $hundred = range(1, 100);
    $shuffled = $hundred;
    shuffle($shuffled);
    $randomizer = new Random\Randomizer();
    return [
        'values' => [
            'random_bytes' => bin2hex(random_bytes(16)),
            'random_int' => random_int(PHP_INT_MIN, PHP_INT_MAX) . ' ' . random_int(PHP_INT_MIN, PHP_INT_MAX),
            'openssl_random_pseudo_bytes' => bin2hex(openssl_random_pseudo_bytes(16)),
            'session_create_id' => session_create_id(),
            'uniqid' => uniqid('', true),
            'Randomizer::getBytes' => bin2hex($randomizer->getBytes(16)),
            'Randomizer::shuffleArray' => implode(' ', $randomizer->shuffleArray($hundred)),
            'Xoshiro256StarStar' => bin2hex((new Random\Engine\Xoshiro256StarStar())->generate()),
            'PcgOneseq128XslRr64' => bin2hex((new Random\Engine\PcgOneseq128XslRr64())->generate()),
            'randomblob of SQLite' => $sqlite->query('SELECT hex(randomblob(16))')->fetchColumn(),
        ],
        'libraries' => (object) values_of_libraries(),
        'seeded' => [
            'lcg_value' => @lcg_value() . ' ' . @lcg_value(),
            'mt_rand' => mt_rand() . ' ' . mt_rand() . ' ' . mt_rand(),
            'rand' => rand() . ' ' . rand() . ' ' . rand(),
            'shuffle' => implode(' ', $shuffled),
            'array_rand' => implode(' ', array_rand($hundred, 30)),
            'str_shuffle' => str_shuffle(str_repeat('0123456789abcdefghijklmnopqrstuvwxyz', 2)),
            'Mt19937' => bin2hex((new Random\Randomizer(new Random\Engine\Mt19937()))->getBytes(16)),
        ] + (extension_loaded('gmp') ? ['GMP' => gmp_strval(gmp_random_bits(128), 16)] : [])
          + (extension_loaded('xsl') ? ['EXSLT' => values_of_exslt()] : []),
    ];
}

/** The same of libraries whose extensions may be missing. */
function values_of_libraries(): array
{
    $values = [];
    if (extension_loaded('uuid')) {
        $values['libuuid'] = uuid_create(UUID_TYPE_RANDOM);
    }
    if (extension_loaded('imagick')) {
        // Threads of OpenMP cannot be in an image.
        Imagick::setResourceLimit(Imagick::RESOURCETYPE_THREAD, 1);
        $image = new Imagick();
        $image->newImage(8, 8, 'gray', 'rgb');
        $image->addNoiseImage(Imagick::NOISE_GAUSSIAN);
        $values['ImageMagick'] = md5($image->getImageBlob());
    }
    return $values;
}

/** math:random() draws from rand() of libc, which has 31 bits. */
function values_of_exslt(): string
{
    static $style;
    if (!$style) {
        $source = new DOMDocument();
        $source->loadXML('<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
            xmlns:math="http://exslt.org/math"><xsl:output method="text"/><xsl:template match="/">
            <xsl:value-of select="concat(math:random(), math:random())"/></xsl:template></xsl:stylesheet>');
        $style = new XSLTProcessor();
        $style->importStylesheet($source);
    }
    return trim($style->transformToXml(new DOMDocument()));
}

/** Lets GnuTLS greet whoever listens on this port, who sees its random numbers and hangs up. */
function greet_by_tls(int $port): void
{
    if (extension_loaded('ldap')) {
        @ldap_bind(ldap_connect("ldaps://127.0.0.1:$port"));
    }
}

/** Waits until so many workers serve a request of this meeting. */
function meet(string $meeting, int $count): void
{
    $place = getenv('STATE') . "/meeting-$meeting-";
    touch($place . getmypid());
    for ($turn = 0; count(glob("$place*")) < $count; $turn++) {
        if ($turn === 10_000) {
            throw new Exception('the other workers do not come');
        }
        usleep(2000);
    }
}
