<?php
require_once __DIR__ . '/boot.php';
while (tokamak_handle_request(static fn () => answer($made))) {
}
