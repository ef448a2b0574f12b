<?php
// What a request can see of its process.

/** Functions without arguments that tell something. */
const TELL = '/(^|_|\\\\)(get|info|status|last|error|errno|errstr|default|current|list|id|name|encoding|'
    . 'level|functions|wrappers|filters|transports|extensions|option|options|limiter|expire|path|'
    . 'language|order|output|character|scale|umask|stats|report|enabled|handlers|ids|msg|errors|'
    . 'alerts|timeout|zone|locale|getcwd|module)(_|$)|error|^get[a-z]+$/';

/** They tell what changes by itself, wait, or take what they tell. */
const NOT_TOLD = '/^(phpinfo|phpcredits|getrusage|gettimeofday|hrtime|uuid_|get_defined_vars|'
    . 'get_resources|memory_|ob_get_(clean|flush)|getmypid|posix_get(pid|ppid)|posix_times|'
    . 'session_(create_id|regenerate_id|start)|opcache_|apcu_|readline_(on|callback|completion)|'
    . 'headers_|date_|localtime|getdate|time|sys_getloadavg|net_get|debug_|func_get|get_called|'
    . 'get_parent|tokamak_|curl_version|gc_status|get_browser|timezone_(id|abb)|mysqli_connect$|'
    . 'error_(clear|log)|clear|intlcal_get_now|odbc_close|pg_(connect|pconnect)|snmp_get_quick|'
    . 'hash_|openssl_get|mb_list|enchant_broker_init|zend_|resourcebundle|intltz_create|getlastmod|'
    . 'getmyinode|getopt|restore_|libxml_use|ob_list|imap_alerts|zmq|posix_getlogin|posix_ctermid|'
    . 'use_soap|realpath|sem_|ftok|get_defined_functions|get_defined_constants|get_declared|pcov|pinba_get|'
    . 'stream_get_default|error_get_last|getenv|ini_get|fpm_get_status)/';

/** @return array<string, string> */
function sights(): array
{
    static $functions;
    $functions ??= array_filter(get_defined_functions()['internal'], static fn ($name) =>
        preg_match(TELL, $name) === 1 && preg_match(NOT_TOLD, $name) === 0
        && (new ReflectionFunction($name))->getNumberOfRequiredParameters() === 0);
    $seen = [];
    $see = static function (string $what, Closure $look) use (&$seen): void {
        try {
            $value = @$look();
        } catch (Throwable $error) {
            $value = $error->getMessage();
        }
        $text = is_string($value) ? $value : @serialize_plain($value);
        $seen[$what] = strlen($text) > 400 ? substr($text, 0, 300) . ' … ' . crc32($text) : $text;
    };
    ob_start(); // some print what they tell
    $see('error_get_last()', error_get_last(...));
    foreach ($functions as $name) {
        $see("$name()", $name(...));
    }
    foreach (ini_get_all(null, false) as $name => $value) {
        $seen["ini: $name"] = (string) $value;
    }
    $see('error handler', static function () {
        $handler = set_error_handler(static fn () => true);
        restore_error_handler();
        return $handler;
    });
    $see('exception handler', static function () {
        $handler = set_exception_handler(null);
        set_exception_handler($handler);
        return $handler;
    });
    $see('environment', static fn () => array_diff_key(getenv(), array_flip(array_keys($_SERVER))));
    $see('environment of the process', static fn () => getenv(null, true));
    $see('locale', static fn () => setlocale(LC_ALL, 0));
    $see('localeconv', localeconv(...));
    $see('ob', static fn () => [ob_get_level(), ob_list_handlers()]);
    $see('headers', static fn () => [headers_list(), http_response_code()]);
    $see('constants', static fn () => get_defined_constants(true)['user'] ?? []);
    $see('classes', static fn () => array_slice(get_declared_classes(), -3));
    $see('functions', static fn () => get_defined_functions()['user']);
    $see('entity loader', static fn () => libxml_get_external_entity_loader());
    $see('libxml', static fn () => libxml_use_internal_errors(null));
    $see('assert', static fn () => assert_options(ASSERT_CALLBACK));
    $see('default context', static fn () => stream_context_get_options(stream_context_get_default()));
    $see('time zone', static fn () => [date_default_timezone_get(), date('T e', 0), strftime_of(0)]);
    $see('stream', static fn () => [fopen('http://', 'r'), fopen('polluted://', 'r'), file_get_contents('data:,a')]);
    $see('substitute', static fn () => mb_substitute_character());
    $see('convert', static fn () => bin2hex(mb_strtoupper("\xe4")));
    $see('domains', static fn () => [textdomain(null), bindtextdomain('polluted', null), gettext('polluted')]);
    $see('random', static fn () => [mt_rand() === 895547922, mt_rand() === 1338, rand() === 1]);
    if (function_exists('ldap_get_option')) {
        foreach (array_filter((new ReflectionExtension('ldap'))->getConstants(), is_int(...)) as $name => $option) {
            if (str_starts_with($name, 'LDAP_OPT_')) {
                $see($name, static function () use ($option) {
                    $value = null;
                    ldap_get_option(null, $option, $value);
                    return $value;
                });
            }
        }
    }
    foreach (signals() as $signal) {
        $see("signal $signal", static fn () => pcntl_signal_get_handler($signal));
    }
    see_methods($see);
    see_process($see);
    ob_end_clean();
    return $seen;
}

