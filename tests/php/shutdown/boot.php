<?php
// What stays open from one request to the next where the boot lives on: the boot script of sealed
// mode. Elsewhere the scripts include it, and it is theirs.
class Buffering
{
    public $context;
    private string $held = '';
    public function stream_open(): bool { return true; }
    public function stream_write(string $data): int { $this->held .= $data; return strlen($data); }
    public function stream_flush(): bool
    {
        file_put_contents(getenv('STATE') . '/wrapped', $this->held, FILE_APPEND);
        $this->held = '';
        return true;
    }
}
class Kept
{
    public function __destruct() { touch(getenv('STATE') . '/kept-destroyed'); }
}
stream_wrapper_register('buffering', Buffering::class);
$kept = new Kept();
$streams = [
    'compressed' => gzopen(getenv('STATE') . '/compressed.gz', 'a'),
    'filtered' => fopen(getenv('STATE') . '/filtered', 'a'),
    'wrapped' => fopen('buffering://', 'w'),
];
stream_filter_append($streams['filtered'], 'convert.base64-encode', STREAM_FILTER_WRITE);
