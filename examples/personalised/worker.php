<?php

// The same application in the server's own PHP, in worker mode.

require __DIR__.'/src/Application.php';
require __DIR__.'/src/send.php';

$application = Personalised\Application::fromEnvironment();
while (tokamak_handle_request(static fn () => Personalised\send($application->answer($_SERVER))));