/** @return list<int> */
function signals(): array
{
    return function_exists('pcntl_signal_get_handler') ? range(1, 15) : [];
}

function strftime_of(int $time): string
{
    return @strftime('%c %Z', $time);
}

/** Static methods that tell, and what new objects say of themselves. */
function see_methods(Closure $see): void
{
    static $methods;
    if ($methods === null) {
        $methods = [];
        foreach (get_declared_classes() as $class) {
            $of_class = new ReflectionClass($class);
            if (!$of_class->isInternal() || str_starts_with($class, 'Tokamak')) {
                continue;
            }
            foreach ($of_class->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
                if ($method->class === $class && $method->isStatic() && preg_match('/^(get|list|is)/i', $method->name) === 1
                    && preg_match('/now|random|time$/i', $method->name) === 0) {
                    $methods[] = $method;
                }
            }
        }
    }
    foreach ($methods as $method) {
        $required = $method->getNumberOfRequiredParameters();
        $type = $required === 1 ? (string) $method->getParameters()[0]->getType() : '';
        $of = $required === 0 ? [null] : match ($type) {
            'int' => range(0, 12),
            'string' => ['polluted'],
            default => [],
        };
        foreach ($of as $argument) {
            $arguments = $required === 0 ? [] : [$argument];
            $see("$method->class::$method->name($argument)", static fn () => $method->invokeArgs(null, $arguments));
        }
    }
}

/** What the kernel says. */
function see_process(Closure $see): void
{
    foreach (file('/proc/self/status', FILE_IGNORE_NEW_LINES) as $line) {
        if (preg_match('/^(Name|Umask|Uid|Gid|Groups|Threads|SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|Cap|NoNew|Seccomp|Cpus_allowed_list)/', $line) === 1) {
            // Signals 32 and 33 are glibc's own, and taken when it first makes a thread.
            $line = preg_replace_callback('/^(Sig\w+:\s)(\w+)/', static fn ($found) =>
                $found[1] . dechex(hexdec(substr($found[2], -8)) & 0x7fffffff), $line);
            $see('process: ' . strtok($line, ':'), static fn () => $line);
        }
    }
    foreach (['limits', 'timers', 'oom_score_adj', 'personality', 'comm', 'coredump_filter', 'timerslack_ns'] as $file) {
        $see("process: $file", static fn () => preg_replace('/pid\.\d+/', '', (string) file_get_contents("/proc/self/$file")));
    }
    $see('process: directory', getcwd(...));
    $see('process: files', static function () {
        $open = [];
        foreach (scandir('/proc/self/fd') as $fd) {
            $to = (string) @readlink("/proc/self/fd/$fd");
            $open[] = preg_replace('/\d+/', '', $to);
        }
        sort($open);
        return implode(' ', array_filter($open, static fn ($to) => !str_contains($to, '/proc/')));
    });
}

/** A value as text, without what differs from object to object. */
function serialize_plain(mixed $value): string
{
    return preg_replace('/#\d+|\(\d+\) of type|Resource id #\d+/', '', print_r($value, true));
}
