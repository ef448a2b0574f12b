<?php

$answer = require __DIR__ . '/app.php';
while (tokamak_handle_request($answer)) {
}
