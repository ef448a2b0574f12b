<?php
for ($number = 0; $number < (int) $_GET['count']; $number++) {
    header("X-Number-$number: " . str_repeat((string) ($number % 10), (int) $_GET['size']));
}
echo 'done';
