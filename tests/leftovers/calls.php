<?php
// What is called, and with what.

/** A name of which one of these is a part sets something, opens it, or makes it known. */
const VERBS = 'set|put|open|popen|connect|register|unregister|restore|enable|disable|load|start|use|'
    . 'option|options|setopt|handler|callback|default|init|bind|chdir|umask|srand|seed|language|'
    . 'encoding|codeset|textdomain|bindtextdomain|scale|timeout|report|order|limiter|expire|name|'
    . 'add|attach|mode|level|limit|priority|nice|title|log|openlog|debug|trace|mask|locale|setlocale|'
    . 'cache|history|driver|policy|errors|implicit|rewrite|alter|reset|module|path|id|params';

/** Names that only tell. */
const TELLING = '/(^|_|\\\\)(get|is|has|list|parse|exists|info|display|verbose)(_|$)/';

/**
 * Not called, and why: they end, stop or replace the process or its rights for good, have channels
 * of their own in tests/canary, or are this server's.
 */
const NOT_CALLED = [
    'ini_set', 'ini_alter', 'ini_restore', // a channel of its own, setting by setting
    'posix_setrlimit', 'posix_setuid', 'posix_seteuid', 'posix_setgid', 'posix_setegid',
    'posix_setsid', 'posix_setpgid', 'pcntl_setpriority', 'proc_nice', 'chroot', 'set_time_limit',
    'readline', 'readline_callback_handler_install', 'readline_callback_read_char', // a terminal
    'proc_open', 'popen', 'pcntl_sigwaitinfo', 'pcntl_sigtimedwait', 'opcache_reset',
    'error_log', 'syslog', 'umask', 'mail', 'mb_send_mail', 'file_put_contents',
    'cli_set_process_title', 'setproctitle',
    'Imagick::setResourceLimit', // ends the process when the limit is met; a channel of its own
    'ssh2_connect', // waits for a server
    'ps_open_file', 'ps_setpolydash', 'http\Message::addBody', // ends PHP itself by SIGSEGV
];

/** @return list<string> functions, and methods as Class::method */
function names(): array
{
    static $names;
    if ($names !== null) {
        return $names;
    }
    foreach (get_defined_functions()['internal'] as $name) {
        if (preg_match('/(^|_|\\\\)(' . VERBS . ')(_|$)|set|open$|connect$/', $name) === 1
            && preg_match(TELLING, $name) === 0 && !str_starts_with($name, 'tokamak_')
            && !in_array($name, NOT_CALLED, true)) {
            $names[] = $name;
        }
    }
    foreach (get_declared_classes() as $class) {
        $of_class = new ReflectionClass($class);
        if (!$of_class->isInternal() || str_starts_with($class, 'Tokamak') || str_starts_with($class, 'Reflection')) {
            continue;
        }
        foreach ($of_class->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
            if ($method->class === $class && ($method->isStatic() || is_made_of_nothing($of_class))
                && !in_array("$class::{$method->name}", NOT_CALLED, true)
                && preg_match('/^(set|open|register|enable|load|start|use|add|init|connect|default|option|intercept|mount|map|bind|attach|map|debug|log|clear)/i', $method->name) === 1) {
                $names[] = "$class::{$method->name}";
            }
        }
    }
    return $names;
}

function is_made_of_nothing(ReflectionClass $class): bool
{
    return $class->isInstantiable() && ($class->getConstructor()?->getNumberOfRequiredParameters() ?? 0) === 0;
}

/** Calls it in each way that fits; says how many of them returned. */
function called(string $name): int
{
    $of_class = str_contains($name, '::') ? explode('::', $name) : null;
    $function = $of_class ? new ReflectionMethod(...$of_class) : new ReflectionFunction($name);
    $choices = array_map(values(...), $function->getParameters());
    $most = max([1, ...array_map(count(...), $choices)]);
    $returned = 0;
    set_error_handler(static fn () => true);
    for ($way = 0; $way < $most; $way++) {
        for ($count = count($choices); $count >= $function->getNumberOfRequiredParameters(); $count--) {
            try {
                $arguments = [];
                foreach (array_slice($choices, 0, $count) as $i => $of_parameter) {
                    $argument = $of_parameter[$way % count($of_parameter)];
                    $arguments[$i] = $argument instanceof Made ? ($argument->make)() : $argument;
                }
                if ($of_class === null) {
                    $GLOBALS['results'][] = $name(...$arguments);
                } elseif ($function->isStatic()) {
                    $function->invokeArgs(null, $arguments);
                } else {
                    $GLOBALS['results'][] = $object = new $of_class[0];
                    $function->invokeArgs($object, $arguments);
                }
                $returned++;
            } catch (Throwable) {
            }
        }
    }
    restore_error_handler();
    return $returned;
}

