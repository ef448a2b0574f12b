<?php

while (tokamak_handle_request(static fn () => print ini_get('highlight.string'))) {
}
