<?php
// Objects of the boot, among them one that outlives every request, and what a request leaves
// behind.
class Witness
{
    public function __construct(private string $name = 'destructor')
    {
    }

    public function __destruct()
    {
        leave($this->name);
    }
}

function leave(string $name): void
{
    file_put_contents(getenv('STATE') . '/' . $name, 'ran');
}

$boot = new Witness('boot');

ini_get('output_buffering') or ob_start();
echo "booted\n";
