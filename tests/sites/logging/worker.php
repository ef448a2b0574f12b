<?php
require __DIR__ . '/logging.php';
while (tokamak_handle_request(answer(...))) {
}