/** A value that each call makes anew. */
final class Made
{
    public function __construct(public Closure $make)
    {
    }
}

/** @return list<mixed> values for a parameter */
function values(ReflectionParameter $parameter): array
{
    $name = strtolower($parameter->name);
    $type = $parameter->getType();
    $types = $type instanceof ReflectionUnionType ? $type->getTypes() : [$type];
    $found = [];
    foreach ($types as $one) {
        $kind = $one instanceof ReflectionNamedType ? $one->getName() : 'mixed';
        array_push($found, ...match ($kind) {
            'bool', 'false', 'true' => [true, false],
            'int' => numbers($parameter, $name),
            'float' => [1.5, 1000.0],
            'string' => texts($name),
            'array', 'iterable' => [['polluted' => 'polluted'], ['http' => ['user_agent' => 'polluted']], ['UTF-8', 'ASCII'], [1]],
            'callable', 'Closure' => [new Made(fn () => static fn () => null)],
            'mixed' => untyped($name),
            'null' => [null],
            default => objects($kind),
        });
    }
    if ($type?->allowsNull()) {
        $found[] = null;
    }
    return $found ?: [null];
}

/** @return list<int> */
function numbers(ReflectionParameter $parameter, string $name): array
{
    $extension = $parameter->getDeclaringFunction()->getExtension();
    if ($extension && preg_match('/opt|attr|key|flag|mode|type|what|category|format|verbosity|policy/', $name) === 1) {
        $numbers = array_filter($extension->getConstants(), is_int(...));
        foreach ($extension->getClasses() as $class) {
            $numbers += array_filter($class->getConstants(), is_int(...));
        }
        $numbers = array_values(array_unique($numbers));
        return array_slice($numbers, 0, 120) ?: [1];
    }
    return [1, 7, 0];
}

/** @return list<string> */
function texts(string $name): array
{
    return match (1) {
        preg_match('/dir/', $name) => [place('folder')],
        preg_match('/file|path|uri|url|dsn/', $name) => [place('file'), 'php://memory'],
        preg_match('/encod|charset|codeset/', $name) => ['ISO-8859-1', 'UTF-8'],
        preg_match('/locale/', $name) => ['de_DE.UTF-8', 'de_DE'],
        preg_match('/lang/', $name) => ['German', 'de'],
        preg_match('/zone/', $name) => ['Asia/Tokyo'],
        preg_match('/host|server|address/', $name) => ['127.0.0.1'],
        preg_match('/callback|function|handler/', $name) => ['strrev'],
        preg_match('/class/', $name) => ['Polluter', 'stdClass'],
        preg_match('/protocol/', $name) => ['polluted', 'http'],
        default => ['polluted', '7', ''],
    };
}

/** @return list<mixed> */
function untyped(string $name): array
{
    return match (1) {
        preg_match('/context/', $name) => [new Made(fn () => stream_context_create())],
        preg_match('/stream|handle|fp/', $name) => [new Made(fn () => fopen('php://memory', 'w+'))],
        preg_match('/callback|handler|function/', $name) => [new Made(fn () => static fn () => null)],
        preg_match('/link|connection|conn|session|res/', $name) => [null],
        preg_match('/locale/', $name) => [0, 'C.UTF-8'],
        default => ['polluted', 1, true],
    };
}

/** @return list<mixed> */
function objects(string $class): array
{
    $make = match ($class) {
        'CurlHandle' => curl_init(...),
        'CurlShareHandle' => curl_share_init(...),
        'CurlMultiHandle' => curl_multi_init(...),
        'LDAP\Connection' => fn () => ldap_connect('ldap://127.0.0.1:1'),
        'XMLParser' => xml_parser_create(...),
        'Socket' => fn () => socket_create(AF_UNIX, SOCK_STREAM, 0),
        'GdImage' => fn () => imagecreate(1, 1),
        'IntlCalendar' => fn () => IntlCalendar::createInstance(),
        'IntlTimeZone' => fn () => IntlTimeZone::createDefault(),
        'EnchantBroker' => enchant_broker_init(...),
        'DateTimeZone' => fn () => new DateTimeZone('Asia/Tokyo'),
        'SessionHandlerInterface' => fn () => new SessionHandler(),
        default => class_exists($class) && is_made_of_nothing(new ReflectionClass($class))
            ? fn () => new $class() : null,
    };
    return $make ? [new Made($make)] : [];
}

/** What a class of a request looks like that is told to PHP. */
class Polluter extends php_user_filter
{
    public $context;

    public function stream_open(): bool
    {
        return false;
    }
}
