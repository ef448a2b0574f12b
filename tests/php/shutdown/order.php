<?php
// Objects that are still there at the end, by whom they are held.
class Thing
{
    public static $held;
    public function __construct(private string $name, public ?Thing $uses = null) {}
    public function __destruct() { echo $this->name, ' '; }
}
$connection = new Thing('connection');
$statement = new Thing('statement', $connection);
$list = [new Thing('in-an-array')];
$one = $other = new Thing('held-twice');
Thing::$held = new Thing('static', new Thing('of-static'));
$circle = new Thing('circle');
$circle->uses = $circle;
$last = new Thing('last');
if (isset($_GET['exit'])) {
    exit;
}
if (isset($_GET['fatal'])) {
    trigger_error('fatal', E_USER_ERROR);
}
if (isset($_GET['throw'])) {
    $thrower = new class {
        public function __destruct() { throw new LogicException('in a destructor'); }
    };
}
