<?php
// Streams, files, and what the process has open.

/** A stream that consists of its own context's options. */
final class ShowContext
{
    /** @var resource */
    public $context;
    private string $text;

    public function stream_open(): bool
    {
        $options = $this->context ? stream_context_get_options($this->context) : [];
        $this->text = '<options>' . json_encode($options, JSON_THROW_ON_ERROR) . '</options>';
        return true;
    }

    public function stream_read(int $count): string
    {
        $text = $this->text;
        $this->text = '';
        return $text;
    }

    public function stream_eof(): bool
    {
        return $this->text === '';
    }

    public function stream_stat(): array
    {
        return [];
    }

    public function url_stat(): array
    {
        return [];
    }
}

/** How many descriptors this process has open. */
function descriptors(): int
{
    return count(scandir('/proc/self/fd'));
}

/** How far the kernel says that the file of the boot has been read. */
function position_in_file_of_boot(): string
{
    foreach (scandir('/proc/self/fd') as $number) {
        if (@readlink("/proc/self/fd/$number") === realpath(FILE_OF_BOOT)) {
            return file("/proc/self/fdinfo/$number")[0];
        }
    }
    return 'closed';
}

const FILE_OF_BOOT = __DIR__ . '/../fixture.php';
Kept::$things['file of boot'] = fopen(FILE_OF_BOOT, 'r');
stream_set_read_buffer(Kept::$things['file of boot'], 0);

return [
    'stream_wrapper_register()' => new Channel(
        pollute: function () { stream_wrapper_register('polluted', ShowContext::class); },
        probe: fn () => in_array('polluted', stream_get_wrappers()),
        worker: STAYS,
    ),
    'stream_wrapper_unregister()' => new Channel(
        pollute: function () { stream_wrapper_unregister('glob'); },
        probe: fn () => in_array('glob', stream_get_wrappers()),
        worker: STAYS,
    ),
    'stream_filter_register()' => new Channel(
        pollute: function () { stream_filter_register('polluted', php_user_filter::class); },
        probe: fn () => in_array('polluted', stream_get_filters()),
        worker: STAYS,
    ),
    'stream_context_set_default()' => new Channel(
        pollute: function () { stream_context_set_default(['http' => ['user_agent' => 'polluted']]); },
        probe: fn () => stream_context_get_options(stream_context_get_default()),
        worker: STAYS,
    ),
    'libxml_set_streams_context()' => new Channel(
        pollute: function () { libxml_set_streams_context(stream_context_create(['show' => ['polluted' => true]])); },
        probe: function () {
            stream_wrapper_register('show', ShowContext::class);
            $document = new DOMDocument();
            $document->load('show://context');
            stream_wrapper_unregister('show');
            return $document->textContent;
        },
        worker: STAYS,
        needs: 'dom',
    ),
    'file of the boot, read' => new Channel(
        pollute: function () { fread(Kept::$things['file of boot'], 5); },
        probe: fn () => [ftell(Kept::$things['file of boot']), position_in_file_of_boot()],
        worker: STAYS,
    ),
    'file of the boot, closed' => new Channel(
        pollute: function () { fclose(Kept::$things['file of boot']); },
        probe: fn () => [is_resource(Kept::$things['file of boot']), position_in_file_of_boot() !== 'closed'],
        worker: STAYS,
        sealed: REPLACED,
    ),
    'file, open' => new Channel(
        pollute: function () { Kept::$things['file'] = fopen(__FILE__, 'r'); },
        probe: fn () => descriptors(),
        worker: STAYS,
    ),
    'file, locked' => new Channel(
        pollute: function () {
            Kept::$things['lock'] = fopen(note('lock'), 'c');
            flock(Kept::$things['lock'], LOCK_EX);
        },
        probe: fn () => flock(fopen(note('lock'), 'c'), LOCK_EX | LOCK_NB),
        worker: STAYS,
    ),
    'file, temporary' => new Channel(
        pollute: function () {
            Kept::$things['temporary'] = tmpfile();
            file_put_contents(note('temporary'), stream_get_meta_data(Kept::$things['temporary'])['uri']);
        },
        probe: fn () => file_exists((string) @file_get_contents(note('temporary'))),
        worker: STAYS,
    ),
    'directory of readdir()' => new Channel(
        pollute: function () { opendir(__DIR__); },
        probe: function () {
            try {
                return is_string(@readdir()); // PHP 8.5 wants the handle, and says so.
            } catch (TypeError) {
                return false;
            }
        },
        worker: STAYS,
    ),
    'socket, listening' => new Channel(
        pollute: function () {
            Kept::$things['socket'] = stream_socket_server('tcp://127.0.0.1:0');
            file_put_contents(note('socket'), stream_socket_get_name(Kept::$things['socket'], false));
        },
        probe: function () {
            $address = @file_get_contents(note('socket'));
            return $address && @stream_socket_client("tcp://$address", timeout: 1) !== false;
        },
        worker: STAYS,
    ),
    'socket of pfsockopen()' => new Channel(
        pollute: function () { pfsockopen($_SERVER['SERVER_ADDR'], (int) $_SERVER['SERVER_PORT']); },
        probe: fn () => descriptors(),
        fpm: SHARED,
        classic: SHARED,
        worker: SHARED,
    ),
    'stat cache' => new Channel(
        pollute: function () {
            touch(note('stat'));
            filesize(note('stat'));
            // By another process: what PHP itself writes clears the cache from PHP 8.4 on.
            proc_close(proc_open(['sh', '-c', 'printf polluted >"$0"', note('stat')], [], $pipes));
        },
        probe: fn () => @filesize(note('stat')) === 0,
    ),
    'realpath cache' => new Channel(
        pollute: function () { realpath('/etc/passwd'); },
        probe: fn () => isset(realpath_cache_get()['/etc/passwd']),
        fpm: SHARED,
        classic: SHARED,
        worker: SHARED,
    ),
];
